"""The scripted agent handles signals like claude does.

SIGTERM and SIGHUP end it at once, without output. SIGINT ends its current wait and lets it print a result; a line that
is being printed is always completed.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType


class Interrupted(BaseException):
    """SIGINT came."""


class SignalHandler:
    """The signals of this process: one instance per process, used in its main thread."""

    def __init__(self) -> None:
        self._waiting = False
        self._interrupted = False

    def install(self) -> None:
        signal.signal(signal.SIGINT, self._interrupt)
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, _end)

    def ignore(self, names: Sequence[str]) -> None:
        for name in names:
            signal.signal(signal.Signals[f"SIG{name}"], signal.SIG_IGN)

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """Raise Interrupted in the block, and only there, for a SIGINT during it or before it."""
        self._waiting = True
        try:
            if self._interrupted:
                raise Interrupted
            yield
        finally:
            self._waiting = False

    def sleep(self, seconds: float) -> None:
        with self.interruptible():
            time.sleep(seconds)

    def _interrupt(self, _number: int, _frame: FrameType | None) -> None:
        self._interrupted = True
        if self._waiting:
            raise Interrupted


def _end(number: int, _frame: FrameType | None) -> None:
    os._exit(128 + number)
