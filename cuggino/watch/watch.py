"""The loop over the backlog: look, take, validate, wait, for ever. What comes next is decided by `course.decide`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Literal

import msgspec
import trio
from trio_util import RepeatedEvent

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
from cuggino.project import uuid7
from cuggino.signals import Shutdown, ShutdownStage
from cuggino.watch.audit import audit, audit_fingerprint, code_fingerprint
from cuggino.watch.counting import FolderListing, watch_file_counts
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
from cuggino.watch.item import Process, Result, process
from cuggino.watch.ledger import Ledger
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


async def run_watch(
    context: LoopContext,
    shutdown: Shutdown,
    sender: Callable[[str | None], Send],
    *,
    every: int = 10,
    until_idle: bool = False,
    already_archived: tuple[str, ...] = (),
    count: Counting | None = None,
    places: int = 1,
    process: Process = process,
    intervals: WatchIntervals = WatchIntervals(),  # noqa: B008 - frozen
) -> int:
    """Work through the backlog until it is stopped; returns the exit code. WatchEnded is the last event, always.

    A drain (`shutdown`) ends what waits and lets what runs go on to its end. Cancelled, it stops what runs: items and
    sessions stay, a new watch goes on with them. `already_archived` are items that a former watch finished and
    did not tell. `count` stands in for the watching of the two folders. `places` is how many items are worked on
    at a time, each by `process`: with more than one it must not work in the person's own tree.
    """
    watch = _Watch(
        context,
        shutdown,
        sender,
        process,
        places=places,
        every=every,
        until_idle=until_idle,
        count=count,
        intervals=intervals,
    )
    send = sender(None)
    end = End("setup-failed", 1)  # if something raises that is no cancellation
    with watch.answering_presses():
        try:
            for name in already_archived:
                await send(WatchItemCompleted(filename=name))
            end = await watch.run()
        finally:
            if trio.current_effective_deadline() == -math.inf:
                end = End("interrupted", 128 + shutdown.signal if shutdown.signal is not None else DRAINED_EXIT_CODE)
            with trio.move_on_after(LAST_WORDS, shield=True):
                await watch.answer(shutdown.stage)
                await send(WatchEnded(reason=end.reason, completed=watch.completed, exit_code=end.exit_code))
    return end.exit_code


class _Watch:
    def __init__(
        self,
        context: LoopContext,
        shutdown: Shutdown,
        sender: Callable[[str | None], Send],
        process: Process,
        *,
        places: int,
        every: int,
        until_idle: bool,
        count: Counting | None,
        intervals: WatchIntervals,
    ) -> None:
        project, config = context.project, context.config
        self.completed = 0
        self._taken: set[str] = set()
        self._at_work: set[str] = set()
        """What is taken, but for items that only wait in their midst."""
        self._item_ended = RepeatedEvent()
        self._waiting = trio.CancelScope()
        self._answered = ShutdownStage.WORKING
        self._seen: FolderListing | None = None
        self._ready: tuple[str, ...] = ()
        self._blocked: set[str] = set()
        self._context = context
        self._shutdown = shutdown
        self._sender = sender
        self._send = sender(None)
        self._ledger = Ledger(project)
        self._intervals = intervals
        self._count = count or partial(watch_file_counts, (project.spec_issues, project.backlog), intervals=intervals)
        self._command = config.validate_command or config.check_command
        self._process = process
        self._standing = WatchState(
            places=places, until_idle=until_idle, validates=self._command is not None, every=every
        )

    async def run(self) -> End:
        if self._standing.places == 1:
            return await self._go_on(None)
        async with trio.open_nursery() as crew:
            return await self._go_on(crew)

    async def _go_on(self, crew: trio.Nursery | None) -> End:
        """Items are worked on by the crew, or one after the other where there is none."""
        action: Action = Recount()
        while not isinstance(action, End):
            match action:
                case Take() if crew is not None:
                    self._taken.add(action.name)
                    crew.start_soon(self._work_on, action.name)
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
        draining = self._shutdown.stage is not ShutdownStage.WORKING
        standing = msgspec.structs.replace(self._standing, draining=draining, active=len(self._taken))
        return decide(standing, known)

    # ---- waiting

    async def _wait(self) -> Action:
        """A waiting phase, which begins with fresh counts. Ended by a drain, or because an item that is being worked
        on has come to its end, it leads to what that demands."""
        waiting = Waiting(
            count=self._count,
            snapshot=self._know,
            decide=self._decide,
            background=self._audit if self._context.config.audit else None,
            send=self._send,
            idle_report=self._intervals.idle_report,
        )
        with self._shutdown.until_drain(), trio.CancelScope() as self._waiting:
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
            result = await self._process(context, self._ledger, name, self._sender)
        except Drained:
            return
        finally:
            self._at_work.discard(name)
            self._taken.discard(name)
            self._item_ended.set()
            self._waiting.cancel(reason="an item has come to its end")
        finished = self._standing.finished
        match result:
            case Result.COMPLETED:
                self.completed += 1
                if name not in self._blocked:  # it was counted when it was set aside
                    finished += 1
                self._blocked.discard(name)
            case Result.BLOCKED if name not in self._blocked:
                self._blocked.add(name)
                finished += 1
            case Result.CANNOT_WORK:
                self._standing = msgspec.structs.replace(self._standing, failure="setup-failed")
        self._standing = msgspec.structs.replace(self._standing, finished=finished)

    async def _validate(self) -> None:
        """A drain waits for it, an interrupt ends it."""
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
        self._standing = after_validation(self._standing, passed=passed)
        await self._send(
            WatchValidationPassed(completed=finished)
            if passed
            else WatchValidationFailed(completed=finished, output=result.output, exit_code=result.exit_code)
        )

    async def _sleep(self, name: str, seconds: float) -> None:
        """A wait in the middle of an item: it ends with a drain, and the item with it."""
        self._at_work.discard(name)
        with self._shutdown.until_drain() as scope:
            await trio.sleep(seconds)
        if scope.cancelled_caught:
            raise Drained
        self._at_work.add(name)

    # ---- stopping

    @contextmanager
    def answering_presses(self) -> Iterator[None]:
        """Each press is an event, for as long as the block lasts; one that comes after it is told as before."""
        before = self._shutdown.tell
        self._shutdown.tell = self.answer
        try:
            yield
        finally:
            self._shutdown.tell = before
            self._answered = ShutdownStage.KILL

    async def answer(self, stage: ShutdownStage) -> None:
        """Tell a stage of stopping, if it was not told."""
        if stage > self._answered:
            self._answered = stage
            await self._send(WatchStopping(stage=_STAGES[stage], active=len(self._at_work)))
