"""Write to a file descriptor without blocking the thread, and detect that nobody reads any more.

A blocking write would stop everything: timers, signals, the stopping of agents. A terminal blocks while a person holds
it with Ctrl+S, a pipe while its reader is busy. The descriptor itself cannot be made non-blocking: that setting belongs
to the open file, which the shell and other programs share. So a terminal is opened a second time, and a pipe gets at
most PIPE_BUF bytes at once, which it takes whole when it is writable.
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
    """The reader or the terminal of stdout is gone."""

    exit_code: ClassVar[int] = 141

    def __init__(self) -> None:
        super().__init__("The output was closed.")


class Stream:
    """An open descriptor of somebody else's, whose settings never change."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._lock = trio.Lock()
        mode = os.fstat(fd).st_mode
        self._is_fifo = stat.S_ISFIFO(mode)
        self.is_terminal = os.isatty(fd)
        self._own: int | None = _open_terminal(fd) if self.is_terminal else None
        self._can_block = self.is_terminal or self._is_fifo or stat.S_ISSOCK(mode)
        self._chunk = _TERMINAL_CHUNK if self._own is not None else PIPE_BUF if self._can_block else 1 << 20

    def columns(self) -> int | None:
        """Return the current width of the terminal; None if unknown or not a terminal."""
        try:
            return os.get_terminal_size(self._fd).columns or None
        except OSError:
            return None

    async def write(self, data: bytes) -> None:
        """Write all of `data`, not interleaved with other tasks' writes.

        Raise OutputClosed, or StorageError (a full disk). If cancelled, a part may have been written.
        """
        fd = self._fd if self._own is None else self._own
        view = memoryview(data)
        async with self._lock:
            while view:
                if self._own is None and self._can_block:
                    await trio.lowlevel.wait_writable(fd)
                try:
                    view = view[os.write(fd, view[: self._chunk]) :]
                except BlockingIOError:
                    await trio.lowlevel.wait_writable(fd)
                except OSError as error:
                    raise _output_error(error) from error
                else:
                    if view:
                        await trio.lowlevel.checkpoint()

    def write_nowait(self, data: bytes) -> None:
        """Write as much of `data` as the terminal takes without waiting. Never raises."""
        if self._own is not None:
            with contextlib.suppress(OSError):
                os.write(self._own, data)

    async def closed(self) -> None:
        """Return when this is a pipe and its last reader is gone, even if nothing is written; otherwise never."""
        if self._is_fifo:
            await trio.lowlevel.wait_readable(self._fd)
            poll = select.poll()
            poll.register(self._fd, 0)
            if poll.poll(0):  # POLLERR; otherwise a FIFO that is open in both directions has data
                return
        await trio.sleep_forever()

    def close(self) -> None:
        """Close the second opening of a terminal, not the descriptor itself."""
        if self._own is not None:
            own, self._own = self._own, None
            os.close(own)


def _open_terminal(fd: int) -> int | None:
    """Open the same terminal again; None if that fails (another user's, /dev missing)."""
    try:
        return os.open(os.ttyname(fd), os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return None


def _output_error(error: OSError) -> CugginoError:
    if error.errno in (errno.EPIPE, errno.ECONNRESET, errno.EIO, errno.ENXIO):
        return OutputClosed()
    return StorageError(f"Cannot write the output: {error.strerror}")
