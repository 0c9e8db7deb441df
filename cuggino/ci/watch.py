"""The watch over one pull request: sleep, poll, decide, fix, until it is green, merged or closed."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypeAlias

import trio

from cuggino import events
from cuggino.ci import decide
from cuggino.ci.checks import System, label
from cuggino.ci.decide import FAILED_POLLS, GRACE, MISSING, Ending, PollContext, Trust, View
from cuggino.ci.fixing import PullRequestFixer
from cuggino.ci.intervals import DEFAULT, CiIntervals
from cuggino.ci.journal import CiReport, Journal
from cuggino.ci.ports import Branch, Fixers, NonFastForward, PollFailed, PullRequestApi, RateLimited
from cuggino.ci.pull_request import PullRequestSnapshot
from cuggino.ci.state import CiState, one_line, replace
from cuggino.ci.state_file import StateFile
from cuggino.ci.state_format import ACCEPTED
from cuggino.errors import CugginoError
from cuggino.events import Send
from cuggino.signals import Shutdown

LAST_EVENT = 2.0
"""Seconds that the last event may take after everything else was interrupted."""

Exit: TypeAlias = Ending | Literal["failed", "interrupted"]

_SYSTEMS: dict[System, str] = {
    "github-actions": "CI: GitHub Actions.",
    "buildkite": "CI: Buildkite. Its logs are not read; agents get what its checks say.",
    "unknown": "CI: unknown. Its logs are not read; agents get what its checks say.",
}


@dataclass(frozen=True)
class CiWatchContext:
    """What a watch works with."""

    file: StateFile
    api: PullRequestApi
    open_branch: Callable[[PullRequestSnapshot], Awaitable[tuple[Branch, Fixers]]]
    """The branch and the agents, asked for once it is known that the pull request may be worked on."""
    system: System
    trust: Trust
    trust_author: bool
    limit: int
    """The number of iterations after which this run ends."""
    send: Send
    now: Callable[[], datetime]


async def watch_pull_request(context: CiWatchContext, shutdown: Shutdown, intervals: CiIntervals = DEFAULT) -> int:
    """Watch until there is a reason to end; return the exit code. CiWatchEnded is always the last event.

    Cancelled, it ends everything that it started. The state file stays whole, and the next watch continues from it.
    """
    report = CiReport()
    end: Exit = "failed"
    try:
        end = await _PullRequestWatch(context, intervals, report).run()
    except CugginoError as error:
        report.errors.append(str(error))
    finally:
        interrupted = trio.current_effective_deadline() == -math.inf
        if interrupted:
            end = "interrupted"
        code = decide.EXIT_CODES.get(end, 128 + (shutdown.signal or 2))
        ended = events.CiWatchEnded(exit=end, exit_code=code, summary=report.lines(), state_file=str(context.file.path))
        with trio.move_on_after(LAST_EVENT, shield=interrupted):
            await context.send(ended)
    return code


class _Head:
    """Knowledge about how long the head is known."""

    def __init__(self) -> None:
        self.polls = 0
        """Polls of this head, by this watch."""
        self._unknown = False
        self._empty = 0

    def replace(self) -> None:
        """The branch has another head."""
        self._unknown = self._unknown or self.polls == 0
        self.polls = self._empty = 0

    def expect_anything(self) -> None:
        """The head is new, and which checks it will have is not known."""
        self._unknown, self.polls = True, 0

    def poll(self, pull: PullRequestSnapshot, system: System, trust: Trust) -> PollContext:
        """Count a poll of this head."""
        self.polls += 1
        self._empty = 0 if decide.has_results(pull) else self._empty + 1
        self._unknown = self._unknown and self.polls <= GRACE
        return PollContext(system=system, trust=trust, settling=self._unknown, empty=self._empty)


class _PullRequestWatch:
    def __init__(self, context: CiWatchContext, intervals: CiIntervals, report: CiReport) -> None:
        self._context = context
        self._file = context.file
        self._send = context.send
        self._intervals = intervals
        self._report = report
        self._failed = 0
        """Failed polls in a row."""
        self._limited: float | None = None
        self._journal = Journal(context.file, report, context.send, context.now)
        self._head = _Head()

    async def run(self) -> Exit:
        stored = self._file.load()
        path, iteration = str(self._file.path), stored.iteration if stored is not None else 0
        await self._send(events.CiStateLoaded(path=path, resumed=stored is not None, iteration=iteration))
        pull = await self._open(stored)
        if pull is None:
            return "failed"
        if pull.state != "OPEN":
            return "pr_merged" if pull.state == "MERGED" else "pr_closed"
        await self._send(events.SystemMessage(text=_SYSTEMS[self._context.system]))
        branch, fixers = await self._context.open_branch(pull)
        fixer = PullRequestFixer(self._journal, self._context.api, branch, fixers, self._context.trust)
        now = self._context.now().replace(microsecond=0)
        if stored is None:
            head = pull.head or pull.last_head
            self._file.save(CiState(number=pull.number, head=head, started=now, interval=self._intervals.first))
        else:
            self._journal.log(f"resumed at iteration {stored.iteration}")
        if decide.head_is_recent(pull, stored, now):
            self._head.expect_anything()
        for number in range(1, self._context.limit + 1):
            if (end := await self._iterate(number, branch, fixer)) is not None:
                return end
        return "iterations"

    async def _sleep(self, seconds: float) -> None:
        await trio.sleep(seconds * self._intervals.scale)

    # ---- the start

    async def _open(self, stored: CiState | None) -> PullRequestSnapshot | None:
        """Poll before the first sleep. Return None if the pull request may not be watched, as the report says."""
        interval = stored.interval if stored is not None else self._intervals.first
        while True:
            self._limited = None
            try:
                pull = await self._context.api.poll()
                allowed = await self._is_allowed(pull)
                self._failed = 0
                return pull if allowed else None
            except RateLimited as limited:
                await self._report_limit(limited)
            except PollFailed as failure:
                await self._report_failed_poll(failure)
            if self._failed >= FAILED_POLLS:
                return None
            interval = self._intervals.next(interval, busy=False, limited=self._limited)
            await self._sleep(interval)

    async def _is_allowed(self, pull: PullRequestSnapshot) -> bool:
        may_write = True
        if pull.state == "OPEN" and not self._context.trust_author:
            may_write = pull.author is not None and await self._context.api.may_write(pull.author)
        why = decide.refusal_reason(pull, author_may_write=may_write, trust_author=self._context.trust_author)
        if why is not None:
            self._report.errors.append(f"Pull request #{pull.number} is not watched: {why}")
        return why is None

    # ---- an iteration

    async def _iterate(self, number: int, branch: Branch, fixer: PullRequestFixer) -> Exit | None:
        await self._sleep(self._file.read().interval)
        self._file.update(lambda state: replace(state, iteration=state.iteration + 1))
        self._journal.start_iteration()
        self._limited = None
        end: Exit | None = None
        try:
            end = await self._act(await self._context.api.poll(), number, branch, fixer)
            self._failed = 0
        except RateLimited as limited:
            self._write_status(f"rate limit: {limited.message}")
            await self._report_limit(limited)
        except PollFailed as failure:
            self._write_status(f"the poll failed: {failure}")
            await self._report_failed_poll(failure)
        except NonFastForward:
            pass  # the next poll shows what the other push changed
        finally:
            if self._journal.head_moved:
                self._head.replace()
            self._file.update(self._with_next_interval)
        return "failed" if self._failed >= FAILED_POLLS else end

    def _with_next_interval(self, state: CiState) -> CiState:
        interval = self._intervals.next(state.interval, busy=self._journal.busy, limited=self._limited)
        return replace(state, interval=interval)

    async def _act(
        self, pull: PullRequestSnapshot, number: int, branch: Branch, fixer: PullRequestFixer
    ) -> Ending | None:
        if pull.state == "OPEN":
            await fixer.recover(pull)
            if self._journal.head_moved:
                self._head.expect_anything()
                self._journal.head_moved = False
            if pull.head != self._file.read().head and not await self._is_of_head(pull, branch):
                await self._report_poll(number, View())
                return None
        seen = decide.view(pull, self._file.read(), self._head.poll(pull, self._context.system, self._context.trust))
        labels = [label(check) for check in pull.checks]
        if pull.state == "OPEN" and not set(labels) <= set(self._file.read().expected):
            self._file.update(lambda state: state.with_expected(labels))
        if seen.green and not await self._is_of_head(pull, branch):
            await self._report_poll(number, View())
            return None
        self._report.open_threads, self._report.status = seen.open_threads, seen.status
        await self._report_poll(number, seen)
        await self._leave_missing(seen)
        if pull.state == "OPEN":
            await fixer.fix_threads(pull, seen)
            await fixer.fix_failures(pull, seen)
        return decide.ending(pull, seen, iterations=number, limit=self._context.limit)

    async def _leave_missing(self, seen: View) -> None:
        for name in seen.missing if self._head.polls >= MISSING else ():
            reason = f"it is gone from the head; to accept that, add `- {name}` to `{ACCEPTED}` in the state file"
            await self._journal.leave(f"missing {name}", name, reason)

    async def _is_of_head(self, pull: PullRequestSnapshot, branch: Branch) -> bool:
        """Return whether the poll shows the branch's head. A poll may lag behind a push; git does not."""
        old = self._file.read().head
        new = await branch.head()
        if new is None:
            raise PollFailed(f"the branch {pull.branch} does not exist any more")
        if new != old:
            self._journal.record(lambda state: state.with_head(new, self._context.now()))
            self._journal.log(f"somebody pushed {new[:7]}")
            self._head.replace()
            await self._send(events.CiPushDetected(old=old, new=new))
        return pull.head == new

    def _write_status(self, status: str) -> None:
        self._file.update(lambda state: replace(state, status=one_line(status)))

    async def _report_poll(self, number: int, seen: View) -> None:
        self._write_status(seen.status)
        await self._send(
            events.CiPolled(
                iteration=number,
                actionable=seen.actionable,
                new_failures=seen.new_failures,
                new_threads=len(seen.threads),
                pending=seen.pending,
            )
        )

    async def _report_failed_poll(self, failure: PollFailed) -> None:
        self._failed += 1
        if self._failed >= FAILED_POLLS:
            self._report.errors.append(f"{FAILED_POLLS} polls in a row failed: {failure}")
        await self._send(events.CiPollFailed(attempt=self._failed, message=str(failure)))

    async def _report_limit(self, limited: RateLimited) -> None:
        self._limited = limited.seconds
        seconds = self._intervals.next(self._intervals.first, busy=False, limited=limited.seconds)
        await self._send(events.CiRateLimited(seconds=seconds, message=limited.message))
