"""Bytes to a file descriptor that never block the thread, and how it is noticed that nobody reads them.

A write that blocks would stop everything: timers, signals, the agents' stop. A terminal blocks while its
person holds it with Ctrl+S, a pipe while its reader is busy. Making the descriptor itself non-blocking is
no way: the setting belongs to the open file, which the shell and other programs share. So a
terminal is opened anew, and a pipe gets no more at once than it takes whole (PIPE_BUF) when it is writable.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import stat
from typing import ClassVar

import trio

from cuggino.errors import CugginoError, StorageError

PIPE_BUF = select.PIPE_BUF if hasattr(select, "PIPE_BUF") else 512
_TERMINAL_CHUNK = 32 * 1024


class OutputClosed(CugginoError):
    """stdout's reader has gone, or its terminal has."""

    exit_code: ClassVar[int] = 141

    def __init__(self) -> None:
        super().__init__("The output was closed.")


class Stream:
    """An open descriptor that belongs to somebody else and is never changed."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._at_work = trio.Lock()
        mode = os.fstat(fd).st_mode
        self._is_fifo = stat.S_ISFIFO(mode)
        self.is_terminal = os.isatty(fd)
        self._own: int | None = _open_terminal(fd) if self.is_terminal else None
        self._can_block = self.is_terminal or self._is_fifo or stat.S_ISSOCK(mode)
        self._chunk = _TERMINAL_CHUNK if self._own is not None else PIPE_BUF if self._can_block else 1 << 20

    def columns(self) -> int | None:
        """How wide the terminal is now; None where there is none or it does not tell."""
        try:
            return os.get_terminal_size(self._fd).columns or None
        except OSError:
            return None

    async def write(self, data: bytes) -> None:
        """All of `data`, in one piece among other tasks' writes.

        Raises OutputClosed, or StorageError (a full disk). Cancelled, it has written a part.
        """
        fd = self._fd if self._own is None else self._own
        view = memoryview(data)
        async with self._at_work:
            while view:
                if self._own is None and self._can_block:
                    await trio.lowlevel.wait_writable(fd)
                try:
                    view = view[os.write(fd, view[: self._chunk]) :]
                except BlockingIOError:
                    await trio.lowlevel.wait_writable(fd)
                except OSError as error:
                    raise _told(error) from error
                else:
                    if view:
                        await trio.lowlevel.checkpoint()

    def write_nowait(self, data: bytes) -> None:
        """What the terminal takes of `data` at once: for a last word when waiting is over. Never raises."""
        if self._own is not None:
            with contextlib.suppress(OSError):
                os.write(self._own, data)

    async def closed(self) -> None:
        """Returns when this is a pipe and its last reader has gone, even if nothing is written. Else never."""
        if self._is_fifo:
            await trio.lowlevel.wait_readable(self._fd)
            poll = select.poll()
            poll.register(self._fd, 0)
            if poll.poll(0):  # POLLERR; without it something was written to a FIFO that is open both ways
                return
        await trio.sleep_forever()

    def close(self) -> None:
        """Closes what was opened here, not the descriptor itself."""
        if self._own is not None:
            own, self._own = self._own, None
            os.close(own)


def _open_terminal(fd: int) -> int | None:
    """The same terminal as an open file of our own; None where it cannot be opened (another user's, no /dev)."""
    try:
        return os.open(os.ttyname(fd), os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return None


def _told(error: OSError) -> CugginoError:
    if error.errno in (errno.EPIPE, errno.ECONNRESET, errno.EIO, errno.ENXIO):
        return OutputClosed()
    return StorageError(f"The output cannot be written: {error.strerror}")
