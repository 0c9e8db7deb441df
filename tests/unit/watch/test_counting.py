"""Counting on a virtual clock: notices are given by hand, what the folders hold is a dictionary."""

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
"""When, the numbers, the looks."""


class Folders:
    """What the watch is given, and a record of what it does with it."""

    def __init__(self, clock: MockClock) -> None:
        self.now = clock.current_time
        self.names: dict[Path, tuple[str, ...]] = {BACKLOG: (), SPEC_ISSUES: ()}
        self.broken: set[Path] = set()
        self.open: dict[Path, Callable[[], None]] = {}
        self.steps: list[str] = []
        self.reads: list[float] = []
        self.failed: list[tuple[float, int]] = []
        self.seen: list[Seen] = []

    def put(self, *names: str, folder: Path = BACKLOG) -> None:
        """Change what a folder holds, without a notice."""
        self.names[folder] = names

    def touch(self, *names: str, folder: Path = BACKLOG) -> None:
        self.put(*names, folder=folder)
        self.open[folder]()

    def list_items(self, folder: Path) -> tuple[str, ...]:
        self.steps.append(f"list {folder}")
        if folder == BACKLOG:
            self.reads.append(self.now())
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
                await trio.sleep(0.001)  # as watchdog's threads take their time

    async def fail(self, attempt: int, message: str) -> None:
        assert message.endswith("cannot be read: broken.")
        self.failed.append((self.now(), attempt))

    async def watch(self, *folders: Path) -> None:
        """Watch them, and record each value that comes."""
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
            self.seen.append((self.now(), numbers, tuple(counted.version for counted in latest)))

    @property
    def numbers(self) -> list[tuple[float, int]]:
        """When the number of the first folder was another one than before, and which."""
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
async def watching(folders: Folders, *which: Path, until: float) -> AsyncIterator[None]:
    """Watch the backlog, or `which`, for the length of the block and then until a time."""
    with trio.move_on_at(until):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(folders.watch, *(which or (BACKLOG,)))
            yield
            await trio.sleep_forever()
    assert folders.open == {}


# ---- numbers ----------------------------------------------------------------------------------


async def test_the_number_comes_at_once(autojump_clock: MockClock) -> None:
    folders = Folders(autojump_clock)
    folders.put("a", "b")
    async with watching(folders, until=1):
        pass
    assert folders.numbers == [(0, 2)]


async def test_a_folder_is_watched_before_it_is_counted(autojump_clock: MockClock) -> None:
    folders = Folders(autojump_clock)
    async with watching(folders, until=61):
        pass
    assert folders.steps == ["renew backlog", "list backlog"] * 2


async def test_a_change_is_counted_after_thirty_seconds(autojump_clock: MockClock) -> None:
    folders = Folders(autojump_clock)
    async with watching(folders, until=59):
        await trio.sleep_until(10)
        folders.touch("a")
    assert folders.numbers == [(0, 0), (40, 1)]


async def test_each_further_change_starts_the_thirty_seconds_anew(autojump_clock: MockClock) -> None:
    folders = Folders(autojump_clock)
    async with watching(folders, until=100):
        for at in (10, 20, 49.5):
            await trio.sleep_until(at)
            folders.touch("a", str(at))
    assert folders.numbers == [(0, 0), (79.5, 2)]


async def test_changes_that_never_end_are_counted_every_five_minutes(autojump_clock: MockClock) -> None:
    folders = Folders(autojump_clock)
    async with watching(folders, until=700):
        for at in range(10, 700):
            await trio.sleep_until(at + 0.5)
            folders.touch(*map(str, range(at)))
    assert folders.reads == [0, 310.5, 611.5]


async def test_hundreds_of_changes_in_one_moment_are_one_debounce(autojump_clock: MockClock) -> None:
    folders = Folders(autojump_clock)
    async with watching(folders, until=61):
        await trio.sleep_until(10)
        for number in range(300):
            folders.touch(*map(str, range(number)))
    assert folders.numbers == [(0, 0), (40, 299)]
    assert folders.reads == [0, 40]


async def test_a_change_that_leaves_the_names_is_another_look_at_the_same_number(autojump_clock: MockClock) -> None:
    folders = Folders(autojump_clock)
    folders.put("a")
    async with watching(folders, until=59):
        await trio.sleep_until(10)
        folders.touch("a")
    assert folders.seen == [(0, (1,), (1,)), (40, (1,), (2,))]


async def test_a_change_between_the_watch_and_the_first_number_is_counted_again(autojump_clock: MockClock) -> None:
    folders = Folders(autojump_clock)

    def list_items(folder: Path) -> tuple[str, ...]:
        names = Folders.list_items(folders, folder)
        if folders.reads == [0]:
            folders.touch("late")
        return names

    folders.list_items = list_items  # type: ignore[method-assign]
    async with watching(folders, until=59):
        pass
    assert folders.numbers == [(0, 0), (30, 1)]


# ---- recounts ---------------------------------------------------------------------------------


async def test_without_notices_the_folder_is_recounted_every_sixty_seconds(autojump_clock: MockClock) -> None:
    folders = Folders(autojump_clock)
    async with watching(folders, until=125):
        await trio.sleep_until(70)
        folders.put("a")
    assert folders.reads == [0, 60, 120]
    assert folders.numbers == [(0, 0), (120, 1)]


async def test_there_is_no_recount_during_a_debounce_and_the_next_is_sixty_seconds_after_its_count(
    autojump_clock: MockClock,
) -> None:
    folders = Folders(autojump_clock)
    async with watching(folders, until=225):
        for at in (50, 70, 90, 110, 130):
            await trio.sleep_until(at)
            folders.touch(str(at))
    assert folders.reads == [0, 160, 220]


# ---- failures ---------------------------------------------------------------------------------


async def test_a_failed_poll_is_told_and_tried_again_after_sixty_seconds_and_one_success_resets(
    autojump_clock: MockClock,
) -> None:
    folders = Folders(autojump_clock)
    async with watching(folders, until=305):
        await trio.sleep_until(1)
        folders.broken.add(BACKLOG)
        await trio.sleep_until(150)
        folders.broken.clear()
        await trio.sleep_until(200)
        folders.broken.add(BACKLOG)
    assert folders.failed == [(60, 1), (120, 2), (240, 1), (300, 2)]
    assert [at for at, *_ in folders.seen] == [0, 180]


async def test_three_failures_in_a_row_end_it_with_exit_code_3(autojump_clock: MockClock) -> None:
    folders = Folders(autojump_clock)
    folders.broken.add(BACKLOG)
    with pytest.RaisesGroup(pytest.RaisesExc(BacklogUnreadable, match="3 times in a row"), flatten_subgroups=True):
        await folders.watch(BACKLOG)
    assert BacklogUnreadable.exit_code == 3
    assert folders.failed == [(0, 1), (60, 2), (120, 3)]
    assert folders.seen == []
    assert folders.open == {}


async def test_changes_bring_the_next_try_no_nearer(autojump_clock: MockClock) -> None:
    folders = Folders(autojump_clock)
    async with watching(folders, until=119):
        await trio.sleep_until(1)
        folders.broken.add(BACKLOG)
        folders.touch()
        await trio.sleep_until(32)
        folders.broken.clear()
        folders.touch("a")
    assert folders.reads == [0, 31, 91]
    assert folders.numbers == [(0, 0), (91, 1)]


async def test_a_try_that_falls_into_a_debounce_is_made_and_the_number_waits(autojump_clock: MockClock) -> None:
    folders = Folders(autojump_clock)
    async with watching(folders, until=150):
        await trio.sleep_until(1)
        folders.broken.add(BACKLOG)
        await trio.sleep_until(110)
        folders.broken.clear()
        folders.touch("a")
    assert folders.reads == [0, 60, 120, 140]
    assert folders.numbers == [(0, 0), (140, 1)]


async def test_the_very_first_number_waits_for_no_debounce(autojump_clock: MockClock) -> None:
    folders = Folders(autojump_clock)
    folders.broken.add(BACKLOG)
    async with watching(folders, until=100):
        await trio.sleep_until(50)
        folders.broken.clear()
        folders.touch("a")
        await trio.sleep_until(70)
        folders.put("a", "b")
    assert folders.numbers == [(60, 1), (80, 2)]


async def test_one_broken_folder_fails_the_poll_of_both(autojump_clock: MockClock) -> None:
    folders = Folders(autojump_clock)
    async with watching(folders, SPEC_ISSUES, BACKLOG, until=70):
        await trio.sleep_until(10)
        folders.broken.add(BACKLOG)
        folders.touch("s", folder=SPEC_ISSUES)
    assert folders.failed == [(40, 1)]
    assert folders.seen == [(0, (0, 0), (1, 1))]


# ---- two folders ------------------------------------------------------------------------------


async def test_the_latest_pair_is_given_in_the_order_of_the_folders(autojump_clock: MockClock) -> None:
    folders = Folders(autojump_clock)
    folders.put("s", folder=SPEC_ISSUES)
    folders.put("a", "b")
    async with watching(folders, SPEC_ISSUES, BACKLOG, until=59):
        await trio.sleep_until(5)
        folders.touch(folder=SPEC_ISSUES)
    assert folders.seen == [(0, (1, 2), (1, 1)), (35, (0, 2), (2, 2))]


async def test_a_folder_that_changes_keeps_its_number_while_the_other_is_counted(autojump_clock: MockClock) -> None:
    """A half-written item is not taken because a spec issue was cleared at that moment."""
    folders = Folders(autojump_clock)
    async with watching(folders, SPEC_ISSUES, BACKLOG, until=99):
        await trio.sleep_until(5)
        folders.touch("s", folder=SPEC_ISSUES)
        await trio.sleep_until(20)
        folders.touch("a")
        await trio.sleep_until(34)
        folders.touch("a", "b")
    assert folders.seen == [(0, (0, 0), (1, 1)), (35, (1, 0), (2, 1)), (64, (1, 2), (3, 2))]


async def test_a_folder_that_changes_for_long_does_not_keep_the_other_from_its_recounts(
    autojump_clock: MockClock,
) -> None:
    folders = Folders(autojump_clock)
    async with watching(folders, SPEC_ISSUES, BACKLOG, until=130):
        for at in range(10, 130, 10):
            await trio.sleep_until(at + 0.5)
            folders.touch(str(at))
            folders.put(str(at), folder=SPEC_ISSUES)
    assert folders.seen == [(0, (0, 0), (1, 1)), (60, (1, 0), (2, 1)), (120, (1, 0), (3, 1))]


# ---- cancellation -----------------------------------------------------------------------------


@pytest.mark.parametrize("at", [0, 0.5, 10, 30, 40, 45, 60, 60.5])
async def test_cancelled_at_any_moment_it_leaves_nothing(autojump_clock: MockClock, at: float) -> None:
    folders = Folders(autojump_clock)
    async with watching(folders, SPEC_ISSUES, BACKLOG, until=at):
        await trio.sleep_until(10)
        folders.touch("a")
        folders.broken.add(BACKLOG)
    assert trio.current_time() <= at + 1  # `watching` has seen that all notices are closed
