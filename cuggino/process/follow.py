"""Reading a file that a child writes, while it grows.

A file and not a pipe: an agent's last words are lost on a pipe whose reader lags, the file is still
there after a crash, and a background process that holds it open keeps nobody waiting.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import trio

CHUNK = 256 * 1024
FIRST_DELAY = 0.02
LAST_DELAY = 0.5


class Following:
    """Reads one growing file, once from its beginning to its end, in as many calls as it takes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._torn = False

    async def until(self, gone: trio.Event, feed: Callable[[bytes], Awaitable[None]]) -> None:
        """Feed every byte that was not fed, in order, and return when `gone` is set and the file is read to its end.

        Its end is the size that it has when `gone` is seen: nobody can keep this going by writing more. A
        file that does not exist yet is waited for. New bytes are seen within 20 ms while they keep coming, and
        within 500 ms after a long silence; `gone` is seen at once. A file that shrinks was truncated by
        somebody: its new content is read from its beginning, after a line feed if a line was torn.
        At most 256 KiB are fed at a time, with a checkpoint before each. Cancelled, another call goes on: what
        was given to `feed` is not given again.
        """
        delay = FIRST_DELAY
        file: int | None = None
        end = sys.maxsize
        try:
            while True:
                last = gone.is_set()  # before the look at the file: what was written until then is seen
                file = _open(self._path) if file is None else file
                size = 0 if file is None else os.fstat(file).st_size
                if last:
                    end = min(end, size)
                if size < self._offset:
                    self._offset = 0
                    if self._torn:
                        self._torn = False
                        await feed(b"\n")
                wanted = min(CHUNK, min(size, end) - self._offset)
                if file is not None and (chunk := os.pread(file, wanted, self._offset)):
                    delay = FIRST_DELAY
                    await trio.lowlevel.checkpoint()
                    self._offset += len(chunk)
                    self._torn = not chunk.endswith(b"\n")
                    await feed(chunk)
                elif last:
                    return
                else:
                    with trio.move_on_after(delay):
                        await gone.wait()
                    delay = min(delay * 2, LAST_DELAY)
        finally:
            if file is not None:
                os.close(file)


def _open(path: Path) -> int | None:
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None


class Lines:
    """Bytes in pieces → lines. Linear, however long a line is and however small the pieces are."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that this chunk completes, without their `\\n` or `\\r\\n`."""
        first, *others = chunk.split(b"\n")
        if first:
            self._pieces.append(first)
        if not others:
            return []
        lines = [b"".join(self._pieces), *others[:-1]]
        self._pieces = [others[-1]] if others[-1] else []
        return [line.removesuffix(b"\r") for line in lines]

    def rest(self) -> bytes:
        """What came after the last line feed: a line that was torn, or empty."""
        return b"".join(self._pieces)
