"""Read a file that a child writes while it grows.

A file and not a pipe: on a pipe with a slow reader an agent's last output is lost; the file is still there after a
crash; and a background process that holds it open does not delay the end.
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


class Follower:
    """Reads one growing file once, from its start to its end, in any number of calls."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._torn = False

    async def until(self, gone: trio.Event, feed: Callable[[bytes], Awaitable[None]]) -> None:
        """Feed every byte not fed yet, in order, until `gone` is set and the file is read to its end.

        The end is the size when `gone` is noticed, so writing more cannot prolong this. Wait for a file that does not
        exist yet. Notice new bytes within 20 ms while they keep coming, within 500 ms after a long silence, and `gone`
        at once. If the file shrinks, read its new content from the start, after a line feed if a line was torn. Feed
        at most 256 KiB at a time, with a checkpoint before each. When cancelled, a later call continues and feeds
        nothing twice.
        """
        delay = FIRST_DELAY
        file: int | None = None
        end = sys.maxsize
        try:
            while True:
                last = gone.is_set()  # checked before the file, so that nothing written before `gone` is missed
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


class LineSplitter:
    """Splits pieces of bytes into lines, in linear time for any length of lines and pieces."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the lines that this chunk completes, without their `\\n` or `\\r\\n`."""
        first, *others = chunk.split(b"\n")
        if first:
            self._pieces.append(first)
        if not others:
            return []
        lines = [b"".join(self._pieces), *others[:-1]]
        self._pieces = [others[-1]] if others[-1] else []
        return [line.removesuffix(b"\r") for line in lines]

    def rest(self) -> bytes:
        """Return the bytes after the last line feed: a torn line, or nothing."""
        return b"".join(self._pieces)
