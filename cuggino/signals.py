"""The one owner of signals: what a person asks for becomes stages of stopping, and scopes end what they own.

A stage is left only for the next one. `interrupt` cancels the work; `kill` shortens the time that agents
have to end. Ctrl+C goes one stage on; SIGTERM and SIGHUP are an interrupt, and a second of them kills.
"""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from enum import IntEnum

import trio


class Stage(IntEnum):
    WORKING = 0
    INTERRUPT = 1
    KILL = 2


class Stop:
    """How far stopping has gone, and by what signal it began."""

    def __init__(self) -> None:
        self.stage = Stage.WORKING
        self.signal: signal.Signals | None = None
        self.interrupted = trio.CancelScope()
        """What the work runs in; cancelled at the stage `interrupt`."""
        self.hurry = trio.Event()
        """Set at the stage `kill`: who waits for a process to end does not wait any longer."""

    def press(self, number: signal.Signals) -> Stage | None:
        """Go one stage on. None: there is none left."""
        if self.stage is Stage.KILL:
            return None
        self.signal = self.signal or number
        self.stage = Stage(self.stage + 1)
        if self.stage is Stage.INTERRUPT:
            self.interrupted.cancel(reason=number.name)
        else:
            self.hurry.set()
        return self.stage


@asynccontextmanager
async def owning_signals(stop: Stop, tell: Callable[[Stage], Awaitable[None]]) -> AsyncIterator[None]:
    """Signals are `stop`'s for the length of the block; `tell` is called after each new stage.

    Presses within one turn of the event loop count as one. A signal that was ignored when cuggino was
    started (nohup, a background job) stays ignored. The task that listens is outside of `stop.interrupted`,
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
                    stage = stop.press(signal.Signals(number))
                    if stage is not None:
                        nursery.start_soon(tell, stage)

            nursery.start_soon(listen)
            yield
            nursery.cancel_scope.cancel(reason="the work is over")


def end_by(number: signal.Signals) -> None:
    """End this process by the signal itself, so that a shell's loop around it stops too."""
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
