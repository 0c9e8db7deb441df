"""`cuggino backlog`, `issues` and `tbd`, as a person and as a script use them."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import trio

from tests.process.house import COMMAND, House

ISSUE = "0199aaaa-0000-7000-8000-000000000001.md"
OTHER = "0199bbbb-0000-7000-8000-000000000002.md"


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


def put(house: House, folder: str, **texts: str) -> Path:
    place = house.state / folder
    place.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (place / name).write_text(text)
    return place


async def test_an_item_is_added_to_the_end_and_its_path_is_printed(house: House) -> None:
    house.item("010-first.md")
    added = await house.run("backlog", "add", "Export the list as CSV, see .specs/export.md")
    assert (added.code, added.out, added.err) == (0, "Added .cuggino/backlog/020-export-the-list-as-csv-see.md\n", "")
    listed = await house.run("backlog", "list")
    new = "020-export-the-list-as-csv-see.md"
    assert listed.out.splitlines() == [
        f"{'010-first.md':{len(new)}}  Do it.",
        f"{new}  Export the list as CSV, see .specs/export.md",
    ]
    shown = await house.run("backlog", "show", "020")
    assert shown.out == "Export the list as CSV, see .specs/export.md\n"


async def test_a_text_may_begin_with_a_dash_or_come_from_stdin(house: House) -> None:
    assert (await house.run("backlog", "add", "- [ ] a list")).out == "Added .cuggino/backlog/010-a-list.md\n"
    assert (await house.run("backlog", "add", "--csv is ignored")).code == 0
    piped = await trio.run_process(
        [sys.executable, *COMMAND, "backlog", "add", "-"],
        cwd=house.root,
        env=house.environment,
        stdin=b"# From a pipe\n\nmore",
        capture_stdout=True,
    )
    assert piped.stdout == b"Added .cuggino/backlog/030-from-a-pipe.md\n"
    assert (house.backlog / "030-from-a-pipe.md").read_text() == "# From a pipe\n\nmore\n"
    assert (house.backlog / "020-csv-is-ignored.md").exists()


@pytest.mark.parametrize(
    ("arguments", "expected"), [(("add", " "), "empty"), (("add", "-"), "empty"), (("add",), "TEXT")]
)
async def test_nothing_to_add_is_refused(house: House, arguments: tuple[str, ...], expected: str) -> None:
    finished = await house.run("backlog", *arguments)
    assert finished.code == 2
    assert expected in finished.err + finished.out
    assert list(house.backlog.iterdir()) == []


async def test_an_issue_is_listed_shown_and_resolved(house: House) -> None:
    place = put(house, "spec-issues", **{ISSUE: "# Empty names\n\nThe \x1b[2Jspec …", OTHER: "Two dates"})
    listed = await house.run("issues", "list")
    assert listed.out == f"{ISSUE}  Empty names\n{OTHER}  Two dates\n"
    shown = await house.run("issues", "show", "0199a")
    assert shown.out == "# Empty names\n\nThe ␛[2Jspec …\n"
    resolved = await house.run("issues", "resolve", "0199a")
    assert (resolved.code, resolved.out) == (0, f"Deleted .cuggino/spec-issues/{ISSUE}: Empty names\n")
    assert [path.name for path in place.iterdir()] == [OTHER]


async def test_a_finding_is_resolved_by_the_path_that_a_watch_printed(house: House) -> None:
    place = put(house, "tbd", **{ISSUE: "Sessions never expire\n…"})
    assert (await house.run("tbd", "resolve", f".cuggino/tbd/{ISSUE}")).code == 0
    assert list(place.iterdir()) == []


async def test_an_ambiguous_or_unknown_name_deletes_nothing(house: House) -> None:
    place = put(house, "spec-issues", **{ISSUE: "a", OTHER: "b"})
    for beginning, expected in (
        ("0199", "More than one spec issue"),
        ("", "No spec issue"),
        ("x", "cuggino issues list"),
    ):
        finished = await house.run("issues", "resolve", beginning)
        assert finished.code == 2
        assert expected in finished.err
    assert len(list(place.iterdir())) == 2


async def test_with_json_each_entry_is_an_object_on_a_line(house: House) -> None:
    put(house, "tbd", **{ISSUE: "one", OTHER: "two\n\x1b"})
    listed = await house.run("tbd", "list", "--json")
    assert [json.loads(line) for line in listed.out.splitlines()] == [
        {"name": name, "path": str(house.state / "tbd" / name), "title": title}
        for name, title in ((ISSUE, "one"), (OTHER, "two"))
    ]


@pytest.mark.parametrize("command", ["backlog", "issues", "tbd"])
async def test_an_empty_list_says_so_and_creates_nothing(house: House, command: str) -> None:
    finished = await house.run(command, "list")
    assert (finished.code, finished.out) == (0, "")
    assert finished.err.startswith("cuggino: There are no ")
    assert (await house.run(command, "list", "--json")).out == ""
    assert not house.state.exists()


async def test_adding_outside_of_a_project_creates_one_here(house: House, tmp_path: Path) -> None:
    nowhere = tmp_path / "nowhere"
    nowhere.mkdir()
    listed = await house.run("backlog", "list", cwd=nowhere)
    assert "not inside a project" in listed.err
    added = await house.run("backlog", "add", "a", cwd=nowhere)
    assert added.out == "Added .cuggino/backlog/010-a.md\n"
    assert f"Created {nowhere / '.cuggino'}" in added.err


async def test_a_subdirectory_uses_the_projects_backlog(house: House) -> None:
    below = house.root / "src"
    below.mkdir()
    added = await house.run("backlog", "add", "a", cwd=below)
    assert added.out == f"Added {house.backlog}/010-a.md\n"


async def test_a_closed_pipe_ends_with_141_and_without_a_message(house: House) -> None:
    put(house, "backlog", **{f"{n:04}.md": "x" * 100 for n in range(2000)})
    command = f"{sys.executable} {' '.join(COMMAND)} backlog list; echo $? >&2"
    piped = await trio.run_process(
        ["bash", "-c", f"({command}) | head -1"],
        cwd=house.root,
        env=house.environment,
        capture_stdout=True,
        capture_stderr=True,
    )
    assert piped.stdout.startswith(b"0000.md  xxx")
    assert piped.stderr == b"141\n"
