"""The entries of one directory: found by the beginning of their name, read, deleted."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from cuggino import records
from cuggino.errors import StorageError
from cuggino.files import sync_directory
from cuggino.items import list_items

_HEAD = 4096
"""Bytes that are searched for a title."""


class InboxEntry(msgspec.Struct, frozen=True, kw_only=True):
    """An item. `title` is its first line with text, or why there is none. Not escaped, like `name`."""

    name: str
    path: Path
    title: str


def entries(directory: Path) -> tuple[InboxEntry, ...]:
    """Return all entries, sorted by name; none if the directory is missing. Raise StorageError."""
    if not os.path.lexists(directory):
        return ()
    return tuple(
        InboxEntry(name=name, path=directory / name, title=_title(directory / name)) for name in list_items(directory)
    )


def find(directory: Path, prefix: str, kind: str, *, list_command: str) -> InboxEntry:
    """Return the entry with this name, with or without `.md`, or the only one whose name starts so. Raise NotFound.

    Only the last part of a path counts.
    """
    asked = prefix.rpartition("/")[2]
    by_name = {entry.name: entry for entry in entries(directory)}
    name = f"{asked}.md" if asked not in by_name and f"{asked}.md" in by_name else asked
    return records.find(name, by_name, kind, list_command=list_command)


def read(entry: InboxEntry) -> str:
    """Return its text, with escapes for what is not valid UTF-8. Raise StorageError."""
    try:
        return entry.path.read_bytes().decode(errors="backslashreplace")
    except OSError as error:
        raise StorageError(f"{entry.path} cannot be read: {error.strerror}.") from error


def delete(entry: InboxEntry) -> None:
    """Delete its file; of a link, only the link. Raise StorageError."""
    try:
        entry.path.unlink()
        sync_directory(entry.path.parent)
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
