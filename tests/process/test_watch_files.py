"""Watching real folders with watchdog, on the real clock.

Intervals are short, except for the recount where it must not help.
"""

from __future__ import annotations

import errno
import math
import os
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
import trio.testing
from msgspec.structs import replace
from trio_util import AsyncValue
from watchdog.events import FileCreatedEvent
from watchdog.observers import Observer
from watchdog.observers.api import BaseObserver
from watchdog.utils import BaseThread

from cuggino.watch import notices
from cuggino.watch.counting import BacklogUnreadable, FolderListing, watch_file_counts
from cuggino.watch.intervals import WatchIntervals
from cuggino.watch.notices import Notices, open_notices

DEBOUNCE = 0.15
SHORT = WatchIntervals(debounce=DEBOUNCE, longest_debounce=10.0, recount=3600.0)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / ".cuggino" / "backlog"
    folder.mkdir(parents=True)
    return folder


class Watch:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.counts: AsyncValue[tuple[FolderListing, ...] | None] = AsyncValue(None)
        self.failed: list[int] = []
        self.on_failure: Callable[[], object] = lambda: None

    @property
    def now(self) -> FolderListing:
        assert self.counts.value is not None
        return self.counts.value[0]

    async def holds(self, *names: str) -> None:
        """Wait until the listing has these items."""
        await self.counts.wait_value(lambda value: value is not None and value[0].names == names)

    async def versions(self, more: int) -> None:
        """Wait for this number of further versions."""
        look = self.now.version + more
        await self.counts.wait_value(lambda value: value is not None and value[0].version >= look)

    async def fail(self, attempt: int, _message: str) -> None:
        self.failed.append(attempt)
        self.on_failure()


@asynccontextmanager
async def watching(folder: Path, **intervals: float) -> AsyncIterator[Watch]:
    """Watch a folder during the block, which starts after the first count; then assert that nothing is left."""
    watch = Watch(folder)
    before = open_files()
    with trio.fail_after(20):
        async with trio.open_nursery() as nursery:

            async def run() -> None:
                await watch_file_counts([folder], watch.counts, watch.fail, intervals=replace(SHORT, **intervals))

            nursery.start_soon(run)
            await watch.counts.wait_value(lambda value: value is not None)
            yield watch
            nursery.cancel_scope.cancel()
    assert threads() == []
    assert open_files() == before


def threads() -> list[threading.Thread]:
    """Return watchdog's threads; Trio keeps an idle worker thread for a while."""
    return [thread for thread in threading.enumerate() if isinstance(thread, BaseThread)]


def open_files() -> int:
    return len(os.listdir("/proc/self/fd")) if sys.platform == "linux" else 0  # noqa: PTH208


# ---- changes ----------------------------------------------------------------------------------


async def test_created_renamed_and_deleted_files_are_counted(folder: Path) -> None:
    async with watching(folder) as watch:
        (folder / "a.md").write_text("a")
        await watch.holds("a.md")
        (folder / "a.md").rename(folder / "b.md")
        await watch.holds("b.md")
        (folder.parent / "c.md").write_text("c")
        (folder.parent / "c.md").rename(folder / "c.md")
        await watch.holds("b.md", "c.md")
        (folder / "b.md").rename(folder.parent / "b.md")
        await watch.holds("c.md")
        (folder / "c.md").unlink()
        await watch.holds()
        assert watch.now.version == 6


def edit_in_place(folder: Path) -> None:
    (folder / "a.md").write_text("something else")


def edit_by_renaming(folder: Path) -> None:
    (folder / ".a.md.swp").write_text("b")
    (folder / "a.md").rename(folder / "a.md~")
    (folder / ".a.md.swp").rename(folder / "a.md")


@pytest.mark.parametrize("edit", [edit_in_place, edit_by_renaming])
async def test_an_edit_is_one_new_version_with_the_same_names(folder: Path, edit: Callable[[Path], None]) -> None:
    (folder / "a.md").write_text("a")
    async with watching(folder) as watch:
        edit(folder)
        await watch.versions(1)
        await trio.sleep(3 * DEBOUNCE)
        assert watch.now == FolderListing(2, ("a.md",))


async def test_reading_and_files_that_are_not_items_change_nothing(folder: Path) -> None:
    (folder / "a.md").write_text("a")
    async with watching(folder) as watch:
        (folder / "a.md").read_bytes()
        list(folder.iterdir())
        (folder / "a.md").chmod(0o600)
        (folder / ".a.md.swp").write_text("a")
        (folder / "4913").touch()
        (folder / "4913").unlink()
        (folder / "sub").mkdir()
        (folder / "sub" / "a.md").touch()
        await trio.sleep(3 * DEBOUNCE)
        assert watch.now.version == 1
        (folder / "b.md").touch()  # it was listening
        await watch.holds("a.md", "b.md")


async def test_a_link_to_a_folder_is_watched_as_that_folder(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(folder)
    async with watching(tmp_path / "link") as watch:
        (folder / "a.md").touch()
        await watch.holds("a.md")


async def test_the_intervals_hold_at_a_hundredth_of_their_length(folder: Path) -> None:
    """Constant changes beyond the longest debounce are counted once meanwhile, and once after the last."""
    async with watching(folder, debounce=0.25, longest_debounce=2.5, recount=0.5) as watch:
        began = trio.current_time()
        await watch.versions(1)
        assert 0.4 < trio.current_time() - began < 1.5  # without a change: the recount
        began = trio.current_time()
        counted_at: list[float] = []

        async def note() -> None:
            while True:
                await watch.versions(1)
                counted_at.append(trio.current_time() - began)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(note)
            for number in range(64):
                (folder / f"{number:02}").touch()
                await trio.sleep(0.05)
            await watch.holds(*(f"{number:02}" for number in range(64)))
            nursery.cancel_scope.cancel()
        assert counted_at, "the times themselves are tested on the virtual clock"


# ---- a folder that does not stay --------------------------------------------------------------


async def test_a_deleted_folder_is_made_again_and_watched(folder: Path) -> None:
    """The new folder often has the same inode."""
    (folder / "a.md").touch()
    async with watching(folder) as watch:
        for _ in range(3):
            (folder / "a.md").unlink()
            folder.rmdir()
            await watch.holds()
            assert folder.is_dir()
            (folder / "a.md").touch()
            await watch.holds("a.md")
        assert watch.failed == []


async def test_a_renamed_folder_is_made_again_by_a_recount_and_watched(
    folder: Path,
) -> None:
    async with watching(folder, recount=0.3) as watch:
        (folder / "a.md").touch()
        await watch.holds("a.md")
        folder.rename(folder.parent / "elsewhere")
        await watch.holds()
        (folder / "b.md").touch()
        await watch.holds("b.md")


async def test_a_folder_replaced_by_a_file_fails_the_poll_until_it_is_back(folder: Path) -> None:
    async with watching(folder, recount=0.3) as watch:
        watch.on_failure = folder.unlink  # the missing folder is made again
        folder.rmdir()
        folder.touch()
        await watch.versions(1)
        assert watch.failed == [1]
        (folder / "a.md").touch()
        await watch.holds("a.md")


async def test_a_folder_that_stays_unreadable_ends_the_watch_without_a_thread(folder: Path) -> None:
    with pytest.RaisesGroup(pytest.RaisesExc(BacklogUnreadable, match=r"backlog cannot be read: Not a directory")):
        async with watching(folder, recount=0.05) as watch:
            folder.rmdir()
            folder.touch()
            await trio.sleep_forever()
    assert watch.failed == [1, 2, 3]
    assert threads() == []


# ---- many files -------------------------------------------------------------------------------


async def test_twenty_thousand_new_files_are_one_debounce(folder: Path) -> None:
    program = "import sys\nfor number in range(20_000): open(f'{sys.argv[1]}/{number}.md', 'w').close()"
    async with watching(folder, debounce=3) as watch:  # longer than a busy machine pauses a process
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.run_process, [sys.executable, "-c", program, str(folder)])
            await watch.counts.wait_value(lambda value: value is not None and len(value[0].names) == 20_000)
        assert watch.now.version == 2


# ---- notices alone ----------------------------------------------------------------------------


class Changes:
    """Counts calls and asserts that they come in Trio's thread."""

    def __init__(self) -> None:
        self.number = AsyncValue(0)
        self._thread = threading.get_ident()

    def __call__(self) -> None:
        assert threading.get_ident() == self._thread
        self.number.value += 1

    async def after(self, change: Callable[[], object]) -> None:
        number = self.number.value
        change()
        with trio.fail_after(5):
            await self.number.wait_value(lambda value: value > number)
            await self.end()

    async def end(self) -> None:
        """Wait until no more calls come, since one change is several events."""
        calls = math.nan
        while calls != self.number.value:
            calls = self.number.value
            await trio.sleep(0.1)


@asynccontextmanager
async def noticing(folder: Path) -> AsyncIterator[tuple[Notices, Changes]]:
    changes = Changes()
    async with open_notices(folder, changes) as opened:
        await opened.renew()
        yield opened, changes
    assert threads() == []


async def test_renewing_makes_a_missing_folder_and_watches_it(folder: Path) -> None:
    folder.rmdir()
    async with noticing(folder) as (opened, changes):
        assert opened.watching
        await changes.after((folder / "a.md").touch)


async def test_renewing_leaves_a_watch_of_the_same_folder_alone(folder: Path) -> None:
    async with noticing(folder) as (opened, changes):
        before = threads()
        await opened.renew()
        assert threads() == before
        await changes.after((folder / "a.md").touch)


async def test_renewing_watches_the_new_folder_and_not_the_old_one(folder: Path) -> None:
    async with noticing(folder) as (opened, changes):
        old = folder.rename(folder.parent / "old")
        folder.mkdir()
        await opened.renew()
        await changes.after((folder / "a.md").touch)
        number = changes.number.value
        (old / "a.md").touch()
        await changes.end()
        assert changes.number.value == number


async def test_deleting_the_folder_itself_is_a_change(folder: Path) -> None:
    async with noticing(folder) as (opened, changes):
        await changes.after(folder.rmdir)
        await opened.renew()
        assert opened.watching
        await changes.after((folder / "a.md").touch)


async def test_a_file_in_place_of_the_folder_is_not_watched_nor_its_parent(folder: Path) -> None:
    folder.rmdir()
    folder.touch()
    async with noticing(folder) as (opened, _):
        assert not opened.watching
        assert threads() == []


async def test_after_the_block_no_call_comes_not_even_a_pending_one(folder: Path) -> None:
    changes = Changes()
    opened = notices._FolderNotices(folder, changes)
    await opened.renew()
    opened._bridge.on_any_event(FileCreatedEvent(str(folder / "a.md")))
    await opened.close()
    opened._bridge.on_any_event(FileCreatedEvent(str(folder / "b.md")))
    await trio.testing.wait_all_tasks_blocked(0.05)
    assert changes.number.value == 0


async def test_when_cancelled_it_still_ends_its_threads(folder: Path) -> None:
    with trio.CancelScope() as scope:
        async with noticing(folder):
            assert threads() != []
            scope.cancel()
            await trio.sleep_forever()
    assert scope.cancelled_caught
    assert threads() == []


def test_a_change_after_the_end_of_trio_is_ignored(tmp_path: Path) -> None:
    """An abandoned watchdog thread must not print a traceback."""
    changes = Changes()

    async def main() -> notices._Bridge:
        return notices._Bridge(changes)

    bridge = trio.run(main)
    bridge.on_any_event(FileCreatedEvent(str(tmp_path / "a.md")))
    assert changes.number.value == 0


# ---- without a watch --------------------------------------------------------------------------


def poor(where: str, error: Exception) -> Callable[[], BaseObserver]:
    """Return an observer factory for a system without any watch left."""

    def fail(*_: object, **__: object) -> None:
        raise error

    def make() -> BaseObserver:
        if where == "__init__":
            fail()
        observer = Observer()
        setattr(observer, where, fail)
        return observer

    return make


NO_INSTANCE = OSError(errno.EMFILE, "inotify instance limit reached")
NO_WATCH = OSError(errno.ENOSPC, "inotify watch limit reached")
NO_THREAD = RuntimeError("can't start new thread")


@pytest.mark.parametrize(
    ("where", "error"),
    [("__init__", NO_INSTANCE), ("schedule", NO_INSTANCE), ("start", NO_WATCH), ("start", NO_THREAD)],
)
async def test_without_a_watch_recounts_work_and_a_later_watch_is_taken(
    folder: Path, monkeypatch: pytest.MonkeyPatch, where: str, error: Exception
) -> None:
    monkeypatch.setattr(notices, "Observer", poor(where, error))
    async with watching(folder, recount=0.05) as watch:
        assert threads() == []
        (folder / "a.md").touch()
        await watch.holds("a.md")
        assert threads() == []
        monkeypatch.setattr(notices, "Observer", Observer)
        await watch.versions(2)
        assert threads() != []
        assert watch.failed == []


async def test_an_unreadable_folder_does_not_count_as_watched(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda _path, _mode: False)
    async with noticing(folder) as (opened, changes):
        before = opened.watching
        monkeypatch.undo()
        await opened.renew()
        assert (before, opened.watching) == (False, True)
        await changes.after((folder / "a.md").touch)


def test_warnings_of_watchdog_are_not_printed() -> None:
    """Without a handler Python would print them in the terminal."""
    program = (
        "import logging; import cuggino.watch.notices;"
        "logging.getLogger('watchdog.observers.inotify_c').warning('Inotify queue overflowed')"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert ended.stdout + ended.stderr == b""
