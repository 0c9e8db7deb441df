"""The loop over the backlog: look, take, validate, wait, for ever. What comes next is decided by `course.decide`."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Literal

import msgspec
import trio
from trio_util import RepeatedEvent

from cuggino.clock import uuid7
from cuggino.errors import CugginoError
from cuggino.events import (
    Send,
    WatchAuditFailed,
    WatchEnded,
    WatchItemCompleted,
    WatchStopping,
    WatchValidationFailed,
    WatchValidationPassed,
    WatchValidationStarted,
)
from cuggino.loop.context import LoopContext
from cuggino.signals import Shutdown, ShutdownStage
from cuggino.watch.audit import audit, audit_fingerprint, code_fingerprint
from cuggino.watch.counting import FolderListing, PollHistory, watch_file_counts
from cuggino.watch.course import (
    DRAINED_EXIT_CODE,
    Action,
    AwaitItem,
    End,
    Recount,
    Take,
    Validate,
    WatchSnapshot,
    WatchState,
    after_validation,
    decide,
)
from cuggino.watch.intervals import WatchIntervals
from cuggino.watch.item import ItemOutcome, ItemProcess
from cuggino.watch.ledger import Ledger
from cuggino.watch.places import Place
from cuggino.watch.waiting import Counting, Waiting

LAST_WORDS = 2.0
"""Seconds that the last event may take when everything else was interrupted."""


_STAGES: dict[ShutdownStage, Literal["drain", "interrupt", "kill"]] = {
    ShutdownStage.DRAIN: "drain",
    ShutdownStage.INTERRUPT: "interrupt",
    ShutdownStage.KILL: "kill",
}


class Drained(Exception):
    """A wait in the middle of an item was ended by a drain."""


class WatchOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What a person asks of a watch. `already_archived` are items that a killed watch finished and did not report."""

    every: int = 10
    """Finished items between two validations."""
    until_idle: bool = False
    jobs: int = 1
    """Items that are worked on at a time."""
    already_archived: tuple[str, ...] = ()
    intervals: WatchIntervals = WatchIntervals()


async def run_watch(
    context: LoopContext,
    shutdown: Shutdown,
    sender: Callable[[str | None], Send],
    place: Place,
    options: WatchOptions,
    *,
    count: Counting | None = None,
) -> int:
    """Work through the backlog until stopped; return the exit code. WatchEnded is the last event, always.

    A drain (`shutdown`) ends what waits and lets what runs come to its end. Cancelled, it stops what runs: items and
    sessions stay, and a new watch resumes them. `count` stands in for the watching of the two folders.
    """
    watch = _BacklogWatch(context, shutdown, sender, place, options, count=count)
    send = sender(None)
    end = End("setup-failed", 1)  # if something raises that is not a cancellation
    with shutdown.reported_to(watch.report_shutdown):
        try:
            for name in options.already_archived:
                await send(WatchItemCompleted(filename=name))
            end = await watch.run()
        finally:
            if trio.current_effective_deadline() == -math.inf:
                end = End("interrupted", 128 + shutdown.signal if shutdown.signal is not None else DRAINED_EXIT_CODE)
            with trio.move_on_after(LAST_WORDS, shield=True):
                await shutdown.report()
                await send(WatchEnded(reason=end.reason, completed=watch.completed, exit_code=end.exit_code))
    return end.exit_code


class _BacklogWatch:
    def __init__(
        self,
        context: LoopContext,
        shutdown: Shutdown,
        sender: Callable[[str | None], Send],
        place: Place,
        options: WatchOptions,
        *,
        count: Counting | None,
    ) -> None:
        project, config = context.project, context.config
        self.completed = 0
        self._taken: set[str] = set()
        self._at_work: set[str] = set()
        """The taken items, except for those that are waiting in the middle of their work."""
        self._item_ended = RepeatedEvent()
        self._polls = PollHistory()
        self._waiting = trio.CancelScope()
        self._seen: FolderListing | None = None
        self._ready: tuple[str, ...] = ()
        self._blocked: set[str] = set()
        self._context = context
        self._shutdown = shutdown
        self._sender = sender
        self._send = sender(None)
        self._ledger = Ledger(project)
        self._place = place
        self._intervals = options.intervals
        self._items = ItemProcess(place, self._ledger, options.intervals)
        folders = (project.spec_issues, project.backlog)
        self._count = count or partial(watch_file_counts, folders, intervals=options.intervals)
        self._command = config.validate_command or config.check_command
        self._standing = WatchState(
            places=options.jobs,
            until_idle=options.until_idle,
            validates=self._command is not None,
            every=options.every,
        )

    async def run(self) -> End:
        """Decide and act until the watch is over; return how it ended."""
        await self._place.prepare()
        if self._standing.places == 1:
            return await self._act(None)
        async with trio.open_nursery() as workers:
            return await self._act(workers)

    async def _act(self, workers: trio.Nursery | None) -> End:
        """Items are worked on by the workers, or here, one after the other, without any."""
        action: Action = Recount()
        while not isinstance(action, End):
            match action:
                case Take() if workers is not None:
                    self._taken.add(action.name)
                    workers.start_soon(self._work_on, action.name)
                    action = self._decide(None)
                case Take():
                    await self._work_on(action.name)
                    action = self._decide(None)
                case AwaitItem():
                    await self._item_ended.wait()
                    action = self._decide(None)
                case Validate():
                    await self._validate()
                    action = self._decide(None)
                case _:
                    action = await self._wait()
        return action

    def _decide(self, known: WatchSnapshot | None) -> Action:
        standing = msgspec.structs.replace(self._standing, draining=self._shutdown.requested, active=len(self._taken))
        return decide(standing, known)

    # ---- waiting

    async def _wait(self) -> Action:
        """A waiting phase, which begins with fresh counts. Ended by a drain, or because an item that is being worked
        on has come to its end, it leads to what that demands."""
        waiting = Waiting(
            count=self._count,
            polls=self._polls,
            snapshot=self._know,
            decide=self._decide,
            background=self._audit if self._context.config.audit else None,
            send=self._send,
            idle_report=None if self._taken else self._intervals.idle_report,
        )
        async with self._shutdown.until_requested() as self._waiting:
            action = await waiting.run()
            if action is not None:
                return action
            self._standing = msgspec.structs.replace(self._standing, failure="poll-failed")
        return self._decide(None)

    def _know(self, counts: tuple[FolderListing, ...]) -> WatchSnapshot:
        spec_issues, backlog = counts
        if backlog is not self._seen:  # not in the middle of its debounce, when a file may be half written
            self._seen, self._ready = backlog, self._ledger.select_ready(backlog.names)
        blocked = len(backlog.names) - len(self._ready)
        ready = tuple(name for name in self._ready if name not in self._taken)
        return WatchSnapshot(spec_issues=len(spec_issues.names), ready=ready, blocked=blocked)

    async def _audit(self) -> None:
        """One audit, unless the last one that ended has seen all this."""
        try:
            code = await code_fingerprint(self._context)  # before it: what changes meanwhile it may not have seen
            if audit_fingerprint(self._context, code) == self._ledger.audited:
                return
            if await audit(self._context, self._sender):
                self._ledger.record_audit(audit_fingerprint(self._context, code))
        except CugginoError as error:
            await self._send(WatchAuditFailed(message=str(error)))

    # ---- working

    async def _work_on(self, name: str) -> None:
        self._at_work.add(name)
        context = msgspec.structs.replace(self._context, sleep=partial(self._sleep, name))
        try:
            result = await self._items.process(context, name, self._sender)
        except Drained:
            return
        finally:
            self._at_work.discard(name)
            self._taken.discard(name)
            self._item_ended.set()
            self._waiting.cancel(reason="an item has come to its end")
        finished = self._standing.finished
        match result:
            case ItemOutcome.COMPLETED:
                self.completed += 1
                if name not in self._blocked:  # it was counted when it was set aside
                    finished += 1
                self._blocked.discard(name)
            case ItemOutcome.BLOCKED if name not in self._blocked:
                self._blocked.add(name)
                finished += 1
            case ItemOutcome.CANNOT_WORK:
                self._standing = msgspec.structs.replace(self._standing, failure="setup-failed")
        self._standing = msgspec.structs.replace(self._standing, finished=finished)

    async def _validate(self) -> None:
        """Nothing is integrated meanwhile. A drain waits for it, an interrupt ends it."""
        async with self._place.integrating:
            await self._run_validation()

    async def _run_validation(self) -> None:
        assert self._command is not None
        finished = self._standing.finished
        await self._send(WatchValidationStarted(completed=finished))
        output = self._context.project.wip / f".{uuid7()}.validation.txt"
        try:
            result = await self._context.commands.run(
                self._command, output, timeout=self._context.config.limits.command_timeout
            )
        finally:
            output.unlink(missing_ok=True)
        passed = result.exit_code == 0
        self._standing = after_validation(self._standing, finished, passed=passed)
        await self._send(
            WatchValidationPassed(completed=finished)
            if passed
            else WatchValidationFailed(completed=finished, output=result.output, exit_code=result.exit_code)
        )

    async def _sleep(self, name: str, seconds: float) -> None:
        """A wait in the middle of an item: it ends with a drain, and the item with it."""
        self._at_work.discard(name)
        async with self._shutdown.until_requested():
            await trio.sleep(seconds)
        if self._shutdown.requested:
            raise Drained
        self._at_work.add(name)

    # ---- stopping

    async def report_shutdown(self, stage: ShutdownStage) -> None:
        await self._send(WatchStopping(stage=_STAGES[stage], active=len(self._at_work)))
