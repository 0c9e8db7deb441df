"""Stored records, and finding one by the beginning of its ID."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest

from cuggino import records
from cuggino.errors import NotFound, StorageError


class Thing(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    place: Path | None = None


def test_a_record_is_loaded_as_it_was_saved(tmp_path: Path) -> None:
    thing = Thing("a", Path("/b"))
    records.save(tmp_path / "a.json", thing)
    assert records.load(tmp_path / "a.json", Thing) == thing
    assert (tmp_path / "a.json").read_bytes().startswith(b'{\n  "name"')


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (None, "a.json cannot be read: No such file or directory."),
        (b'{"name": "\xff"}', "a.json is damaged: "),
        (b'{"name": "a", "size": 1}', "a.json is damaged: .*`size`.*\nFix it, or delete it."),
        (b'{"name": ' + b"[" * 100_000, "a.json is damaged: "),
    ],
)
def test_a_record_that_cannot_be_loaded_is_an_error_and_is_not_listed(
    tmp_path: Path, data: bytes | None, message: str
) -> None:
    if data is not None:
        (tmp_path / "a.json").write_bytes(data)
    with pytest.raises(StorageError, match=message):
        records.load(tmp_path / "a.json", Thing)
    records.save(tmp_path / "c.json", Thing("c"))
    records.save(tmp_path / "b.json", Thing("b"))
    found = records.load_all((tmp_path / name for name in ("c.json", "a.json", "b.json")), Thing)
    assert found == [Thing("b"), Thing("c")]


def test_a_path_that_is_not_utf8_cannot_be_saved(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="not valid UTF-8"):
        records.save(tmp_path / "a.json", Thing("a", Path(os.fsdecode(b"\xff"))))


@pytest.mark.parametrize(("prefix", "found"), [("010-a", "010-a"), ("02", "020"), ("010-ab", "010-ab")])
def test_an_id_or_the_beginning_of_one_finds_a_record(prefix: str, found: str) -> None:
    assert records.find(prefix, {id: id for id in ("010-a", "010-ab", "020")}, "item", list_command="ls") == found  # noqa: A001


@pytest.mark.parametrize(
    ("prefix", "message"),
    [
        ("1", "No item matches '1'.\nRun `ls` to list items."),
        ("", "No item matches ''.\nRun `ls` to list items."),
        ("x\x1b[2J", "No item matches 'x\\x1b[2J'.\nRun `ls` to list items."),
        ("a", "More than one item matches 'a'. Type more of it:\n  a1\n  a\u240a"),
        (
            "b",
            "More than one item matches 'b'. Type more of it:\n"
            + "".join(f"  b{n}\n" for n in range(10))
            + "  and 2 more",
        ),
    ],
)
def test_no_match_and_several_matches_are_errors(prefix: str, message: str) -> None:
    items = {id: id for id in ("a1", "a\n", *(f"b{n}" for n in range(12)))}  # noqa: A001
    with pytest.raises(NotFound) as caught:
        records.find(prefix, items, "item", list_command="ls")
    assert str(caught.value) == message


def test_an_empty_prefix_does_not_find_the_only_record() -> None:
    """`issues resolve "$ID"` must not delete the only issue when ID is not set."""
    with pytest.raises(NotFound):
        records.find("", {"a": 1}, "item", list_command="ls")
