"""A folder's change notices, passed from watchdog's threads into Trio.

Notices are a convenience, not a guarantee: some file systems send none, the system may have no watch left, its
queue may overflow, a watch may die with its folder. Callers that need certainty also check the folder regularly.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Protocol

import trio
from watchdog.events import (
    DirDeletedEvent,
    FileClosedEvent,
    FileCreatedEvent,
    FileDeletedEvent,
    FileModifiedEvent,
    FileMovedEvent,
    FileSystemEvent,
    FileSystemEventHandler,
)
from watchdog.observers import Observer
from watchdog.observers.api import BaseObserver

from cuggino.items import is_item_name, restore

# Without opened and closed-without-writing, which our own reading causes. With deleted directories, since the
# watched folder may be deleted.
CHANGES: list[type[FileSystemEvent]] = [
    FileCreatedEvent,
    FileModifiedEvent,
    FileClosedEvent,
    FileMovedEvent,
    FileDeletedEvent,
    DirDeletedEvent,
]

STOPPING = 2.0
"""Seconds that watchdog's threads have to end. They take a millisecond, or half a second while they wait for the
second half of a rename."""

# Its warnings are expected here, and without a handler Python would print them in the terminal.
logging.getLogger("watchdog").addHandler(logging.NullHandler())


class Notices(Protocol):
    """The notices of the folder at one path, even if that folder is replaced."""

    async def renew(self) -> None:
        """Watch the folder that is at the path now. Never fails: see `watching`."""

    @property
    def watching(self) -> bool:
        """Whether notices can be expected. False without a folder, or if the system has no watch left."""


@asynccontextmanager
async def open_notices(folder: Path, changed: Callable[[], None]) -> AsyncIterator[Notices]:
    """Call `changed` in Trio's thread when items change, from the first `renew` until the block ends.

    Changes are items created, written, renamed or deleted, and the folder itself deleted; several at the same moment
    make one call. A folder that was renamed or made again is watched from the next `renew` on. After the block
    `changed` is not called any more, and watchdog's threads have ended or had 2 seconds to do so.
    """
    notices = _FolderNotices(folder, changed)
    try:
        yield notices
    finally:
        await notices.close()


class _FolderNotices:
    def __init__(self, folder: Path, changed: Callable[[], None]) -> None:
        self._folder = folder
        self._bridge = _Bridge(changed)
        self._observer: BaseObserver | None = None
        self._watched: tuple[int, int] | None = None

    @property
    def watching(self) -> bool:
        # a watch ends with its folder, and the next folder may have the same inode
        return self._observer is not None and all(emitter.is_alive() for emitter in self._observer.emitters)

    async def renew(self) -> None:
        folder = self._find()
        if folder is None or folder != self._watched or not self.watching:
            await self._stop()
            if folder is not None:
                self._start(folder)
        await trio.lowlevel.checkpoint()

    async def close(self) -> None:
        self._bridge.closed = True
        await self._stop()

    def _find(self) -> tuple[int, int] | None:
        """Return device and inode of the folder, making it if it is missing; None if it cannot be watched."""
        with contextlib.suppress(OSError):
            restore(self._folder)
            # watchdog would watch the parent of a file, and would report success for an unreadable folder
            if self._folder.is_dir() and os.access(self._folder, os.R_OK):
                status = self._folder.stat()
                return status.st_dev, status.st_ino
        return None

    def _start(self, folder: tuple[int, int]) -> None:
        observer: BaseObserver | None = None
        try:
            observer = Observer()
            # it would watch a link instead of the folder behind it
            observer.schedule(self._bridge, os.path.realpath(self._folder), event_filter=CHANGES)
            observer.start()
        except (OSError, RuntimeError):  # no inotify instance, watch or thread left; `renew` tries again
            if observer is not None:
                _end(observer)
        else:
            self._observer, self._watched = observer, folder

    async def _stop(self) -> None:
        observer, self._observer, self._watched = self._observer, None, None
        if observer is not None:
            with trio.move_on_after(STOPPING, shield=True):
                await trio.to_thread.run_sync(_end, observer, abandon_on_cancel=True)


class _Bridge(FileSystemEventHandler):
    """Called in watchdog's thread, which an exception would kill."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self.closed = False
        self._changed = changed
        self._trio = trio.lowlevel.current_trio_token()

    def on_any_event(self, event: FileSystemEvent) -> None:
        names = [os.fsdecode(path).rpartition(os.sep)[2] for path in (event.src_path, event.dest_path) if path]
        if any(map(is_item_name, names)):
            with contextlib.suppress(trio.RunFinishedError):
                self._trio.run_sync_soon(self._put, idempotent=True)  # one call for many files

    def _put(self) -> None:
        if not self.closed:
            self._changed()


def _end(observer: BaseObserver) -> None:
    with contextlib.suppress(OSError):  # the watch no longer exists
        observer.stop()  # also needed before `start`
    if observer.is_alive():
        observer.join()
