"""How the scripted agent takes signals: as claude does.

SIGTERM and SIGHUP end it at once, and nothing is printed. SIGINT ends what it waits for and gives it the
chance to print a result; it never tears a line that is being printed.
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
    """The signals of this process. One a process, in its main thread."""

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
        """In the block, and only there, a SIGINT that comes or has come raises Interrupted."""
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
