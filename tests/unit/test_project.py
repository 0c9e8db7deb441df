from __future__ import annotations

import os
import stat
import subprocess
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cuggino import project as module
from cuggino.errors import StorageError
from cuggino.project import Project, append, living_log, prune_logs, uuid7, write_whole

DAY = 86400


@contextmanager
def umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


# ---- where things are -------------------------------------------------------------------------


def test_the_root_is_the_nearest_folder_upward_with_a_configuration(tmp_path: Path) -> None:
    inner = tmp_path / "outer" / "inner" / "deep"
    inner.mkdir(parents=True)
    (tmp_path / "outer" / ".cuggino.json").touch()
    assert Project.find(inner).root == tmp_path / "outer"
    (inner.parent / ".cuggino.json").touch()
    assert Project.find(inner).root == inner.parent


def test_without_a_configuration_the_root_is_where_one_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert Project.find(tmp_path).root == tmp_path
    monkeypatch.chdir(tmp_path)
    assert Project.find(Path()).root == tmp_path


def test_a_start_that_is_a_link_counts_where_it_leads(tmp_path: Path) -> None:
    (tmp_path / "real" / "deep").mkdir(parents=True)
    (tmp_path / "real" / ".cuggino.json").touch()
    (tmp_path / "link").symlink_to("real/deep")
    assert Project.find(tmp_path / "link").root == tmp_path / "real"


def test_a_current_folder_that_was_removed_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with pytest.raises(StorageError, match="current folder does not exist"):
        Project.find(Path())


def test_folders_are_made_for_the_person_alone_whatever_the_umask(tmp_path: Path) -> None:
    project = Project(tmp_path)
    with umask(0o227):
        project.prepare()
    folders = [path for path in (project.state_dir, *project.state_dir.iterdir()) if path.is_dir()]
    assert {path.name: mode(path) for path in folders} == dict.fromkeys(
        [".cuggino", "backlog", "spec-issues", "tbd", "archive", "wip", "logs", "spawns"], 0o700
    )


def test_what_exists_is_respected(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.backlog.mkdir(parents=True)
    project.backlog.chmod(0o750)
    (project.state_dir / ".gitignore").write_text("mine\n")
    project.prepare()
    project.prepare()
    assert mode(project.backlog) == 0o750
    assert (project.state_dir / ".gitignore").read_text() == "mine\n"


def test_a_file_in_a_folders_place_is_told(tmp_path: Path) -> None:
    (tmp_path / ".cuggino").touch()
    with pytest.raises(StorageError, match=r"\.cuggino is no folder"):
        Project(tmp_path).prepare()


def test_git_is_shown_backlog_spec_issues_and_tbd_alone(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.prepare()
    for folder in [path for path in project.state_dir.iterdir() if path.is_dir()]:
        (folder / "deep").mkdir()
        (folder / "deep" / "file.md").touch()
        (folder / ".0-0.tmp").touch()
    project.lock_file.touch()
    project.state_file.touch()
    subprocess.run(["git", "init", "--quiet"], cwd=tmp_path, check=True)
    shown = subprocess.run(
        ["git", "status", "--porcelain", "--untracked-files=all"], cwd=tmp_path, check=True, capture_output=True
    )
    assert shown.stdout.decode().split("\n")[:-1] == [
        "?? .cuggino/backlog/deep/file.md",
        "?? .cuggino/spec-issues/deep/file.md",
        "?? .cuggino/tbd/deep/file.md",
    ]


# ---- files ------------------------------------------------------------------------------------


@pytest.mark.parametrize("mask", [0o000, 0o077, 0o777])
def test_a_whole_write_has_the_content_and_mode_that_were_asked_for(tmp_path: Path, mask: int) -> None:
    path = tmp_path / "file"
    with umask(mask):
        write_whole(path, "Größe\n")
        assert (path.read_bytes(), mode(path)) == ("Größe\n".encode(), 0o600)
        write_whole(path, b"\xff", mode=0o644)
        assert (path.read_bytes(), mode(path)) == (b"\xff", 0o644)
    assert names(tmp_path) == {"file"}


def test_a_reader_has_the_old_file_or_the_new_one(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_whole(path, "old")
    with path.open() as reader:
        write_whole(path, "new and longer")
        assert reader.read() == "old"
    assert path.read_text() == "new and longer"


@pytest.mark.parametrize("step", ["fchmod", "write", "fsync"])
@pytest.mark.parametrize("failure", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, failure: BaseException
) -> None:
    path = tmp_path / "file"
    write_whole(path, "old")

    def fail(*_: object) -> None:
        raise failure

    with monkeypatch.context() as patch:
        patch.setattr(os, step, fail)
        with pytest.raises(StorageError if isinstance(failure, OSError) else KeyboardInterrupt) as caught:
            write_whole(path, "new")
    if isinstance(failure, OSError):
        assert str(caught.value) == f"{path} cannot be written: No space left on device."
    assert path.read_text() == "old"
    assert names(tmp_path) == {"file"}


def test_a_write_over_a_folder_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(StorageError, match="cannot be written"):
        write_whole(tmp_path / "folder", "x")
    assert names(tmp_path) == {"folder"}


def test_file_and_folder_are_synced_and_the_temporary_name_has_a_dot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = []
    fsync, replace = os.fsync, Path.replace

    def seen_sync(descriptor: int) -> None:
        steps.append("folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file")
        fsync(descriptor)

    def seen_replace(self: Path, target: Path) -> Path:
        assert self.parent == target.parent == tmp_path
        assert self.name.startswith(".")
        steps.append("rename")
        return replace(self, target)

    monkeypatch.setattr(os, "fsync", seen_sync)
    monkeypatch.setattr(Path, "replace", seen_replace)
    write_whole(tmp_path / ("x" * 255), "x")
    assert steps == ["file", "rename", "folder"]


def test_a_write_through_a_link_keeps_the_link(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "link").symlink_to("elsewhere/file")
    write_whole(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "elsewhere" / "file").read_text() == "new"
    assert names(tmp_path / "elsewhere") == {"file"}


def test_half_a_surrogate_pair_does_not_stop_a_write(tmp_path: Path) -> None:
    write_whole(tmp_path / "file", "a\ud83e")
    append(tmp_path / "file", "b\ud83e")
    assert (tmp_path / "file").read_text() == "a\\ud83eb\\ud83e"


def test_appending_makes_the_file_and_goes_on_after_a_short_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: write(descriptor, data[:3]))
    append(tmp_path / "file", "first ")
    append(tmp_path / "file", b"second")
    assert (tmp_path / "file").read_text() == "first second"
    assert mode(tmp_path / "file") == 0o600


def test_appending_is_one_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = []
    write = os.write

    def seen(descriptor: int, data: memoryview) -> int:
        sizes.append(len(data))
        return write(descriptor, data)

    monkeypatch.setattr(os, "write", seen)
    append(tmp_path / "file", "x" * 1_000_000)
    assert sizes == [1_000_000]


def test_appending_where_it_cannot_be_is_told(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="cannot be appended to: No such file or directory"):
        append(tmp_path / "none" / "file", "x")


# ---- names ------------------------------------------------------------------------------------


def test_ids_are_of_version_7_and_tell_the_time() -> None:
    before = time.time_ns() // 1_000_000
    text = uuid7()
    parsed = uuid.UUID(text)
    assert str(parsed) == text
    assert (parsed.version, parsed.variant) == (7, uuid.RFC_4122)
    assert before <= parsed.int >> 80 <= time.time_ns() // 1_000_000 + 1


def test_ids_of_a_process_are_in_order_whatever_the_clock_does(monkeypatch: pytest.MonkeyPatch) -> None:
    made = [uuid7() for _ in range(10_000)]
    monkeypatch.setattr(time, "time_ns", lambda: 0)
    made += [uuid7() for _ in range(10_000)]
    assert made == sorted(set(made))


# ---- logs -------------------------------------------------------------------------------------


@pytest.fixture
def project(tmp_path: Path) -> Project:
    project = Project(tmp_path)
    project.prepare()
    return project


def test_a_log_is_new_empty_and_private(project: Project) -> None:
    with living_log(project) as first, living_log(project) as second:
        assert first.name < second.name
        assert {path.name for path in (first, second)} == names(project.logs)
        assert {(path.suffix, path.read_bytes(), mode(path)) for path in (first, second)} == {(".jsonl", b"", 0o600)}


def test_the_newest_100_logs_of_the_last_30_days_stay(project: Project) -> None:
    made = []
    for _ in range(module.LOGS_KEPT + 3):
        with living_log(project) as path:
            made.append(path.name)
    old, kept = made[-2], made[-1]
    os.utime(project.logs / old, (0, time.time() - 31 * DAY))
    os.utime(project.logs / kept, (0, time.time() - 29 * DAY))
    prune_logs(project, time.time())
    assert names(project.logs) == {*made[3:]} - {old}


def test_the_log_of_a_living_process_stays(project: Project) -> None:
    with living_log(project):
        prune_logs(project, time.time() + 31 * DAY)
        assert len(names(project.logs)) == 1
    prune_logs(project, time.time() + 31 * DAY)
    assert names(project.logs) == set()


def test_pruning_where_nothing_is_does_nothing(tmp_path: Path) -> None:
    prune_logs(Project(tmp_path), time.time())
