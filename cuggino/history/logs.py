"""Reading a project's logs, without locks, while they may be written.

Logs are read line by line, since they may be large, and an unfinished last line is ignored.
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

_AGENT_OUTPUT = frozenset({"SystemMessage", "AgentMessage", "ToolCall", "ToolResult"})


class LogRecord(NamedTuple):
    """A line of a log. `event` is None for an agent's text and tools, and for events unknown to this version."""

    at: str
    session: str | None
    event: PrintableEvent | None


class _Tagged(msgspec.Struct):
    tag: str = msgspec.field(name="_tag")


class Head(msgspec.Struct):
    """The beginning of a line, without decoding its long texts."""

    at: str
    session: str | None
    event: _Tagged


_decode_head = msgspec.json.Decoder(Head).decode


def head_of(raw: bytes) -> Head | None:
    """Decode the head of a line; None if it is damaged."""
    try:
        return _decode_head(raw)
    except DECODE_ERRORS:
        return None


def parse(raw: bytes) -> LogRecord | None:
    """Decode a line, except for an agent's text and tools; None if it is damaged."""
    head = head_of(raw)
    if head is None:
        return None
    event = None
    if head.event.tag not in _AGENT_OUTPUT:
        whole = decode(raw)
        event = None if whole is None else whole.event
    return LogRecord(head.at, head.session, event)


def decode(raw: bytes) -> LogLine | None:
    """Decode the whole line; None if it is damaged or its event is unknown to this version."""
    try:
        return decode_log_line(raw)
    except DECODE_ERRORS:
        return None


def read(path: Path) -> Iterator[LogRecord]:
    """Yield the complete lines of a log. Takes time for its size, and memory for its longest line."""
    with path.open("rb") as log:
        for raw in log:
            if raw.endswith(b"\n") and (line := parse(raw)) is not None:
                yield line


def logs(project: Project) -> list[Path]:
    """Return the project's log files, oldest first."""
    return sorted(path for path in project.logs.glob("*.jsonl") if not path.name.startswith("."))


def growing(project: Project, owner: Owner | None) -> Path | None:
    """Return the log of the command that holds the lock, or None. `owner` is the lock's record."""
    newest = logs(project)[-1:]
    if owner is None or not newest or not owner.lives():
        return None
    began = time_of(newest[0].stem)
    return newest[0] if began is not None and began >= owner.since else None


def owner_of_lock(project: Project) -> Owner | None:
    """Return the lock's record, or None if it is free or cannot be read."""
    try:
        return read_owner(project)
    except (StorageError, OSError, *DECODE_ERRORS):
        return None
