"""Items: which ones can be worked on, and how a finished one leaves without anything being lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from cuggino import backlog
from cuggino.backlog import Item, Removal, Unusable, archive, read_item
from cuggino.project import Project


@pytest.fixture
def project(tmp_path: Path) -> Project:
    project = Project(tmp_path)
    project.prepare()
    return project


def put(project: Project, name: str, data: bytes = b"do it\n") -> Item:
    (project.backlog / name).write_bytes(data)
    item = read_item(project, name)
    assert isinstance(item, Item)
    return item


def archived(project: Project) -> list[str]:
    return [path.read_text() for path in project.archive.iterdir()]


@pytest.mark.parametrize(
    ("data", "reason"),
    [(b"", "it is empty"), (b" \n\t\n", "it is empty"), (b"a\nb\xff", "not valid UTF-8: byte 0xff in line 2")],
)
def test_an_unusable_item_has_a_reason(project: Project, data: bytes, reason: str) -> None:
    (project.backlog / "a.md").write_bytes(data)
    item = read_item(project, "a.md")
    assert isinstance(item, Unusable)
    assert reason in item.reason
    assert item.digest != ""


def test_only_links_to_files_in_the_project_are_items(
    project: Project, tmp_path_factory: pytest.TempPathFactory
) -> None:
    outside = tmp_path_factory.mktemp("elsewhere") / "secret"
    outside.write_text("secret")
    inside = project.root / "plan.md"
    inside.write_text("plan")
    for name, target in (("in.md", inside), ("out.md", outside), ("lost.md", project.root / "nothing")):
        (project.backlog / name).symlink_to(target)
    assert isinstance(read_item(project, "in.md"), Item)
    out, lost = read_item(project, "out.md"), read_item(project, "lost.md")
    assert isinstance(out, Unusable)
    assert "out of the project" in out.reason
    assert isinstance(lost, Unusable)
    assert "broken link" in lost.reason


def test_a_missing_item_is_none_and_a_directory_is_unusable(project: Project) -> None:
    assert read_item(project, "a.md") is None
    (project.backlog / "b.md").mkdir()
    assert isinstance(read_item(project, "b.md"), Unusable)


def test_a_finished_item_moves_to_the_archive_once(project: Project) -> None:
    item = put(project, "a.md")
    assert archive(project, item) is Removal.REMOVED
    assert archive(project, item) is Removal.GONE
    assert not (project.backlog / "a.md").exists()
    (kept,) = project.archive.iterdir()
    assert kept.name.endswith("-a.md")
    assert kept.read_text() == "do it\n"


def test_a_changed_item_stays_untouched(project: Project) -> None:
    item = put(project, "a.md")
    path = project.backlog / "a.md"
    path.write_text("other")
    before = path.stat()
    assert archive(project, item) is Removal.CHANGED
    assert path.stat().st_ctime_ns == before.st_ctime_ns  # it was not even moved away and back
    assert archived(project) == []


@pytest.mark.parametrize("saved_anew", [False, True])
def test_an_edit_between_comparison_and_move_is_kept_and_so_is_a_new_file_of_that_name(
    project: Project, monkeypatch: pytest.MonkeyPatch, saved_anew: bool
) -> None:
    item = put(project, "a.md")
    path = project.backlog / "a.md"
    path.write_text("edited in the last moment")
    monkeypatch.setattr(backlog, "digest_of", lambda *_: item.digest)
    if saved_anew:
        monkeypatch.setattr(backlog, "sync_directory", lambda _directory: path.write_text("saved anew"))
    assert archive(project, item) is Removal.CHANGED
    assert path.read_text() == ("saved anew" if saved_anew else "edited in the last moment")
    assert archived(project) == (["edited in the last moment"] if saved_anew else [])


def test_a_name_as_long_as_names_can_be_is_archived(project: Project) -> None:
    item = put(project, "a" * 252 + ".md")
    assert archive(project, item) is Removal.REMOVED
    assert archived(project) == ["do it\n"]
    (kept,) = project.archive.iterdir()
    assert kept.name[14] == "7"  # the id is whole
    assert kept.name.endswith("a.md")
