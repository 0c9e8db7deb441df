"""Atomic writes and appends."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from cuggino.errors import StorageError
from cuggino.files import append, open_below, remove, write_atomic


@pytest.fixture(params=[0o000, 0o077, 0o777], ids="umask {:03o}".format)
def umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def names(directory: Path) -> set[str]:
    return {path.name for path in directory.iterdir()}


def test_an_atomic_write_sets_content_and_mode_whatever_the_umask_is(tmp_path: Path, umask: None) -> None:
    path = tmp_path / "file"
    write_atomic(path, "Größe\n")
    assert (path.read_bytes(), mode(path)) == ("Größe\n".encode(), 0o600)
    write_atomic(path, b"\xff", mode=0o644)
    assert (path.read_bytes(), mode(path)) == (b"\xff", 0o644)
    assert names(tmp_path) == {"file"}


def test_a_reader_sees_the_old_content_or_the_new(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_atomic(path, "old")
    with path.open() as reader:
        write_atomic(path, "new and longer")
        assert reader.read() == "old"
    assert path.read_text() == "new and longer"


@pytest.mark.parametrize("step", ["fchmod", "write", "fsync"])
@pytest.mark.parametrize("failure", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_failed_write_leaves_only_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, failure: BaseException
) -> None:
    path = tmp_path / "file"
    write_atomic(path, "old")

    def fail(*_: object) -> None:
        raise failure

    with monkeypatch.context() as patch:
        patch.setattr(os, step, fail)
        with pytest.raises(StorageError if isinstance(failure, OSError) else KeyboardInterrupt) as caught:
            write_atomic(path, "new")
    if isinstance(failure, OSError):
        assert str(caught.value) == f"{path} cannot be written: No space left on device."
    assert path.read_text() == "old"
    assert names(tmp_path) == {"file"}


def test_a_directory_cannot_be_overwritten_and_no_temporary_file_stays(tmp_path: Path) -> None:
    (tmp_path / "directory").mkdir()
    with pytest.raises(StorageError, match="cannot be written"):
        write_atomic(tmp_path / "directory", "x")
    assert names(tmp_path) == {"directory"}


def test_the_file_is_flushed_before_the_rename_and_the_directory_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = []
    fsync, replace = os.fsync, Path.replace

    def recorded_sync(descriptor: int) -> None:
        steps.append("directory" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file")
        fsync(descriptor)

    def recorded_replace(self: Path, target: Path) -> Path:
        assert self.parent == target.parent == tmp_path
        assert self.name.startswith(".")
        steps.append("rename")
        return replace(self, target)

    monkeypatch.setattr(os, "fsync", recorded_sync)
    monkeypatch.setattr(Path, "replace", recorded_replace)
    write_atomic(tmp_path / ("x" * 255), "x")
    assert steps == ["file", "rename", "directory"]


def test_a_write_that_keeps_a_link_replaces_the_file_that_it_points_to(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "link").symlink_to("elsewhere/file")
    write_atomic(tmp_path / "link", "new", keep_link=True)
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "elsewhere" / "file").read_text() == "new"
    assert names(tmp_path / "elsewhere") == {"file"}


def test_lone_surrogates_are_written_as_escapes(tmp_path: Path) -> None:
    write_atomic(tmp_path / "file", "a\ud83e")
    append(tmp_path / "file", "b\ud83e")
    assert (tmp_path / "file").read_text() == "a\\ud83eb\\ud83e"


def test_appending_continues_after_a_short_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: write(descriptor, data[:3]))
    append(tmp_path / "file", "first ")
    append(tmp_path / "file", b"second")
    assert (tmp_path / "file").read_text() == "first second"
    assert mode(tmp_path / "file") == 0o600


def test_appending_is_one_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = []
    write = os.write

    def write_and_count(descriptor: int, data: memoryview) -> int:
        sizes.append(len(data))
        return write(descriptor, data)

    monkeypatch.setattr(os, "write", write_and_count)
    append(tmp_path / "file", "x" * 1_000_000)
    assert sizes == [1_000_000]


def test_appending_to_a_file_in_a_missing_directory_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="cannot be appended to: No such file or directory"):
        append(tmp_path / "none" / "file", "x")


@pytest.mark.parametrize("target", ["kept", "missing"])
def test_nothing_is_written_through_a_link(tmp_path: Path, target: str) -> None:
    (tmp_path / "kept").write_text("mine")
    link = tmp_path / "link"
    link.symlink_to(target)
    with pytest.raises(StorageError, match="link cannot be appended to"):
        append(link, "more")
    write_atomic(link, "new")
    assert (link.is_symlink(), link.read_text()) == (False, "new")
    assert (names(tmp_path), (tmp_path / "kept").read_text()) == ({"link", "kept"}, "mine")


def test_an_append_to_a_pipe_does_not_wait(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(StorageError, match="pipe cannot be appended to"):
        append(tmp_path / "pipe", "more")


# ---- a tree that others write ------------------------------------------------------------------


@pytest.mark.parametrize("names", [("a", "b"), ("a",)])
def test_a_folder_is_opened_without_following_links(tmp_path: Path, names: tuple[str, ...]) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "elsewhere" / "b").mkdir(parents=True)
    (tmp_path / "root" / "a").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StorageError, match="root/a is a symbolic link"), open_below(tmp_path / "root", *names):
        pass
    (tmp_path / "link").symlink_to("root")
    with open_below(tmp_path / "link"):  # what is trusted may be a link
        pass


@pytest.mark.skipif(not os.path.ismount("/proc"), reason="needs another file system")
def test_removal_ends_at_links_and_at_other_file_systems(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "file").touch()
    tree = tmp_path / "tree"
    (tree / "deep" / "deeper").mkdir(parents=True)
    (tree / "deep" / "deeper" / "link").symlink_to(tmp_path / "kept")
    (tree / "deep" / "file").touch()
    os.mkfifo(tree / "pipe")
    with open_below(tmp_path) as directory:
        remove(directory, "tree")
    assert names(tmp_path / "kept") == {"file"}
    assert not tree.exists()
    with open_below(Path("/")) as directory, pytest.raises(OSError, match="another file system"):
        remove(directory, "proc")
