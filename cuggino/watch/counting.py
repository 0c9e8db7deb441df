"""What folders hold, kept up to date: changes are waited out, and a recount finds what gave no notice."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from pathlib import Path
from typing import TypeAlias

import msgspec
import trio
from trio_util import AsyncValue

from cuggino import items
from cuggino.errors import CugginoError, StorageError
from cuggino.watch import notices
from cuggino.watch.intervals import WatchIntervals

ATTEMPTS = 3

OpenNotices: TypeAlias = Callable[[Path, Callable[[], None]], AbstractAsyncContextManager[notices.Notices]]


class Counted(msgspec.Struct, frozen=True):
    """A folder when it was last counted."""

    look: int
    """Grows with each count. So a change that leaves the names as they are is seen too: an item was edited."""
    names: tuple[str, ...]
    """The items, sorted."""


class BacklogUnreadable(CugginoError):
    """The folders could not be read three times in a row."""

    exit_code = 3


async def watch_file_counts(
    folders: Sequence[Path],
    counts: AsyncValue[tuple[Counted, ...] | None],
    failed: Callable[[int, str], Awaitable[None]],
    *,
    open_notices: OpenNotices = notices.open_notices,
    list_items: Callable[[Path], tuple[str, ...]] = items.list_items,
    intervals: WatchIntervals = WatchIntervals(),  # noqa: B008 - frozen
) -> None:
    """Keep `counts` at the latest of each folder, in the order of `folders`. Runs until cancelled.

    The first value comes at once; the folders are watched before they are counted, so nothing falls between.
    A change in a folder starts a debounce (`intervals.debounce`), each further change starts it anew, for
    `longest_debounce` in all; then the folder is counted. After `recount` without a count it is counted
    anyway, but not during its debounce: what is half written is not seen because something happened elsewhere.

    One poll reads all folders. When it fails, `failed` is called with the number of failures in a row and what
    went wrong, and the next poll is `recount` seconds later, whatever changes; after the third,
    BacklogUnreadable is raised. `list_items` fails with StorageError, anything else is a bug.
    """
    polls = _Polls(list_items, intervals.recount)
    async with AsyncExitStack() as stack:
        for path in folders:
            folder = _Folder(path, intervals, polls.reconsider)
            folder.notices = await stack.enter_async_context(open_notices(path, folder.changed))
            polls.folders.append(folder)
        while True:
            try:
                counts.value = await polls.poll()
            except StorageError as error:
                await failed(polls.failures, error.message)
                if polls.failures == ATTEMPTS:
                    raise BacklogUnreadable(
                        f"The folders could not be read {ATTEMPTS} times in a row. {error.message}",
                        advice="Make them readable again, then start anew.",
                    ) from error
            await polls.until_due()


class _Folder:
    """A folder and its debounce."""

    notices: notices.Notices

    def __init__(self, path: Path, intervals: WatchIntervals, begins: Callable[[], None]) -> None:
        self.path = path
        self.ends = math.inf
        """When its debounce ends; infinite: there is none."""
        self.counted: Counted | None = None
        self._intervals = intervals
        self._last_end = math.inf
        self._begins = begins

    def changed(self) -> None:
        now = trio.current_time()
        begins = self.ends == math.inf
        if begins:
            self._last_end = now + self._intervals.longest_debounce
        self.ends = min(now + self._intervals.debounce, self._last_end)
        if begins:
            self._begins()

    def take(self, names: tuple[str, ...]) -> Counted:
        """The latest: these names, unless they may be half of a change. The very first ones count as they are."""
        changing = trio.current_time() < self.ends < math.inf
        if self.counted is None:
            self.counted = Counted(1, names)
        elif not changing:
            self.counted = Counted(self.counted.look + 1, names)
        if not changing:
            self.ends = math.inf
        return self.counted


class _Polls:
    """Reading the folders, and when."""

    def __init__(self, list_items: Callable[[Path], tuple[str, ...]], recount: float) -> None:
        self.folders: list[_Folder] = []
        self.failures = 0
        """In a row."""
        self._list_items = list_items
        self._recount = recount
        self._last = -math.inf
        self._reconsider = trio.Event()

    async def poll(self) -> tuple[Counted, ...]:
        """Read all folders, all in one moment. Raises StorageError when one of them cannot be read."""
        for folder in self.folders:
            await folder.notices.renew()
        self._last = trio.current_time()
        try:
            found = [self._list_items(folder.path) for folder in self.folders]
        except StorageError:
            self.failures += 1
            raise
        self.failures = 0
        return tuple(folder.take(names) for folder, names in zip(self.folders, found, strict=True))

    async def until_due(self) -> None:
        while trio.current_time() < (due := self._due()):
            self._reconsider = trio.Event()
            with trio.move_on_at(due):
                await self._reconsider.wait()

    def reconsider(self) -> None:
        """A debounce has begun: the next poll may be another one."""
        self._reconsider.set()

    def _due(self) -> float:
        regular = self._last + self._recount
        if self.failures:
            return regular
        ends = [folder.ends for folder in self.folders]
        return min(*ends, regular) if math.inf in ends else min(ends)
