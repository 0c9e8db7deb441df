"""Counting on the virtual clock, with notices sent by hand and a dictionary of folder contents."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TypeAlias

import pytest
import trio
from trio.testing import MockClock
from trio_util import AsyncValue

from cuggino.errors import StorageError
from cuggino.watch.counting import BacklogUnreadable, FolderListing, watch_file_counts
from cuggino.watch.notices import Notices

BACKLOG = Path("backlog")
SPEC_ISSUES = Path("spec-issues")

Seen: TypeAlias = tuple[float, tuple[int, ...], tuple[int, ...]]
"""The time, the numbers of items, the versions."""


class Folders:
    """Two folders, and a record of what the watch does with them."""

    def __init__(self) -> None:
        self.names: dict[Path, tuple[str, ...]] = {BACKLOG: (), SPEC_ISSUES: ()}
        self.broken: set[Path] = set()
        self.open: dict[Path, Callable[[], None]] = {}
        self.steps: list[str] = []
        self.reads: list[float] = []
        self.failed: list[tuple[float, int]] = []
        self.seen: list[Seen] = []

    def put(self, *names: str, folder: Path = BACKLOG) -> None:
        """Change the content of a folder without a notice."""
        self.names[folder] = names

    def touch(self, *names: str, folder: Path = BACKLOG) -> None:
        self.put(*names, folder=folder)
        self.open[folder]()

    def list_items(self, folder: Path) -> tuple[str, ...]:
        self.steps.append(f"list {folder}")
        if folder == BACKLOG:
            self.reads.append(trio.current_time())
        if folder in self.broken:
            raise StorageError(f"{folder} cannot be read: broken.")
        return self.names[folder]

    @asynccontextmanager
    async def open_notices(self, folder: Path, changed: Callable[[], None]) -> AsyncIterator[Notices]:
        self.open[folder] = changed
        try:
            yield Watched(folder, self.steps)
        finally:
            del self.open[folder]
            with trio.move_on_after(1, shield=True):
                await trio.sleep(0.001)  # as long as watchdog's threads may take

    async def fail(self, attempt: int, message: str) -> None:
        assert message.endswith("cannot be read: broken.")
        self.failed.append((trio.current_time(), attempt))

    async def watch(self, *folders: Path) -> None:
        """Watch folders and record each value."""
        counts: AsyncValue[tuple[FolderListing, ...] | None] = AsyncValue(None)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._record, counts)
            await watch_file_counts(
                folders, counts, self.fail, open_notices=self.open_notices, list_items=self.list_items
            )

    async def _record(self, counts: AsyncValue[tuple[FolderListing, ...] | None]) -> None:
        latest: tuple[FolderListing, ...] | None = None
        while True:
            latest = await counts.wait_value(partial(differs, latest))
            assert latest is not None
            numbers = tuple(len(counted.names) for counted in latest)
            self.seen.append((trio.current_time(), numbers, tuple(counted.version for counted in latest)))

    @property
    def numbers(self) -> list[tuple[float, int]]:
        """The changes of the number of items in the first folder, with their times."""
        given: list[tuple[float, int]] = []
        for at, (number, *_), _looks in self.seen:
            if not given or given[-1][1] != number:
                given.append((at, number))
        return given


def differs(known: object, value: object) -> bool:
    return value != known


class Watched:
    watching = True

    def __init__(self, folder: Path, steps: list[str]) -> None:
        self._folder = folder
        self._steps = steps

    async def renew(self) -> None:
        self._steps.append(f"renew {self._folder}")
        await trio.lowlevel.checkpoint()


@asynccontextmanager
async def watching(*which: Path, until: float, folders: Folders | None = None) -> AsyncIterator[Folders]:
    """Watch the backlog, or `which`, for the length of the block and then until a time."""
    folders = folders or Folders()
    with trio.move_on_at(until):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(folders.watch, *(which or (BACKLOG,)))
            yield folders
            await trio.sleep_forever()
    assert folders.open == {}


# ---- numbers ----------------------------------------------------------------------------------


async def test_the_folder_is_watched_and_then_counted_at_once(clock: MockClock) -> None:
    folders = Folders()
    folders.put("a", "b")
    async with watching(until=61, folders=folders):
        pass
    assert folders.numbers == [(0, 2)]
    assert folders.steps == ["renew backlog", "list backlog"] * 2


async def test_a_change_is_counted_after_thirty_seconds(clock: MockClock) -> None:
    async with watching(until=59) as folders:
        await trio.sleep_until(10)
        folders.touch("a")
    assert folders.numbers == [(0, 0), (40, 1)]


async def test_each_further_change_restarts_the_thirty_seconds(clock: MockClock) -> None:
    async with watching(until=100) as folders:
        for at in (10, 20, 49.5):
            await trio.sleep_until(at)
            folders.touch("a", str(at))
    assert folders.numbers == [(0, 0), (79.5, 2)]


async def test_continuous_changes_are_counted_every_five_minutes(clock: MockClock) -> None:
    async with watching(until=700) as folders:
        for at in range(10, 700):
            await trio.sleep_until(at + 0.5)
            folders.touch(*map(str, range(at)))
    assert folders.reads == [0, 310.5, 611.5]


async def test_hundreds_of_changes_at_one_moment_are_one_debounce(clock: MockClock) -> None:
    async with watching(until=61) as folders:
        await trio.sleep_until(10)
        for number in range(300):
            folders.touch(*map(str, range(number)))
    assert folders.numbers == [(0, 0), (40, 299)]
    assert folders.reads == [0, 40]


async def test_a_change_that_keeps_the_names_is_a_new_version(clock: MockClock) -> None:
    folders = Folders()
    folders.put("a")
    async with watching(until=59, folders=folders):
        await trio.sleep_until(10)
        folders.touch("a")
    assert folders.seen == [(0, (1,), (1,)), (40, (1,), (2,))]


async def test_a_change_between_the_watch_and_the_first_count_is_counted_again(clock: MockClock) -> None:
    folders = Folders()

    def list_items(folder: Path) -> tuple[str, ...]:
        names = Folders.list_items(folders, folder)
        if folders.reads == [0]:
            folders.touch("late")
        return names

    folders.list_items = list_items  # type: ignore[method-assign]
    async with watching(until=59, folders=folders):
        pass
    assert folders.numbers == [(0, 0), (30, 1)]


# ---- recounts ---------------------------------------------------------------------------------


async def test_without_notices_the_folder_is_recounted_every_sixty_seconds(clock: MockClock) -> None:
    async with watching(until=125) as folders:
        await trio.sleep_until(70)
        folders.put("a")
    assert folders.reads == [0, 60, 120]
    assert folders.numbers == [(0, 0), (120, 1)]


# ---- failures ---------------------------------------------------------------------------------


async def test_a_failed_poll_is_retried_after_sixty_seconds_and_one_success_resets(clock: MockClock) -> None:
    async with watching(until=305) as folders:
        await trio.sleep_until(1)
        folders.broken.add(BACKLOG)
        await trio.sleep_until(150)
        folders.broken.clear()
        await trio.sleep_until(200)
        folders.broken.add(BACKLOG)
    assert folders.failed == [(60, 1), (120, 2), (240, 1), (300, 2)]
    assert [at for at, *_ in folders.seen] == [0, 180]


async def test_three_failures_in_a_row_raise_an_error_with_exit_code_3(clock: MockClock) -> None:
    folders = Folders()
    folders.broken.add(BACKLOG)
    with pytest.RaisesGroup(pytest.RaisesExc(BacklogUnreadable, match="3 times in a row"), flatten_subgroups=True):
        await folders.watch(BACKLOG)
    assert BacklogUnreadable.exit_code == 3
    assert folders.failed == [(0, 1), (60, 2), (120, 3)]
    assert folders.seen == []
    assert folders.open == {}


async def test_the_first_number_does_not_wait_for_a_debounce(clock: MockClock) -> None:
    folders = Folders()
    folders.broken.add(BACKLOG)
    async with watching(until=100, folders=folders):
        await trio.sleep_until(50)
        folders.broken.clear()
        folders.touch("a")
        await trio.sleep_until(70)
        folders.put("a", "b")
    assert folders.numbers == [(60, 1), (80, 2)]


async def test_one_unreadable_folder_fails_the_poll_of_both(clock: MockClock) -> None:
    async with watching(SPEC_ISSUES, BACKLOG, until=70) as folders:
        await trio.sleep_until(10)
        folders.broken.add(BACKLOG)
        folders.touch("s", folder=SPEC_ISSUES)
    assert folders.failed == [(40, 1)]
    assert folders.seen == [(0, (0, 0), (1, 1))]


# ---- two folders ------------------------------------------------------------------------------


async def test_listings_come_in_the_order_of_the_folders(clock: MockClock) -> None:
    folders = Folders()
    folders.put("s", folder=SPEC_ISSUES)
    folders.put("a", "b")
    async with watching(SPEC_ISSUES, BACKLOG, until=59, folders=folders):
        await trio.sleep_until(5)
        folders.touch(folder=SPEC_ISSUES)
    assert folders.seen == [(0, (1, 2), (1, 1)), (35, (0, 2), (2, 2))]


async def test_a_changing_folder_keeps_its_number_while_the_other_is_counted(clock: MockClock) -> None:
    """A half-written item is not taken because a spec issue was cleared at that moment."""
    async with watching(SPEC_ISSUES, BACKLOG, until=99) as folders:
        await trio.sleep_until(5)
        folders.touch("s", folder=SPEC_ISSUES)
        await trio.sleep_until(20)
        folders.touch("a")
        await trio.sleep_until(34)
        folders.touch("a", "b")
    assert folders.seen == [(0, (0, 0), (1, 1)), (35, (1, 0), (2, 1)), (64, (1, 2), (3, 2))]


async def test_a_constantly_changing_folder_does_not_postpone_recounts_of_the_other(clock: MockClock) -> None:
    async with watching(SPEC_ISSUES, BACKLOG, until=130) as folders:
        for at in range(10, 130, 10):
            await trio.sleep_until(at + 0.5)
            folders.touch(str(at))
            folders.put(str(at), folder=SPEC_ISSUES)
    assert folders.seen == [(0, (0, 0), (1, 1)), (60, (1, 0), (2, 1)), (120, (1, 0), (3, 1))]


# ---- cancellation -----------------------------------------------------------------------------


@pytest.mark.parametrize("at", [0, 0.5, 10, 30, 40, 45, 60, 60.5])
async def test_cancelled_at_any_moment_it_closes_its_notices(clock: MockClock, at: float) -> None:
    async with watching(SPEC_ISSUES, BACKLOG, until=at) as folders:
        await trio.sleep_until(10)
        folders.touch("a")
        folders.broken.add(BACKLOG)
    assert trio.current_time() <= at + 1  # `watching` has checked that all notices are closed
