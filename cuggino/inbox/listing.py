"""Entries as lines, for people and for programs. Pure."""

from __future__ import annotations

import os
from collections.abc import Sequence

import msgspec

from cuggino.inbox.folder import InboxEntry
from cuggino.output.text import columns, shorten, visible_name

_NAME_COLUMNS = 48
"""Longer names push their title to the right."""
_TITLE_COLUMNS = 20
"""Minimum width of titles."""


def table(entries: Sequence[InboxEntry], width: int) -> list[str]:
    """Return one line per entry, with aligned titles, cut at `width` columns. Names are never cut: people type them."""
    names = [visible_name(entry.name) for entry in entries]
    widest = min(max(map(columns, names), default=0), _NAME_COLUMNS)
    lines = []
    for name, entry in zip(names, entries, strict=True):
        padded = name + " " * max(widest - columns(name), 0)
        lines.append(f"{padded}  {shorten(entry.title, max(width - columns(padded) - 2, _TITLE_COLUMNS))}")
    return lines


def json_lines(entries: Sequence[InboxEntry]) -> list[str]:
    """Return one JSON object per entry: `name`, `path`, `title`. Names that are not valid UTF-8 have escapes."""
    return [
        msgspec.json.encode(
            {"name": _encodable(entry.name), "path": _encodable(str(entry.path)), "title": entry.title}
        ).decode()
        for entry in entries
    ]


def _encodable(name: str) -> str:
    return os.fsencode(name).decode(errors="backslashreplace")
