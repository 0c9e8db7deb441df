"""The three folders: what is listed, what a beginning of a name finds, and names that sort after all others."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest
import wcwidth
from hypothesis import given
from hypothesis import strategies as st

from cuggino.errors import StorageError, UsageError
from cuggino.inbox.adding import add, name_after
from cuggino.inbox.folder import delete, entries, find, read
from cuggino.inbox.listing import json_lines, table
from cuggino.items import is_item_name
from cuggino.project import Project


@pytest.fixture
def project(tmp_path: Path) -> Project:
    project = Project(tmp_path)
    project.prepare()
    return project


def put(folder: Path, **texts: str) -> None:
    for name, text in texts.items():
        (folder / f"{name}.md").write_text(text)


# ---- finding ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("the first\nthe second\n", "the first"),
        ("\n  \n## A heading \n", "A heading"),
        ("", "(empty)"),
        ("#\n\n---", "---"),
        ("\r\nwith returns\r\n", "with returns"),
    ],
)
def test_a_title_is_the_first_line_with_words(tmp_path: Path, text: str, title: str) -> None:
    put(tmp_path, a=text)
    [entry] = entries(tmp_path)
    assert entry.title == title


def test_an_entry_that_cannot_be_shown_is_still_listed(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_bytes(b"\xff\xfe caf\xc3")
    (tmp_path / "b.md").write_text("x" * 1_000_000)
    first, second = entries(tmp_path)
    assert first.title == "�� caf�"
    assert len(second.title) <= 4096
    assert read(first) == "\\xff\\xfe caf\\xc3"


def test_a_missing_folder_is_empty_and_is_not_made(tmp_path: Path) -> None:
    assert entries(tmp_path / "backlog") == ()
    assert not (tmp_path / "backlog").exists()


def test_a_file_in_the_place_of_the_directory_is_an_error(tmp_path: Path) -> None:
    put(tmp_path, backlog="x")
    with pytest.raises(StorageError, match="Not a directory"):
        entries(tmp_path / "backlog.md")


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("010-a.md", "010-a.md"),
        ("010-a", "010-a.md"),
        ("02", "020-b.md"),
        ("020-b", "020-b.md"),
        (".cuggino/backlog/02", "020-b.md"),
        ("020-b-more", "020-b-more.md"),
    ],
)
def test_a_name_is_found_by_itself_or_by_how_it_begins(tmp_path: Path, asked: str, found: str) -> None:
    put(tmp_path, **{"010-a": "", "020-b": ""})
    if asked == "020-b-more":
        put(tmp_path, **{"020-b-more": ""})
    assert find(tmp_path, asked, "item", list_command="ls").name == found


def test_a_whole_name_wins_over_those_that_begin_with_it(tmp_path: Path) -> None:
    for name in ("a", "a.md", "a.md.md", "ab"):
        (tmp_path / name).touch()
    assert [find(tmp_path, name, "item", list_command="ls").name for name in ("a", "a.md", "ab")] == ["a", "a.md", "ab"]


def test_resolving_deletes_the_file_and_of_a_link_only_the_link(tmp_path: Path) -> None:
    folder = tmp_path / "tbd"
    folder.mkdir()
    put(tmp_path, kept="x")
    put(folder, a="y")
    (folder / "link.md").symlink_to(tmp_path / "kept.md")
    for entry in entries(folder):
        delete(entry)
    assert list(folder.iterdir()) == []
    assert (tmp_path / "kept.md").exists()
    with pytest.raises(StorageError, match="cannot be deleted"):
        delete(entry)


# ---- showing ----------------------------------------------------------------------------------


def test_titles_stand_below_each_other_and_are_cut(tmp_path: Path) -> None:
    put(tmp_path, **{"010-a": "Short", "020-longer": "Long " * 50, "漢字": "Wide"})
    lines = table(entries(tmp_path), 50)
    assert [line.rstrip("…").split("  ")[0] for line in lines] == ["010-a.md", "020-longer.md", "漢字.md"]
    assert {
        wcwidth.width(line.partition(word)[0]) for line, word in zip(lines, ("Short", "Long", "Wide"), strict=True)
    } == {15}
    assert max(map(wcwidth.width, lines)) <= 50


def test_names_are_whole_however_narrow_the_terminal_is(tmp_path: Path) -> None:
    name = "n" * 100
    put(tmp_path, **{name: "A title that is too long for this", "short": "Next"})
    first, second = table(entries(tmp_path), 30)
    assert first == f"{name}.md  A title that is too…"
    assert second.index("Next") == 50


def test_nothing_in_names_and_titles_is_obeyed_by_a_terminal(tmp_path: Path) -> None:
    (tmp_path / "a\x1b[2J\nb\t.md").write_text("\x1b]0;x\a title\u202e")
    (tmp_path / os.fsdecode(b"\xff")).write_text("x")
    lines = table(entries(tmp_path), 80)
    assert [line.isprintable() for line in lines] == [True, True]
    assert lines[0].startswith("a␛[2J␊b␉.md  ␛]0;x␇ title")
    assert [json.loads(line)["name"] for line in json_lines(entries(tmp_path))] == ["a\x1b[2J\nb\t.md", "\\xff"]


# ---- adding -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("names", "name"),
    [
        ([], "010-add-csv-export.md"),
        (["010-a.md"], "020-add-csv-export.md"),
        (["010-a.md", "015-b.md"], "016-add-csv-export.md"),
        (["1-split-a-bill.md", "2-the-command.md"], "3-add-csv-export.md"),
        (["010"], "020-add-csv-export.md"),
        (["9-a.md"], "9_010-add-csv-export.md"),
        (["990-a.md"], "990_010-add-csv-export.md"),
        (["990-a.md", "990_010-b.md"], "990_020-add-csv-export.md"),
        (["010-a.md", "notes.md"], "notes_010-add-csv-export.md"),
        (["my-notes.md", "my-notes_010-a.md"], "my-notes_020-add-csv-export.md"),
        (["add-v2.md"], "add-v2_010-add-csv-export.md"),
        (["010-my_2-things.md"], "020-add-csv-export.md"),
        (["README"], "README_010-add-csv-export.md"),
    ],
)
def test_a_new_name_counts_up_from_the_last_one(names: list[str], name: str) -> None:
    assert name_after(names, "Add CSV export") == name


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("\n\n# Fix the parser's `--csv`\n\nmore", "010-fix-the-parsers-csv.md"),
        ("- [ ] do_this", "010-do-this.md"),
        ("???", "010-item.md"),
        ("Größe prüfen: 漢字", "010-größe-prüfen-漢字.md"),
        ("one two three four five six seven", "010-one-two-three-four-five-six.md"),
        ("internationalization localization accessibility", "010-internationalization-localization.md"),
        ("x" * 100, f"010-{'x' * 40}.md"),
        ("../../etc/passwd", "010-etc-passwd.md"),
        ("a\udc80b", "010-a-b.md"),
    ],
)
def test_a_name_contains_the_first_words_of_the_item(text: str, name: str) -> None:
    assert name_after([], text) == name


_NAMES = st.text(st.characters(blacklist_characters="/\0", blacklist_categories=["Cs"]), min_size=1, max_size=40)


@given(names=st.lists(_NAMES.filter(is_item_name)), texts=st.lists(st.text().filter(str.strip), min_size=1, max_size=3))
def test_a_new_name_sorts_after_all_others_whatever_they_are(names: list[str], texts: list[str]) -> None:
    for text in texts:
        name = name_after(names, text)
        assert all(name > other for other in names)
        assert is_item_name(name)
        assert "/" not in name
        names = [*names, name]


def test_many_items_in_a_row_stay_in_order(project: Project) -> None:
    added = [add(project, "do it").name for _ in range(130)]
    assert added == sorted(added)
    assert added[98:101] == ["990-do-it.md", "990_010-do-it.md", "990_020-do-it.md"]


def test_an_item_is_whole_and_only_the_persons(project: Project) -> None:
    path = add(project, "Do it")
    assert path.read_bytes() == b"Do it\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(project.backlog.iterdir()) == [path]


def test_adding_overwrites_nothing_and_creates_missing_directories(tmp_path: Path) -> None:
    """Not even what does not count as an item, such as a folder or a link that leads nowhere."""
    project = Project(tmp_path)
    add(project, "a")
    (project.backlog / "020-a.md").mkdir()
    (project.backlog / "030-a.md").symlink_to("nowhere")
    assert add(project, "a").name == "040-a.md"
    assert (project.backlog / "030-a.md").is_symlink()


def test_a_blank_item_is_refused(project: Project) -> None:
    with pytest.raises(UsageError, match="empty"):
        add(project, " \n\t\n")
    assert list(project.backlog.iterdir()) == []


def test_a_name_that_would_be_too_long_is_an_error(project: Project) -> None:
    (project.backlog / ("z" * 255)).touch()
    with pytest.raises(UsageError, match="too long for a file"):
        add(project, "a")
    assert len(list(project.backlog.iterdir())) == 1
