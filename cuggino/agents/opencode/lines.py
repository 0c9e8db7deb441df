"""The lines of `opencode run --format json`, as far as they are used: one struct for all of them."""

from __future__ import annotations

from typing import Any

import msgspec

from cuggino.agents.decoding import tolerant


class OpencodeCache(msgspec.Struct):
    read: int = 0
    write: int = 0


class OpencodeTokens(msgspec.Struct):
    """`input` excludes tokens from the cache, `output` excludes those of thinking."""

    input: int = 0
    output: int = 0
    reasoning: int = 0
    cache: OpencodeCache = msgspec.field(default_factory=OpencodeCache)


class OpencodeToolMetadata(msgspec.Struct):
    exit: int | None = None
    """A command's status."""


class OpencodeToolState(msgspec.Struct):
    """How a tool's use ended: `completed` (even if its command failed), or `error` with its message."""

    status: str = ""
    input: Any = None
    output: str = ""
    error: str = ""
    metadata: OpencodeToolMetadata = msgspec.field(default_factory=OpencodeToolMetadata)


class OpencodePart(msgspec.Struct, rename="camel"):
    """A piece of a message."""

    text: str = ""
    # tool_use
    tool: str = ""
    call_id: str = msgspec.field(default="", name="callID")
    state: OpencodeToolState = msgspec.field(default_factory=OpencodeToolState)
    # step_finish
    reason: str = ""
    tokens: OpencodeTokens = msgspec.field(default_factory=OpencodeTokens)
    cost: float = 0


class OpencodeErrorData(msgspec.Struct, rename="camel"):
    message: str = ""
    ref: str | None = None
    """The name of the error in the log, if the line has nothing else."""
    status_code: int | None = None
    is_retryable: bool = False
    response_headers: dict[str, str] = {}
    response_body: str = ""


class OpencodeError(msgspec.Struct):
    name: str = ""
    data: OpencodeErrorData = msgspec.field(default_factory=OpencodeErrorData)


class OpencodeLine(msgspec.Struct):
    """Any line. `type` says which of the other fields mean something."""

    type: str
    session_id: str | None = msgspec.field(default=None, name="sessionID")
    part: OpencodePart = msgspec.field(default_factory=OpencodePart)
    error: OpencodeError | None = None


decode_line = tolerant(OpencodeLine)
