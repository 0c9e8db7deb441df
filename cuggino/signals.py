"""Signals become stages of a shutdown, and each stage ends what belongs to it.

Ctrl+C enters the next stage; SIGTERM and SIGHUP first interrupt, then kill. A stage is left only for a later one.

| stage | |
|---|---|
| drain | nothing new starts, waits end, running work continues to its end (only for commands that can drain) |
| interrupt | the work is cancelled; agents have some seconds to exit |
| kill | they are killed now |
"""

from __future__ import annotations

import os
import signal
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from enum import IntEnum
from typing import TypeAlias

import trio
from trio_util import AsyncValue, move_on_when


class ShutdownStage(IntEnum):
    WORKING = 0
    DRAIN = 1
    INTERRUPT = 2
    KILL = 3


Report: TypeAlias = Callable[[ShutdownStage], Awaitable[None]]


class Shutdown:
    """How far a shutdown has come, and which signal began it. `drains`: the first Ctrl+C does not interrupt yet."""

    def __init__(self, *, drains: bool = False) -> None:
        self.stage = AsyncValue(ShutdownStage.WORKING)
        self.signal: signal.Signals | None = None
        self.interrupted = trio.CancelScope()
        """The scope that the work runs in; cancelled at the stage `interrupt`."""
        self.force_kill = trio.Event()
        """Set at the stage `kill`: do not wait for processes to exit any longer."""
        self._drains = drains
        self._unreported: deque[ShutdownStage] = deque()
        self._reporting = trio.Lock()
        self._report_to: Report = _ignore

    @property
    def requested(self) -> bool:
        """Whether any stage was entered."""
        return self.stage.value is not ShutdownStage.WORKING

    def escalate(self, number: signal.Signals) -> None:
        """Enter the next stage, if there is one."""
        stage = self.stage.value
        if stage is ShutdownStage.KILL:
            return
        drains = self._drains and stage is ShutdownStage.WORKING and number is signal.SIGINT
        stage = ShutdownStage.DRAIN if drains else ShutdownStage(max(stage + 1, ShutdownStage.INTERRUPT))
        self.signal = self.signal or number
        self._unreported.append(stage)
        self.stage.value = stage
        if stage >= ShutdownStage.INTERRUPT:
            self.interrupted.cancel(reason=number.name)
        if stage is ShutdownStage.KILL:
            self.force_kill.set()

    @asynccontextmanager
    async def until_requested(self) -> AsyncIterator[trio.CancelScope]:
        """Cancel the block as soon as any stage is entered; at once if one was."""
        async with move_on_when(self.stage.wait_value, bool) as scope:
            if self.requested:
                scope.cancel(reason="a shutdown was requested")
            yield scope

    # ---- reporting

    @contextmanager
    def reported_to(self, report: Report) -> Iterator[None]:
        """Pass stages to `report` while the block runs, instead of to the one before it."""
        before, self._report_to = self._report_to, report
        try:
            yield
        finally:
            self._report_to = before

    async def report(self) -> None:
        """Report the stages that were not reported yet: each once, in the order in which they were entered.

        When this returns, all have been. When it is cancelled, the rest are left for the next call.
        """
        async with self._reporting:
            while self._unreported:
                await self._report_to(self._unreported[0])
                self._unreported.popleft()


async def _ignore(_stage: ShutdownStage) -> None:
    pass


@asynccontextmanager
async def handle_signals(shutdown: Shutdown) -> AsyncIterator[None]:
    """Route SIGINT, SIGTERM and SIGHUP to `shutdown` while the block runs.

    The same signal counts once per turn of the event loop. Signals that were ignored when cuggino started (nohup, a
    background job) stay ignored. The listening task is outside of `shutdown.interrupted`, so that it receives the
    next signal while the work is being stopped.
    """
    numbers = [
        number
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        if signal.getsignal(number) is not signal.SIG_IGN
    ]
    with trio.open_signal_receiver(*numbers) as received:
        async with trio.open_nursery() as nursery:

            async def listen() -> None:
                async for number in received:
                    shutdown.escalate(signal.Signals(number))
                    nursery.start_soon(shutdown.report)

            nursery.start_soon(listen)
            yield
            nursery.cancel_scope.cancel(reason="the work is over")


@contextmanager
def ctrl_c_raises() -> Iterator[None]:
    """Let Ctrl+C raise KeyboardInterrupt in the block, for a question in a terminal, instead of ending the process."""
    before = signal.getsignal(signal.SIGINT)
    if before is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def end_by(number: signal.Signals) -> None:
    """End this process by the signal itself, so that a shell loop around it stops, too."""
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
