"""The lines of `gemini --output-format stream-json`, as far as they are used: one tolerant struct for all of them."""

from __future__ import annotations

import json
from typing import Any

import msgspec


class Problem(msgspec.Struct):
    type: str = ""
    message: str = ""


class Stats(msgspec.Struct):
    """The tokens of this run, all models together. `input_tokens` are with those from the cache, `input` without."""

    input: int = 0
    output_tokens: int = 0
    cached: int = 0


class Line(msgspec.Struct):
    """Any line. `type` says which of the other fields mean something."""

    type: str
    timestamp: str = ""
    # init
    session_id: str | None = None
    model: str = ""
    # message
    role: str = ""
    content: str = ""
    # tool_use, tool_result
    tool_name: str = ""
    tool_id: str = ""
    parameters: Any = None
    output: str | None = None
    # tool_result, result
    status: str = ""
    error: Problem | None = None
    stats: Stats | None = None
    # error
    severity: str = ""
    message: str = ""


_decode = msgspec.json.Decoder(Line).decode


def decode_line(line: bytes) -> Line | None:
    """None: no line of the protocol."""
    try:
        return _decode(line)
    except (msgspec.ValidationError, RecursionError):
        return None
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _decode_leniently(line)


def _decode_leniently(line: bytes) -> Line | None:
    """JavaScript writes half of a character that it cut in two as a lone surrogate, which msgspec refuses."""
    try:
        loose = json.loads(line.decode(errors="replace"))
        return _decode(json.dumps(loose, ensure_ascii=False).encode(errors="replace"))
    except (ValueError, RecursionError):
        return None
