"""What is in one folder, found by the beginning of its name."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import msgspec

from cuggino.errors import StorageError, UsageError
from cuggino.items import list_items
from cuggino.output.text import visible_name
from cuggino.project import sync_folder

_HEAD = 4096
"""Bytes that are looked at for a title."""


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """A file that counts. `title` is its first line with words, or why there is none. Foreign text, as `name`."""

    name: str
    path: Path
    title: str


def entries(folder: Path) -> tuple[Entry, ...]:
    """All of them, by name. Makes nothing: a missing folder has none. StorageError when it cannot be read."""
    if not os.path.lexists(folder):
        return ()
    return tuple(Entry(name=name, path=folder / name, title=_title(folder / name)) for name in list_items(folder))


def find(folder: Path, beginning: str, *, what: str) -> Entry:
    """The one whose name is this, or is this and `.md`, or else begins with it; of a path the last part counts.

    None or several is a UsageError, in which `what` says what was looked for.
    """
    there = entries(folder)
    asked = beginning.rpartition("/")[2]
    exact = {entry.name: entry for entry in there}
    for name in (asked, f"{asked}.md"):
        if name in exact:
            return exact[name]
    matches = [entry for entry in there if asked and entry.name.startswith(asked)]
    if len(matches) == 1:
        return matches[0]
    shown = visible_name(asked)
    if matches:
        raise UsageError(
            f"More than one {what} has a name that begins with `{shown}`:\n{_names(matches)}",
            advice="Give more of the name.",
        )
    if not there:
        raise UsageError(f"There is no {what} `{shown}`: there is none at all in {folder}.")
    raise UsageError(f"There is no {what} whose name begins with `{shown}`. There are:\n{_names(there)}")


def read(entry: Entry) -> str:
    """All of its text; bytes that are no UTF-8 as escapes. StorageError."""
    try:
        return entry.path.read_bytes().decode(errors="backslashreplace")
    except OSError as error:
        raise StorageError(f"{entry.path} cannot be read: {error.strerror}.") from error


def resolve(entry: Entry) -> None:
    """Delete its file: a person has dealt with it. Of a link only the link goes. StorageError."""
    try:
        entry.path.unlink()
        sync_folder(entry.path.parent)
    except OSError as error:
        raise StorageError(f"{entry.path} cannot be deleted: {error.strerror}.") from error


def _title(path: Path) -> str:
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD).decode(errors="replace")
    except OSError as error:
        return f"(cannot be read: {error.strerror})"
    lines = (line.strip().lstrip("#").strip() for line in head.splitlines())
    return next(filter(None, lines), "(empty)")


def _names(some: Sequence[Entry]) -> str:
    shown = [f"  {visible_name(entry.name)}" for entry in some[:10]]
    return "\n".join([*shown, f"  and {len(some) - 10} more"] if len(some) > 10 else shown)
