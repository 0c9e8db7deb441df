"""Folder listings, kept up to date: changes are debounced, and a recount finds changes that gave no notice."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from pathlib import Path
from typing import TypeAlias

import msgspec
import trio
from trio_util import AsyncValue, RepeatedEvent

from cuggino import items
from cuggino.errors import CugginoError, StorageError
from cuggino.watch import notices
from cuggino.watch.intervals import WatchIntervals

ATTEMPTS = 3

OpenNotices: TypeAlias = Callable[[Path, Callable[[], None]], AbstractAsyncContextManager[notices.Notices]]


class FolderListing(msgspec.Struct, frozen=True):
    """A folder's items when they were last counted."""

    version: int
    """Grows with each count, so that an edit, which leaves the names unchanged, is noticed too."""
    names: tuple[str, ...]
    """The items, sorted."""


class PollHistory:
    """Failed polls in a row, and when the last poll was. Kept from one count to the next: only a successful poll ends
    a row of failures."""

    def __init__(self) -> None:
        self.failures = 0
        self.last = -math.inf


class BacklogUnreadable(CugginoError):
    """The folders could not be read three times in a row."""

    exit_code = 3


async def watch_file_counts(
    folders: Sequence[Path],
    counts: AsyncValue[tuple[FolderListing, ...] | None],
    failed: Callable[[int, str], Awaitable[None]],
    history: PollHistory | None = None,
    *,
    open_notices: OpenNotices = notices.open_notices,
    list_items: Callable[[Path], tuple[str, ...]] = items.list_items,
    intervals: WatchIntervals = WatchIntervals(),  # noqa: B008 - frozen
) -> None:
    """Keep `counts` at the latest listing of each folder, in the order of `folders`. Run until cancelled.

    The first value comes at once, or `recount` after the last poll of `history` if that failed. Folders are watched
    before they are counted, so no change is missed. A change in a folder starts a debounce (`intervals.debounce`),
    which each further change restarts, up to `longest_debounce` in all; then the folder is counted. After `recount`
    without a count it is counted anyway, except during its debounce: a half-written file is not seen because something
    happened in the other folder.

    One poll reads all folders. If it fails with StorageError, `failed` is called with the number of failures in a
    row and the message, and the next poll is `recount` later, whatever changes. Raise BacklogUnreadable after the
    third.
    """
    polls = _Polls(list_items, intervals.recount, history or PollHistory())
    async with AsyncExitStack() as stack:
        for path in folders:
            folder = _Folder(path, intervals, polls.debounce_started.set)
            folder.notices = await stack.enter_async_context(open_notices(path, folder.changed))
            polls.folders.append(folder)
        if polls.history.failures:
            await polls.until_due()
        while True:
            try:
                counts.value = await polls.poll()
            except StorageError as error:
                await failed(polls.history.failures, error.message)
                if polls.history.failures == ATTEMPTS:
                    raise BacklogUnreadable(
                        f"The folders could not be read {ATTEMPTS} times in a row. {error.message}",
                        advice="Make them readable, then start the watch again.",
                    ) from error
            await polls.until_due()


class _Folder:
    """A folder and its debounce."""

    notices: notices.Notices

    def __init__(self, path: Path, intervals: WatchIntervals, started: Callable[[], None]) -> None:
        self.path = path
        self.ends = math.inf
        """When its debounce ends; infinite without one."""
        self.counted: FolderListing | None = None
        self._intervals = intervals
        self._last_end = math.inf
        self._started = started

    def changed(self) -> None:
        now = trio.current_time()
        starts = self.ends == math.inf
        if starts:
            self._last_end = now + self._intervals.longest_debounce
        self.ends = min(now + self._intervals.debounce, self._last_end)
        if starts:
            self._started()

    def take(self, names: tuple[str, ...]) -> FolderListing:
        """Return the latest listing: these names, unless the folder is changing. The first names always count."""
        changing = trio.current_time() < self.ends < math.inf
        if self.counted is None:
            self.counted = FolderListing(1, names)
        elif not changing:
            self.counted = FolderListing(self.counted.version + 1, names)
        if not changing:
            self.ends = math.inf
        return self.counted


class _Polls:
    """Reads the folders, and knows when to read them next."""

    def __init__(self, list_items: Callable[[Path], tuple[str, ...]], recount: float, history: PollHistory) -> None:
        self.folders: list[_Folder] = []
        self.history = history
        self._list_items = list_items
        self._recount = recount
        self.debounce_started = RepeatedEvent()

    async def poll(self) -> tuple[FolderListing, ...]:
        """Read all folders at one moment. Raise StorageError if one of them cannot be read."""
        for folder in self.folders:
            await folder.notices.renew()
        self.history.last = trio.current_time()
        try:
            found = [self._list_items(folder.path) for folder in self.folders]
        except StorageError:
            self.history.failures += 1
            raise
        self.history.failures = 0
        return tuple(folder.take(names) for folder, names in zip(self.folders, found, strict=True))

    async def until_due(self) -> None:
        while trio.current_time() < (due := self._due()):
            with trio.move_on_at(due):
                await self.debounce_started.wait()

    def _due(self) -> float:
        regular = self.history.last + self._recount
        if self.history.failures:
            return regular
        ends = [folder.ends for folder in self.folders]
        return min(*ends, regular) if math.inf in ends else min(ends)
