"""The lines of `opencode run --format json`, as far as they are used.

Flat and tolerant: one struct for every type of line, every field optional, what is not declared is skipped.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec


class Cache(msgspec.Struct):
    read: int = 0
    write: int = 0


class Tokens(msgspec.Struct):
    """`input` without what came from the cache, `output` without what was thought."""

    input: int = 0
    output: int = 0
    reasoning: int = 0
    cache: Cache = msgspec.field(default_factory=Cache)


class ToolMetadata(msgspec.Struct):
    exit: int | None = None
    """A command's status."""


class ToolState(msgspec.Struct):
    """How a use of a tool ended: `completed` (also by a command that failed), or `error` with its words."""

    status: str = ""
    input: Any = None
    output: str = ""
    error: str = ""
    metadata: ToolMetadata = msgspec.field(default_factory=ToolMetadata)


class Part(msgspec.Struct, rename="camel"):
    """A piece of a message."""

    text: str = ""
    # tool_use
    tool: str = ""
    call_id: str = msgspec.field(default="", name="callID")
    state: ToolState = msgspec.field(default_factory=ToolState)
    # step_finish
    reason: str = ""
    tokens: Tokens = msgspec.field(default_factory=Tokens)
    cost: float = 0


class ErrorData(msgspec.Struct, rename="camel"):
    message: str = ""
    ref: str | None = None
    """Under which name the error stands in the log, when the line tells no more."""
    status_code: int | None = None
    is_retryable: bool = False
    response_headers: dict[str, str] = {}
    response_body: str = ""


class Error(msgspec.Struct):
    name: str = ""
    data: ErrorData = msgspec.field(default_factory=ErrorData)


class Line(msgspec.Struct):
    """Any line. `type` says which of the other fields mean something."""

    type: str
    session_id: str | None = msgspec.field(default=None, name="sessionID")
    part: Part = msgspec.field(default_factory=Part)
    error: Error | None = None


_decode = msgspec.json.Decoder(Line).decode


def decode_line(line: bytes) -> Line | None:
    """None: no line of the protocol."""
    try:
        return _decode(line)
    except msgspec.ValidationError:
        return None
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _decode_leniently(line)
    except RecursionError:
        return None


def _decode_leniently(line: bytes) -> Line | None:
    """JavaScript writes half of a character that it cut in two as a lone surrogate, which msgspec refuses."""
    try:
        loose = json.loads(line.decode(errors="replace"))
        return _decode(json.dumps(loose, ensure_ascii=False).encode(errors="replace"))
    except (ValueError, RecursionError):
        return None
