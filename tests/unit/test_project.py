"""Where a project's files are."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path

import pytest

from cuggino.errors import StorageError
from cuggino.project import Project


def test_the_root_is_the_nearest_parent_with_a_configuration(tmp_path: Path) -> None:
    inner = tmp_path / "outer" / "inner" / "deep"
    inner.mkdir(parents=True)
    (tmp_path / "outer" / ".cuggino.json").touch()
    assert Project.find(inner).root == tmp_path / "outer"
    (inner.parent / ".cuggino.json").touch()
    assert Project.find(inner).root == inner.parent


@pytest.mark.parametrize("border", ["git", "worktree", "home", "open folder"])
def test_the_search_upward_ends_at_a_border(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, border: str) -> None:
    inner = tmp_path / "outer" / "inner" / "deep"
    inner.mkdir(parents=True)
    (tmp_path / "outer" / ".cuggino.json").touch()
    match border:
        case "git":
            (inner.parent / ".git").mkdir()
        case "worktree":
            (inner.parent / ".git").write_text("gitdir: elsewhere")
        case "home":
            monkeypatch.setenv("HOME", str(inner.parent))
        case "open folder":
            (tmp_path / "outer").chmod(0o1777)
    assert Project.find(inner).root == inner
    if border != "open folder":
        (inner.parent / ".cuggino.json").touch()  # at the border itself it counts
        assert Project.find(inner).root == inner.parent


@pytest.mark.skipif(not os.path.ismount("/proc"), reason="needs another file system")
def test_the_search_upward_ends_at_another_file_system(monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.path.lexists
    monkeypatch.setattr(os.path, "lexists", lambda path: str(path) == "/.cuggino.json" or real(path))
    assert Project.find(Path("/proc/self/task")).root != Path("/")


def test_without_a_configuration_the_root_is_the_current_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert Project.find(tmp_path).root == tmp_path
    monkeypatch.chdir(tmp_path)
    assert Project.find(Path()).root == tmp_path


def test_links_to_a_project_are_resolved(tmp_path: Path) -> None:
    (tmp_path / "real" / "deep").mkdir(parents=True)
    (tmp_path / "real" / ".cuggino.json").touch()
    (tmp_path / "link").symlink_to("real/deep")
    assert Project.find(tmp_path / "link").root == tmp_path / "real"


def test_a_deleted_current_directory_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with pytest.raises(StorageError, match="current directory does not exist"):
        Project.find(Path())


def test_directories_are_private_whatever_the_umask_is(tmp_path: Path) -> None:
    project = Project(tmp_path)
    before = os.umask(0o227)
    try:
        project.prepare()
    finally:
        os.umask(before)
    folders = [path for path in (project.state_dir, *project.state_dir.iterdir()) if path.is_dir()]
    assert {path.name: stat.S_IMODE(path.stat().st_mode) for path in folders} == dict.fromkeys(
        [".cuggino", "backlog", "spec-issues", "tbd", "archive", "wip", "logs", "spawns"], 0o700
    )


def test_existing_directories_and_files_are_left_alone(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.backlog.mkdir(parents=True)
    project.backlog.chmod(0o750)
    (project.state_dir / ".gitignore").write_text("mine\n")
    project.prepare()
    project.prepare()
    assert stat.S_IMODE(project.backlog.stat().st_mode) == 0o750
    assert (project.state_dir / ".gitignore").read_text() == "mine\n"


def test_a_file_in_the_place_of_a_directory_is_an_error(tmp_path: Path) -> None:
    (tmp_path / ".cuggino").touch()
    with pytest.raises(StorageError, match=r"\.cuggino is a file, but cuggino needs a directory"):
        Project(tmp_path).prepare()


def test_git_sees_only_backlog_spec_issues_and_tbd(tmp_path: Path) -> None:
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
