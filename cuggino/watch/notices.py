"""A folder's change notices: from watchdog's threads into Trio.

Notices are a convenience, not a promise. Some file systems give none, the system may have no watch left, its
queue may overflow, a watch may die with its folder. Who needs to be right looks for itself from time to time.
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

# Opened and closed-without-writing are not among them: our own reading would be a change. A folder that is
# deleted is: it may be the watched one.
CHANGES: list[type[FileSystemEvent]] = [
    FileCreatedEvent,
    FileModifiedEvent,
    FileClosedEvent,
    FileMovedEvent,
    FileDeletedEvent,
    DirDeletedEvent,
]

STOPPING = 2.0
"""Seconds that watchdog's threads have to end. They take a millisecond, or half a second while they wait for
the second half of a rename."""

# What it warns of is expected here, and without a handler Python would print it into the terminal.
logging.getLogger("watchdog").addHandler(logging.NullHandler())


class Notices(Protocol):
    """The notices of one folder, whatever folder is at its path."""

    async def renew(self) -> None:
        """Watch the folder that is there now; nothing if it is watched already. Never fails: see `watching`."""

    @property
    def watching(self) -> bool:
        """Whether notices can be expected. False: there was no folder to watch, or no watch to be had."""


@asynccontextmanager
async def open_notices(folder: Path, changed: Callable[[], None]) -> AsyncIterator[Notices]:
    """Notices for the length of the block, from the first `renew` on; `changed` is called in Trio's thread.

    It is called once for many changes of the same moment: items created, written, renamed or deleted, or the
    folder itself deleted. A folder that is renamed, or made again, is watched from the next `renew` on. After
    the block there is no more call, and watchdog's threads have ended or have been given 2 seconds to.
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
        # A watch ends with its folder, and the next folder may be given the same inode.
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
        """What identifies the folder at the path, which is made if it is missing; None: there is none to watch."""
        with contextlib.suppress(OSError):
            restore(self._folder)
            # watchdog takes a file for a watch of its parent, and a folder that is closed to us for a success
            if self._folder.is_dir() and os.access(self._folder, os.R_OK):
                status = self._folder.stat()
                return status.st_dev, status.st_ino
        return None

    def _start(self, folder: tuple[int, int]) -> None:
        observer: BaseObserver | None = None
        try:
            observer = Observer()
            # It would watch a link instead of the folder behind it.
            observer.schedule(self._bridge, os.path.realpath(self._folder), event_filter=CHANGES)
            observer.start()
        except (OSError, RuntimeError):  # no inotify instance, no watch, or no thread left: tried again by `renew`
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
    """Called in watchdog's thread, which an exception would end."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self.closed = False
        self._changed = changed
        self._trio = trio.lowlevel.current_trio_token()

    def on_any_event(self, event: FileSystemEvent) -> None:
        names = [os.fsdecode(path).rpartition(os.sep)[2] for path in (event.src_path, event.dest_path) if path]
        if any(map(is_item_name, names)):
            with contextlib.suppress(trio.RunFinishedError):
                self._trio.run_sync_soon(self._put, idempotent=True)  # many files at once are one call

    def _put(self) -> None:
        if not self.closed:
            self._changed()


def _end(observer: BaseObserver) -> None:
    with contextlib.suppress(OSError):  # a watch that is gone already
        observer.stop()  # also ends what runs before `start`
    if observer.is_alive():
        observer.join()
