"""What is in one folder, found by the beginning of its name."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from cuggino import records
from cuggino.errors import StorageError
from cuggino.files import sync_directory
from cuggino.items import list_items

_HEAD = 4096
"""Bytes that are looked at for a title."""


class InboxEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A file that counts. `title` is its first line with words, or why there is none. Foreign text, as `name`."""

    name: str
    path: Path
    title: str


def entries(folder: Path) -> tuple[InboxEntry, ...]:
    """All of them, by name. Makes nothing: a missing folder has none. StorageError when it cannot be read."""
    if not os.path.lexists(folder):
        return ()
    return tuple(InboxEntry(name=name, path=folder / name, title=_title(folder / name)) for name in list_items(folder))


def find(directory: Path, prefix: str, kind: str, *, list_command: str) -> InboxEntry:
    """Return the entry with this name, with or without `.md`, or the only one whose name starts so. Raise NotFound.

    Only the last part of a path counts.
    """
    asked = prefix.rpartition("/")[2]
    by_name = {entry.name: entry for entry in entries(directory)}
    name = f"{asked}.md" if asked not in by_name and f"{asked}.md" in by_name else asked
    return records.find(name, by_name, kind, list_command=list_command)


def read(entry: InboxEntry) -> str:
    """All of its text; bytes that are no UTF-8 as escapes. StorageError."""
    try:
        return entry.path.read_bytes().decode(errors="backslashreplace")
    except OSError as error:
        raise StorageError(f"{entry.path} cannot be read: {error.strerror}.") from error


def resolve(entry: InboxEntry) -> None:
    """Delete its file: a person has dealt with it. Of a link only the link goes. StorageError."""
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
