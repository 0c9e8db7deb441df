"""The one owner of signals: what a person asks for becomes stages of stopping, and scopes end what they own.

A stage is left only for a later one. Ctrl+C goes one stage on; SIGTERM and SIGHUP interrupt, and then kill.

| stage | |
|---|---|
| drain | nothing new starts, waits end, what runs goes on to its end (only where there is something to drain) |
| interrupt | the work is cancelled; agents have some seconds to end |
| kill | those seconds are over |
"""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from enum import IntEnum

import trio


class ShutdownStage(IntEnum):
    WORKING = 0
    DRAIN = 1
    INTERRUPT = 2
    KILL = 3


class Shutdown:
    """How far stopping has gone, and by what signal it began."""

    def __init__(self, *, drains: bool = False) -> None:
        self.stage = ShutdownStage.WORKING
        self.signal: signal.Signals | None = None
        self.interrupted = trio.CancelScope()
        """What the work runs in; cancelled at the stage `interrupt`."""
        self.force_kill = trio.Event()
        """Set at the stage `kill`: who waits for a process to end does not wait any longer."""
        self.tell: Callable[[ShutdownStage], Awaitable[None]] | None = None
        """Called after each new stage."""
        self._drains = drains
        self._waits: set[trio.CancelScope] = set()

    def escalate(self, number: signal.Signals) -> ShutdownStage | None:
        """Go on to the next stage. None: there is none left."""
        if self.stage is ShutdownStage.KILL:
            return None
        self.signal = self.signal or number
        self.stage = ShutdownStage(self.stage + 1)
        if self.stage is ShutdownStage.DRAIN and (number is not signal.SIGINT or not self._drains):
            self.stage = ShutdownStage.INTERRUPT
        for scope in self._waits:
            scope.cancel(reason=number.name)
        if self.stage >= ShutdownStage.INTERRUPT:
            self.interrupted.cancel(reason=number.name)
        if self.stage is ShutdownStage.KILL:
            self.force_kill.set()
        return self.stage

    @contextmanager
    def until_drain(self) -> Iterator[trio.CancelScope]:
        """A scope for waits: cancelled as soon as any stop is asked for, at once if one was."""
        with trio.CancelScope() as scope:
            if self.stage is not ShutdownStage.WORKING:
                scope.cancel(reason="stopping")
            self._waits.add(scope)
            try:
                yield scope
            finally:
                self._waits.discard(scope)


@asynccontextmanager
async def handle_signals(shutdown: Shutdown) -> AsyncIterator[None]:
    """Signals are `shutdown`'s for the length of the block.

    Presses within one turn of the event loop count as one. A signal that was ignored when cuggino was
    started (nohup, a background job) stays ignored. The task that listens is outside of `shutdown.interrupted`,
    so it hears the next press while the work is being stopped.
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
                    stage = shutdown.escalate(signal.Signals(number))
                    if stage is not None and shutdown.tell is not None:
                        nursery.start_soon(shutdown.tell, stage)

            nursery.start_soon(listen)
            yield
            nursery.cancel_scope.cancel(reason="the work is over")


def end_by(number: signal.Signals) -> None:
    """End this process by the signal itself, so that a shell's loop around it stops too."""
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
