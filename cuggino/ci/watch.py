"""The watch over one pull request: sleep, poll, decide, mend, until it is green, merged or closed."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Literal

import msgspec
import trio

from cuggino.ci.decide import (
    EXIT_CODES,
    FAILED_POLLS,
    GRACE,
    Ending,
    Known,
    System,
    Trust,
    View,
    ending,
    newest,
    next_interval,
    refusal,
    resumed_head_is_young,
    says_something,
    view,
)
from cuggino.ci.file import StateFile
from cuggino.ci.fixing import Fixing, at_head
from cuggino.ci.ports import Branch, Fixers, Hub, Limited, NonFastForward, PollFailed
from cuggino.ci.pull import PullRequest
from cuggino.ci.state import FIRST_INTERVAL, State, one_line
from cuggino.errors import CugginoError
from cuggino.events import (
    CiPolled,
    CiPollFailed,
    CiPushDetected,
    CiRateLimited,
    CiStateLoaded,
    CiWatchEnded,
    Send,
    SystemMessage,
)
from cuggino.signals import Shutdown

LAST_WORDS = 2.0
"""Seconds that the last event may take when everything else was interrupted."""

Exit = Literal["all_green", "pr_merged", "pr_closed", "iterations", "failed", "interrupted"]

_SYSTEMS: dict[System, str] = {
    "github-actions": "CI: GitHub Actions.",
    "buildkite": "CI: Buildkite. Its logs are not read: agents get what its checks say.",
    "unknown": "CI: unknown. Its logs are not read: agents get what its checks say.",
}

replace = msgspec.structs.replace


async def watch_pull(
    *,
    file: StateFile,
    hub: Hub,
    context: Callable[[PullRequest], Awaitable[tuple[Branch, Fixers]]],
    system: System,
    trust: Trust,
    trust_author: bool,
    limit: int,
    shutdown: Shutdown,
    send: Send,
    now: Callable[[], datetime],
    sleep: Callable[[float], Awaitable[None]] = trio.sleep,
) -> int:
    """Watch until there is an exit; its code. CiWatchEnded is the last event, always.

    `context` are the pull request's branch and the agents, asked for when it is known that it may be worked on.
    Cancelled, everything that it started is ended; the state file is whole, and the next watch goes on from it.
    """
    watch = _Watch(file, hub, context, system, trust, trust_author, limit, send, now, sleep)
    end: Exit = "failed"
    try:
        end = await watch.run()
    except CugginoError as error:
        watch.errors.append(str(error))
    finally:
        interrupted = trio.current_effective_deadline() == -math.inf
        if interrupted:
            end = "interrupted"
        code = EXIT_CODES.get(end, 128 + (shutdown.signal or 2))
        with trio.move_on_after(LAST_WORDS, shield=interrupted):
            await send(CiWatchEnded(exit=end, exit_code=code, summary=watch.summary(), state_file=str(file.path)))
    return code


class _Watch:
    def __init__(
        self,
        file: StateFile,
        hub: Hub,
        context: Callable[[PullRequest], Awaitable[tuple[Branch, Fixers]]],
        system: System,
        trust: Trust,
        trust_author: bool,
        limit: int,
        send: Send,
        now: Callable[[], datetime],
        sleep: Callable[[float], Awaitable[None]],
    ) -> None:
        self.errors: list[str] = []
        self._file = file
        self._hub = hub
        self._hands = context
        self._system: System = system
        self._trust = trust
        self._trust_author = trust_author
        self._limit = limit
        self._send = send
        self._now = now
        self._sleep = sleep
        self._failed = 0
        self._limited: float | None = None
        self._fixing: Fixing | None = None
        self._branch: Branch | None = None
        self._seen: View | None = None
        # what is known of the head's checks
        self._names: frozenset[str] | None = None
        self._expected: frozenset[str] | None = frozenset()
        self._polls = GRACE
        self._empty = 0

    async def run(self) -> Exit:
        stored = self._file.load()
        await self._send(
            CiStateLoaded(
                path=str(self._file.path),
                resumed=stored is not None,
                iteration=stored.iteration if stored is not None else 0,
            )
        )
        pull = await self._open(stored.interval if stored is not None else FIRST_INTERVAL)
        if pull is None:
            return "failed"
        if pull.state != "OPEN":
            return "pr_merged" if pull.state == "MERGED" else "pr_closed"
        await self._send(SystemMessage(text=_SYSTEMS[self._system]))
        self._branch, menders = await self._hands(pull)
        fixing = Fixing(self._file, self._hub, self._branch, menders, self._trust, self._send, self._now)
        self._fixing = fixing
        if stored is None:
            head = pull.head or pull.last_head
            self._file.save(State(number=pull.number, head=head, started=self._now().replace(microsecond=0)))
        else:
            fixing.log(f"resumed at iteration {stored.iteration}")
            if resumed_head_is_young(stored, self._now()):
                self._polls, self._expected = 0, None
        for iteration in range(1, self._limit + 1):
            if (end := await self._iterate(iteration, fixing)) is not None:
                return end
        return "iterations"

    def summary(self) -> tuple[str, ...]:
        if self._fixing is None:
            return tuple(self.errors)
        report = self._fixing.report
        report.errors = self.errors
        if self._seen is not None:
            report.open, report.status = self._seen.open, self._seen.status
        return report.lines()

    # ---- the start

    async def _open(self, interval: int) -> PullRequest | None:
        """The first look: whose it is, and whether it can be worked on. None: it is not, as `errors` say."""
        while True:
            self._limited = None
            try:
                pull = await self._hub.poll()
                allowed = await self._is_allowed(pull)
                self._failed = 0
                return pull if allowed else None
            except Limited as limited:
                await self._is_limited(limited)
            except PollFailed as failure:
                await self._poll_failed(failure)
            if self._failed >= FAILED_POLLS:
                return None
            interval = next_interval(interval, busy=False, limited=self._limited)
            await self._sleep(interval)

    async def _is_allowed(self, pull: PullRequest) -> bool:
        may_write = True
        if pull.state == "OPEN" and not self._trust_author:
            may_write = pull.author is not None and await self._hub.may_write(pull.author)
        why = refusal(pull, author_may_write=may_write, trust_author=self._trust_author)
        if why is not None:
            self.errors.append(f"Pull request #{pull.number} is not watched: {why}")
        return why is None

    # ---- an iteration

    async def _iterate(self, iteration: int, fixing: Fixing) -> Exit | None:
        await self._sleep(self._file.read().interval)
        self._file.update(lambda state: replace(state, iteration=state.iteration + 1))
        fixing.begin()
        self._limited = None
        end: Exit | None = None
        try:
            end = await self._act(await self._hub.poll(), iteration, fixing)
            self._failed = 0
        except Limited as limited:
            await self._is_limited(limited)
        except PollFailed as failure:
            await self._poll_failed(failure)
        except NonFastForward:
            pass
        finally:
            if fixing.moved:
                self._new_head()
            self._file.update(
                lambda state: replace(
                    state, interval=next_interval(state.interval, busy=fixing.busy, limited=self._limited)
                )
            )
        return "failed" if self._failed >= FAILED_POLLS else end

    async def _act(self, pull: PullRequest, iteration: int, fixing: Fixing) -> Ending | None:
        if pull.state == "OPEN":
            await fixing.recover(pull)
            if fixing.moved:
                self._names = None
                self._new_head()
                fixing.moved = False
        if pull.state == "OPEN" and not await self._is_of_head(pull, fixing):
            await self._tell(iteration, "actionable=pending new_failures=0 new_threads=0 pending=[]")
            return None
        state = self._file.read()
        seen = self._seen = view(pull, state, self._known(pull))
        await self._tell(iteration, seen.status, seen)
        self._names = frozenset(check.name for check in newest(pull.checks))
        if pull.state == "OPEN":
            await fixing.threads(pull, seen)
            await fixing.failures(pull, seen)
        return ending(pull, seen, iterations=iteration, limit=self._limit)

    async def _tell(self, iteration: int, status: str, seen: View | None = None) -> None:
        self._file.update(lambda state: replace(state, status=one_line(status)))
        await self._send(
            CiPolled(
                iteration=iteration,
                actionable=seen.actionable if seen is not None else "pending",
                new_failures=seen.new_failures if seen is not None else 0,
                new_threads=len(seen.threads) if seen is not None else 0,
                pending=seen.pending if seen is not None else (),
            )
        )

    async def _is_of_head(self, pull: PullRequest, fixing: Fixing) -> bool:
        """Whether the poll is about the branch's head. A poll lags behind a push; git does not."""
        old = self._file.read().head
        if pull.head == old:
            return True
        assert self._branch is not None
        new = await self._branch.head()
        if new is None:
            raise PollFailed(f"the branch {pull.branch} does not exist any more")
        if new != old:
            self._file.update(lambda state: at_head(state, new, self._now()))
            fixing.log(f"somebody pushed {new[:7]}")
            fixing.busy = True
            self._new_head()
            await self._send(CiPushDetected(old=old, new=new))
        return pull.head == new

    def _new_head(self) -> None:
        self._expected, self._polls, self._empty = self._names, 0, 0

    def _known(self, pull: PullRequest) -> Known:
        self._polls += 1
        self._empty = 0 if says_something(pull) else self._empty + 1
        return Known(
            system=self._system,
            trust=self._trust,
            settling=self._polls <= GRACE,
            expected=self._expected,
            empty=self._empty,
        )

    # ---- polls

    async def _poll_failed(self, failure: PollFailed) -> None:
        self._failed += 1
        if self._fixing is not None:
            self._file.update(lambda state: replace(state, status=one_line(f"the poll failed: {failure}")))
        if self._failed >= FAILED_POLLS:
            self.errors.append(f"{FAILED_POLLS} polls in a row have failed: {failure}")
        await self._send(CiPollFailed(attempt=self._failed, message=str(failure)))

    async def _is_limited(self, limited: Limited) -> None:
        self._limited = limited.seconds
        if self._fixing is not None:
            self._file.update(lambda state: replace(state, status=one_line(f"rate limit: {limited.message}")))
        seconds = next_interval(FIRST_INTERVAL, busy=False, limited=limited.seconds)
        await self._send(CiRateLimited(seconds=seconds, message=limited.message))
