"""The lines of `codex exec --json`, as far as they are used: one struct for lines and one for items."""

from __future__ import annotations

from typing import Any

import msgspec

from cuggino.agents.decoding import tolerant


class CodexItem(msgspec.Struct):
    """A part of a turn: a message of the agent, a tool's use with its result, or a kind that is ignored."""

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


class CodexUsage(msgspec.Struct):
    """The usage of the whole conversation, not of one run. Input tokens include cached ones."""

    input_tokens: int = 0
    cached_input_tokens: int = 0
    cache_write_input_tokens: int = 0
    output_tokens: int = 0


class CodexError(msgspec.Struct):
    message: str = ""


class CodexLine(msgspec.Struct):
    """Any line. `type` says which of the other fields mean something."""

    type: str
    thread_id: str | None = None
    item: CodexItem | None = None
    message: str | None = None
    usage: CodexUsage | None = None
    error: CodexError | None = None


class _TypedLine(msgspec.Struct):
    type: str


_decode = tolerant(CodexLine)
_decode_type = tolerant(_TypedLine)


def decode_line(line: bytes) -> CodexLine | None:
    """Return the line; None if it is not of the protocol. One with fields of another form gets an unknown type."""
    decoded = _decode(line)
    if decoded is None and (typed := _decode_type(line)) is not None:
        return CodexLine(type=f"{typed.type}, in an unknown form")
    return decoded
