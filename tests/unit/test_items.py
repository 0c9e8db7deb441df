"""What counts as a file, in real folders."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from cuggino.errors import StorageError
from cuggino.items import is_item_name, list_items


def names(folder: Path) -> list[str]:
    return list(list_items(folder))


def test_files_are_listed_by_name_whatever_they_hold(tmp_path: Path) -> None:
    (tmp_path / "b.md").write_text("b")
    (tmp_path / "a").touch()
    (tmp_path / "10").write_bytes(b"\xff")
    (tmp_path / "2").touch(mode=0)
    assert names(tmp_path) == ["10", "2", "a", "b.md"]


@pytest.mark.parametrize("name", [".a.md", ".a.md.swp", "a.md~", "a.swp", "a.tmp", "4913", "#a.md#", "##", "~"])
def test_hidden_files_and_temporary_files_of_editors_are_not_items(tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch()
    assert names(tmp_path) == []


@pytest.mark.parametrize("name", ["#", "#1.md", "a#", "49130", "~a", "a.tmp.md", "tmp", "swp", "a b\nc", "ä", "-rf"])
def test_names_that_only_look_temporary_are_items(tmp_path: Path, name: str) -> None:
    assert is_item_name(name)
    (tmp_path / name).touch()
    assert names(tmp_path) == [name]


def test_a_name_that_is_not_utf8_is_an_item_and_can_be_opened(tmp_path: Path) -> None:
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.md")).write_text("x")
    (name,) = names(tmp_path)
    assert (tmp_path / name).read_text() == "x"


def test_directories_pipes_and_broken_links_are_not_items(tmp_path: Path) -> None:
    """Links in a circle, and those through something that is not a folder, fail otherwise than those to nowhere."""
    folder = tmp_path / "backlog"
    folder.mkdir()
    (tmp_path / "real.md").touch()
    (folder / "sub").mkdir()
    os.mkfifo(folder / "pipe")
    (folder / "dangling").symlink_to("nowhere")
    (folder / "circle").symlink_to("circle")
    (folder / "through-a-file").symlink_to(tmp_path / "real.md" / "x")
    (folder / "to-a-folder").symlink_to(tmp_path)
    (folder / "too-long").symlink_to("x" * 300)
    (folder / "link.md").symlink_to(tmp_path / "real.md")
    assert names(folder) == ["link.md"]


def test_a_missing_directory_and_its_parent_are_created_private(tmp_path: Path) -> None:
    folder = tmp_path / ".cuggino" / "backlog"
    assert names(folder) == []
    assert [stat.S_IMODE(place.stat().st_mode) for place in (folder.parent, folder)] == [0o700, 0o700]


def test_a_folder_behind_a_link_is_listed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "a.md").touch()
    (tmp_path / "backlog").symlink_to("elsewhere")
    assert names(tmp_path / "backlog") == ["a.md"]


def test_a_directory_that_cannot_be_listed_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("nowhere")
    for name, reason in (
        ("project/.cuggino/gone", "No such file"),
        ("file", "Not a directory"),
        ("link", "No such file"),
    ):
        with pytest.raises(StorageError, match=f"{Path(name).name} cannot be read: {reason}"):
            list_items(tmp_path / name)
    assert not (tmp_path / "project").exists()
