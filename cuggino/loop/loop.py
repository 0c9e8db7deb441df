"""Plan, implement and review until the code matches the specs.

The loop performs one step of the course at a time, and `course.advance` decides on the next one. Each position is
on disk before its step begins, so a loop that died resumes with that step.
"""

from __future__ import annotations

import math
from contextlib import suppress
from functools import partial

import msgspec
import trio

from cuggino.agents.prompts import Prompt, fill
from cuggino.clock import uuid7
from cuggino.errors import CugginoError, GitError, LoopError, StorageError
from cuggino.events import (
    Approved,
    CheckCommandOutput,
    CommitFailed,
    CommitPerformed,
    Event,
    ImplementingStart,
    IterationStart,
    LlmTerminalMarkerEvent,
    LoopApproved,
    LoopFailed,
    LoopLimitReached,
    LoopMaxIterations,
    LoopSpecIssue,
    LoopStart,
    LoopTerminalEvent,
    PlanningStart,
    RequestChanges,
    ReviewingStart,
    Send,
    SetupCommandOutput,
    SystemMessage,
)
from cuggino.loop.command import read_end, within
from cuggino.loop.context import LoopContext
from cuggino.loop.course import Course, Outcome, Step, StepReport, advance
from cuggino.loop.session import Session
from cuggino.loop.turn import LimitReached, budget_left, take_turn
from cuggino.roles import Role


async def run_loop(context: LoopContext, session: Session, send: Send) -> LoopTerminalEvent:
    """Run or resume a session until it ends. Send LoopStart first; return the last event after sending it.

    Send a failure as LoopFailed and raise it as LoopError. When cancelled, send nothing more, leave the session's
    files intact and no process alive; a later `run_loop` resumes with the interrupted step. The caller deletes
    the session's files when the loop has ended (`Session.delete`).
    """
    loop = _Loop(context, session, send)
    state = session.state
    await send(
        LoopStart(
            iteration=loop.iteration,
            focus=state.focus,
            backlog_file=state.backlog_file,
            resumed=state.agents > 0,
        )
    )
    started = trio.current_time()
    before = session.state.elapsed
    limit = context.config.limits.max_runtime
    last: LoopTerminalEvent | None = None
    try:
        with trio.move_on_after(math.inf if limit is None else max(0.0, limit - before)):
            last = await loop.run()
        if last is None:
            last = LoopLimitReached(iteration=loop.iteration, limit="maxRuntime", value=limit or 0.0)
    except LimitReached as reached:
        last = LoopLimitReached(iteration=loop.iteration, limit=reached.limit, value=reached.value)
    except CugginoError as error:
        failure = error if isinstance(error, LoopError) else LoopError(error.message, "loop", advice=error.advice)
        await send(LoopFailed(iteration=loop.iteration, phase=failure.phase, message=str(failure)))
        raise failure from error.__cause__
    finally:
        with suppress(StorageError):  # must not hide how the loop ended
            session.update(elapsed=before + trio.current_time() - started)
    await send(last)
    return last


class _Loop:
    def __init__(self, context: LoopContext, session: Session, send: Send) -> None:
        self._context = context
        self._config = context.config
        self._session = session
        self._send = send
        project = context.project
        self._state_dir = [project.state_dir]
        self._not_committed = [project.state_dir, project.root / self._config.specs_path]
        self._started_iteration = 0

    @property
    def iteration(self) -> int:
        return self._session.state.course.iteration

    async def run(self) -> LoopTerminalEvent:
        """Perform steps until the course has ended, then stop what the setup command left running."""
        failure: Exception | None = None
        async with trio.open_nursery() as left_running:
            try:
                await self._begin(left_running)
                while self._session.state.ended is None:
                    course = self._session.state.course
                    self._advance(course, await self._perform(course, left_running))
            except Exception as error:
                failure = error  # raised outside of the nursery, which would wrap it in a group
            left_running.cancel_scope.cancel(reason="the session is over")
        if failure is not None:
            raise failure
        return self._last_event()

    async def _begin(self, left_running: trio.Nursery) -> None:
        state = self._session.state
        if state.course == Course():
            if self._config.commit:
                self._session.update(baseline=await self._context.git.head())
                if await self._context.git.is_dirty(self._not_committed):
                    await self._report("The working tree has uncommitted changes; they go into the first commit.")
        elif state.ended is None and state.course.step not in (Step.PLAN, Step.SETUP):
            await self._start_iteration(state.course)
            await self._set_up(left_running)  # what it had left running ended with the interrupted process

    def _advance(self, course: Course, report: StepReport) -> None:
        following = advance(
            course,
            report,
            max_iterations=self._config.max_iterations,
            max_tasks=self._config.limits.max_tasks,
        )
        if isinstance(following, Course):
            self._session.update(course=following)
        elif following.outcome is Outcome.FAILED:
            # whoever resumes the session has looked at it, so counting starts over
            self._session.update(course=msgspec.structs.replace(course, tasks=0, unchanged=0))
            advice = f"Its work is kept. To resume it: cuggino run --resume {self._session.id}"
            raise LoopError(following.content, Role.IMPLEMENTER, advice=advice)
        elif following.outcome is Outcome.SPEC_ISSUE:
            self._session.update(ended=following, issue_file=f"{uuid7()}.md")
            self._session.persist_issue()
        else:
            self._session.update(ended=following)

    def _last_event(self) -> LoopTerminalEvent:
        ended = self._session.state.ended
        assert ended is not None
        match ended.outcome:
            case Outcome.APPROVED:
                return LoopApproved(iteration=self.iteration)
            case Outcome.SPEC_ISSUE:
                filename = self._session.state.issue_file or ""
                return LoopSpecIssue(iteration=self.iteration, content=ended.content, filename=filename)
            case _:
                return LoopMaxIterations(iteration=self.iteration, max_iterations=self._config.max_iterations)

    # ---- the steps

    async def _perform(self, course: Course, left_running: trio.Nursery) -> StepReport:
        await self._start_iteration(course)
        if course.step in (Step.PLAN, Step.IMPLEMENT, Step.REVIEW):
            budget_left(self._config.limits, self._session)  # before the event says that an agent starts
        match course.step:
            case Step.PLAN:
                return await self._plan()
            case Step.SETUP:
                await self._set_up(left_running)
            case Step.CHECK:
                await self._check()
                return StepReport(refused=self._check_refuses)
            case Step.IMPLEMENT:
                return await self._implement()
            case Step.COMMIT:
                await self._commit(course.message)
            case Step.REVIEW:
                return await self._review()
        return StepReport()

    async def _start_iteration(self, course: Course) -> None:
        if self._started_iteration != course.iteration:
            self._started_iteration = course.iteration
            await self._send(IterationStart(iteration=course.iteration, max_iterations=self._config.max_iterations))

    async def _plan(self) -> StepReport:
        await self._send(PlanningStart(iteration=self.iteration))
        self._session.delete_draft()
        review = ""
        if self._session.state.has_review:
            review = f"- A review of the current code, read it first: {self._session.review}\n"
        values = {"plan": str(self._session.draft), "review": review, "focus": self._session.state.focus}
        prompt = fill(Role.PLANNER, self._common() | values, writable=(self._session.draft,))
        return StepReport(marker=await self._turn(Role.PLANNER, prompt))

    async def _implement(self) -> StepReport:
        await self._send(ImplementingStart(iteration=self.iteration))
        before = await self._context.git.tree_fingerprint(self._state_dir)
        prompt = fill(Role.IMPLEMENTER, self._common() | {"session": str(self._session.file)})
        marker = await self._turn(Role.IMPLEMENTER, prompt)
        changed = await self._context.git.tree_fingerprint(self._state_dir) != before
        return StepReport(marker=marker, changed=changed)

    async def _review(self) -> StepReport:
        await self._send(ReviewingStart(iteration=self.iteration))
        self._session.delete_review()
        before = await self._context.git.tree_fingerprint(self._state_dir)
        baseline = ""
        if commit := self._session.state.baseline:
            baseline = f"- The changes committed so far: `git diff {commit}..HEAD`\n"
        values = {
            "session": str(self._session.file),
            "review": str(self._session.review),
            "baseline": baseline,
        }
        prompt = fill(Role.REVIEWER, self._common() | values, writable=(self._session.review,))
        marker = await self._turn(Role.REVIEWER, prompt)
        if await self._context.git.tree_fingerprint(self._state_dir) != before:
            await self._report("The working tree changed while the read-only reviewer ran. Check it with `git status`.")
            if self._config.gate and isinstance(marker, Approved):
                await self._check()
        if isinstance(marker, RequestChanges):
            self._session.adopt_review(marker.content)
        elif isinstance(marker, Approved) and self._check_refuses:
            await self._report("The approval does not count: the check command fails.")
            self._session.adopt_check(read_end(self._session.check))
        return StepReport(marker=marker, refused=self._check_refuses)

    async def _turn(self, role: Role, prompt: Prompt) -> LlmTerminalMarkerEvent:
        return await take_turn(self._context, self._session, role, prompt, self._send)

    async def _set_up(self, left_running: trio.Nursery) -> None:
        if (command := self._config.setup_command) is None:
            return
        result = await self._context.commands.set_up(
            command,
            self._session.setup,
            timeout=self._config.limits.command_timeout,
            nursery=left_running,
        )
        await self._send(SetupCommandOutput(iteration=self.iteration, output=result.output, exit_code=result.exit_code))

    async def _check(self) -> None:
        if (command := self._config.check_command) is None:
            return
        result = await self._context.commands.run(
            command, self._session.check, timeout=self._config.limits.command_timeout
        )
        self._session.update(check_exit=result.exit_code)
        await self._send(CheckCommandOutput(iteration=self.iteration, output=result.output, exit_code=result.exit_code))

    @property
    def _check_refuses(self) -> bool:
        """Whether the last check failed and must not."""
        return self._config.gate and self._config.check_command is not None and self._session.state.check_exit != 0

    async def _commit(self, message: str) -> None:
        if not self._config.commit:
            return
        event: Event
        try:
            commit = await within(
                self._config.limits.command_timeout,
                partial(self._context.git.commit, message, exclude=self._not_committed),
                partial(self._report, "Waiting for `git commit`: a hook or the signature takes long."),
            )
        except GitError as error:
            event = CommitFailed(iteration=self.iteration, message=str(error))
        else:
            if commit is None:
                return
            event = CommitPerformed(iteration=self.iteration, commit_hash=commit, message=message)
        await self._send(event)

    # ---- texts

    def _common(self) -> dict[str, str]:
        check = ""
        if self._session.state.check_exit is not None:
            check = (
                f"- The last run of the check command exited with {self._session.state.check_exit}; "
                f"its output: {self._session.check}\n"
            )
        if self._check_refuses:
            check += "- There is no review, and no approval, before the check command succeeds.\n"
        return {
            "iteration": str(self.iteration),
            "max_iterations": str(self._config.max_iterations),
            "specs": str(self._context.project.root / self._config.specs_path),
            "check": check,
        }

    async def _report(self, text: str) -> None:
        await self._send(SystemMessage(text=text))
