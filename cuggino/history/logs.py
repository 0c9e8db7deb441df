"""A project's logs, read: which there are, what is in them, and which one still grows. Nothing is written or locked.

A log may be large and may be written at this moment: it is read line by line, and a torn last line is no line.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from cuggino.clock import time_of
from cuggino.errors import StorageError
from cuggino.events import LogLine, PrintableEvent, decode_log_line
from cuggino.files import DECODE_ERRORS
from cuggino.lock import Owner, read_owner
from cuggino.project import Project

_WORDS = frozenset({"SystemMessage", "AgentMessage", "ToolCall", "ToolResult"})


class LogRecord(NamedTuple):
    """A line of a log. `event` is None where it is only what an agent says and does, or not known to this version."""

    at: str
    session: str | None
    event: PrintableEvent | None


class _Tagged(msgspec.Struct):
    tag: str = msgspec.field(name="_tag")


class Head(msgspec.Struct):
    """Enough of a line to know what it is: the long texts are passed over, not decoded."""

    at: str
    session: str | None
    event: _Tagged


_decode_head = msgspec.json.Decoder(Head).decode


def head_of(raw: bytes) -> Head | None:
    """What a line is; None: it is torn, or nobody knows what."""
    try:
        return _decode_head(raw)
    except DECODE_ERRORS:
        return None


def parse(raw: bytes) -> LogRecord | None:
    """A line of a log; None: it is none."""
    head = head_of(raw)
    if head is None:
        return None
    event = None
    if head.event.tag not in _WORDS:
        whole = decode(raw)
        event = None if whole is None else whole.event
    return LogRecord(head.at, head.session, event)


def decode(raw: bytes) -> LogLine | None:
    """The whole of a line; None: it is torn, or its event is not known to this version."""
    try:
        return decode_log_line(raw)
    except DECODE_ERRORS:
        return None


def read(path: Path) -> Iterator[LogRecord]:
    """The lines of a log as far as it is written, in time and memory that grow with its size and its longest line."""
    with path.open("rb") as log:
        for raw in log:
            if raw.endswith(b"\n") and (line := parse(raw)) is not None:
                yield line


def logs(project: Project) -> list[Path]:
    """Oldest first."""
    return sorted(path for path in project.logs.glob("*.jsonl") if not path.name.startswith("."))


def growing(project: Project, owner: Owner | None) -> Path | None:
    """The log that the command writes that holds the lock; None while there is none. `owner` is the lock's record."""
    newest = logs(project)[-1:]
    if owner is None or not newest or not owner.lives():
        return None
    began = time_of(newest[0].stem)
    return newest[0] if began is not None and began >= owner.since else None


def owner_of_lock(project: Project) -> Owner | None:
    """The lock's record; None also where it cannot be read."""
    try:
        return read_owner(project)
    except (StorageError, OSError, *DECODE_ERRORS):
        return None
