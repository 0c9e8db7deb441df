"""Plan, implement, review, until the code matches the specs.

The loop performs one step of the course at a time. What comes next is decided by `course.advance`; each
position is on disk before its step begins, so that a loop that died goes on with that step.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from datetime import datetime
from pathlib import Path
from random import Random
from typing import Protocol

import msgspec
import trio

from cuggino.agents.agent import Agent
from cuggino.agents.prompts import Prompt, fill
from cuggino.clock import uuid7
from cuggino.config import Config
from cuggino.errors import CugginoError, GitError, LoopError
from cuggino.events import (
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
from cuggino.loop.command import Commands
from cuggino.loop.course import Course, Outcome, Report, Step, advance
from cuggino.loop.session import Session
from cuggino.loop.turn import LimitReached, take_turn
from cuggino.project import Project
from cuggino.roles import Role


class Repository(Protocol):
    """What a loop needs of git."""

    async def head(self) -> str | None: ...
    async def is_dirty(self, exclude: list[Path]) -> bool: ...
    async def commit(self, message: str, *, exclude: list[Path]) -> str | None: ...
    async def tree_fingerprint(self, exclude: list[Path]) -> str: ...


class LoopContext(msgspec.Struct, frozen=True, kw_only=True):
    """All that a loop works with. The parts that wait for the world are ports: tests give others."""

    project: Project
    config: Config
    agent: Callable[[Role], Agent]
    commands: Commands
    git: Repository
    now: Callable[[], datetime]
    random: Random
    sleep: Callable[[float], Awaitable[None]] = trio.sleep
    """For waits that a person may want to end; what it raises then comes out of `run_loop`."""


async def run_loop(context: LoopContext, session: Session, send: Send) -> LoopTerminalEvent:
    """Run or go on with a session until it ends; returns the last event, which was sent as well, as LoopStart is first.

    A failure is sent as LoopFailed and raised as LoopError. Cancelled, it sends nothing more; the session's
    files are whole, nothing that it started is alive, and a later `run_loop` goes on with the step that was
    interrupted. The session's files are the caller's to delete, by `Session.delete`, when the loop has ended.
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
        """Perform steps until the course has ended. Then what setup left running is stopped."""
        failure: Exception | None = None
        async with trio.open_nursery() as left_running:
            try:
                await self._begin(left_running)
                while self._session.state.ended is None:
                    course = self._session.state.course
                    self._follow(course, await self._perform(course, left_running))
            except Exception as error:
                failure = error  # out of the nursery, which would wrap it in a group
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
                    await self._say(
                        "The working tree has changes that are not committed: they will be in the first commit."
                    )
        elif state.ended is None and state.course.step not in (Step.PLAN, Step.SETUP):
            await self._start_iteration(state.course)
            await self._set_up(left_running)  # what it had left running ended with the process that was interrupted

    def _follow(self, course: Course, report: Report) -> None:
        following = advance(
            course,
            report,
            max_iterations=self._config.max_iterations,
            max_tasks=self._config.limits.max_tasks,
        )
        if isinstance(following, Course):
            self._session.update(course=following)
        elif following.outcome is Outcome.FAILED:
            # who goes on with the session has looked at it: the count begins anew
            self._session.update(course=msgspec.structs.replace(course, tasks=0, unchanged=0))
            raise LoopError(following.content, Role.IMPLEMENTER, advice=f"Its work is kept; {self._how_to_go_on()}")
        elif following.outcome is Outcome.SPEC_ISSUE:
            self._session.update(ended=following, issue_file=f"{uuid7()}.md")
            self._session.persist_issue()
        else:
            self._session.update(ended=following)

    def _how_to_go_on(self) -> str:
        return f"`cuggino run --resume {self._session.id}` goes on with it."

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

    async def _perform(self, course: Course, left_running: trio.Nursery) -> Report:
        await self._start_iteration(course)
        match course.step:
            case Step.PLAN:
                return await self._plan()
            case Step.SETUP:
                await self._set_up(left_running)
            case Step.CHECK:
                await self._check()
            case Step.IMPLEMENT:
                return await self._implement()
            case Step.COMMIT:
                await self._commit(course.message)
            case Step.REVIEW:
                return await self._review()
        return Report()

    async def _start_iteration(self, course: Course) -> None:
        if self._started_iteration != course.iteration:
            self._started_iteration = course.iteration
            await self._send(IterationStart(iteration=course.iteration, max_iterations=self._config.max_iterations))

    async def _plan(self) -> Report:
        await self._send(PlanningStart(iteration=self.iteration))
        self._session.forget_draft()
        review = ""
        if self._session.state.has_review:
            review = f"- A review of the code as it is now, read it first: {self._session.review}\n"
        values = {"plan": str(self._session.draft), "review": review, "focus": self._session.state.focus}
        prompt = fill(Role.PLANNER, self._common() | values, writable=(self._session.draft,))
        return Report(marker=await self._turn(Role.PLANNER, prompt))

    async def _implement(self) -> Report:
        await self._send(ImplementingStart(iteration=self.iteration))
        before = await self._context.git.tree_fingerprint(self._state_dir)
        prompt = fill(Role.IMPLEMENTER, self._common() | {"session": str(self._session.file)})
        marker = await self._turn(Role.IMPLEMENTER, prompt)
        changed = await self._context.git.tree_fingerprint(self._state_dir) != before
        return Report(marker=marker, changed=changed)

    async def _review(self) -> Report:
        await self._send(ReviewingStart(iteration=self.iteration))
        self._session.forget_review()
        before = await self._context.git.tree_fingerprint(self._state_dir)
        baseline = ""
        if commit := self._session.state.baseline:
            baseline = f"- What this work has changed and committed: `git diff {commit}..HEAD`\n"
        values = {
            "session": str(self._session.file),
            "review": str(self._session.review),
            "baseline": baseline,
        }
        prompt = fill(Role.REVIEWER, self._common() | values, writable=(self._session.review,))
        marker = await self._turn(Role.REVIEWER, prompt)
        if await self._context.git.tree_fingerprint(self._state_dir) != before:
            await self._say(
                "The working tree changed while the reviewer ran, who may not change it: look at `git status`."
            )
        if isinstance(marker, RequestChanges):
            self._session.adopt_review(marker.content)
        return Report(marker=marker)

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

    async def _commit(self, message: str) -> None:
        if not self._config.commit:
            return
        event: Event
        try:
            commit = await self._context.git.commit(message, exclude=self._not_committed)
        except GitError as error:
            event = CommitFailed(iteration=self.iteration, message=str(error))
        else:
            if commit is None:
                return
            event = CommitPerformed(iteration=self.iteration, commit_hash=commit, message=message)
        await self._send(event)

    # ---- words

    def _common(self) -> dict[str, str]:
        check = ""
        if self._session.state.check_exit is not None:
            check = (
                f"- The check command's last run exited with {self._session.state.check_exit}; "
                f"its output: {self._session.check}\n"
            )
        return {
            "iteration": str(self.iteration),
            "max_iterations": str(self._config.max_iterations),
            "specs": str(self._context.project.root / self._config.specs_path),
            "check": check,
        }

    async def _say(self, text: str) -> None:
        await self._send(SystemMessage(text=text))
