"""The lines of `codex exec --json`, as far as they are used.

Flat and tolerant: one struct for every type of line and one for every kind of item, every field optional, what is not
declared is skipped without being built.
"""

from __future__ import annotations

from typing import Any

import msgspec


class Item(msgspec.Struct):
    """Something in a turn: a message of the agent, a tool's use with its result, or a kind that is passed over."""

    id: str = ""
    type: str = ""
    text: str | None = None
    """Of agent_message."""
    message: str | None = None
    """Of error: a warning of codex's own."""
    status: str | None = None
    # command_execution
    command: str | None = None
    aggregated_output: str | None = None
    exit_code: int | None = None
    # file_change
    changes: Any = None
    # mcp_tool_call, collab_tool_call, web_search
    server: str | None = None
    tool: str | None = None
    arguments: Any = None
    prompt: Any = None
    query: Any = None
    result: Any = None
    error: Any = None


class Usage(msgspec.Struct):
    """Of the conversation since it began, not of a run. Cached tokens are among the input's."""

    input_tokens: int = 0
    cached_input_tokens: int = 0
    cache_write_input_tokens: int = 0
    output_tokens: int = 0


class Error(msgspec.Struct):
    message: str = ""


class Line(msgspec.Struct):
    """Any line. `type` says which of the other fields mean something."""

    type: str
    thread_id: str | None = None
    item: Item | None = None
    message: str | None = None
    usage: Usage | None = None
    error: Error | None = None


class _Typed(msgspec.Struct):
    type: str


_decode = msgspec.json.Decoder(Line).decode
_decode_type = msgspec.json.Decoder(_Typed).decode


def decode_line(line: bytes) -> Line | None:
    """None: no line of the protocol. A line whose fields are not as declared is one of a type that is passed over."""
    try:
        return _decode(line)
    except msgspec.ValidationError:
        pass
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    try:
        return Line(type=f"{_decode_type(line).type}, in a form that is not known")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
