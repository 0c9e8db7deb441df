"""The lines of `claude --output-format stream-json`, as far as they are used: one struct for all of them."""

from __future__ import annotations

from typing import Any

import msgspec

from cuggino.agents.decoding import tolerant


class ClaudeBlock(msgspec.Struct):
    """A piece of a message: text, a tool's use, a tool's result, or a kind that is ignored."""

    type: str = ""
    text: str | None = None
    id: str = ""
    name: str = ""
    input: Any = None
    tool_use_id: str = ""
    content: Any = None
    is_error: bool | None = None


class ClaudeMessage(msgspec.Struct):
    id: str = ""
    model: str = ""
    content: list[ClaudeBlock] | str = ""


class ClaudeStreamEvent(msgspec.Struct):
    type: str = ""


class ClaudeRateLimit(msgspec.Struct):
    status: str = ""
    resetsAt: float | None = None  # noqa: N815 - the protocol's name


class ClaudeModelUsage(msgspec.Struct, rename="camel"):
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_input_tokens: int = 0
    cache_creation_input_tokens: int = 0


class ClaudeDenial(msgspec.Struct):
    tool_name: str = ""
    tool_use_id: str = ""
    tool_input: Any = None


class ClaudeLine(msgspec.Struct):
    """Any line. `type` and `subtype` say which of the other fields mean something."""

    type: str
    subtype: str = ""
    session_id: str | None = None
    parent_tool_use_id: str | None = None
    """Set on the lines of a sub-agent."""
    message: ClaudeMessage | None = None
    event: ClaudeStreamEvent | None = None
    content: Any = None
    # system/init
    claude_code_version: str = ""
    model: str = ""
    # system/api_retry, and `error` of an assistant line that reports a failed request
    attempt: int = 0
    max_retries: int = 0
    retry_delay_ms: float = 0
    error_status: int | None = None
    error: Any = None
    # rate_limit_event
    rate_limit_info: ClaudeRateLimit | None = None
    # result
    is_error: bool = False
    api_error_status: int | None = None
    result: str | None = None
    errors: list[str] = []
    num_turns: int = 0
    total_cost_usd: float | None = None
    modelUsage: dict[str, ClaudeModelUsage] = {}  # noqa: N815
    permission_denials: list[ClaudeDenial] = []
    terminal_reason: str | None = None
    structured_output: Any = None


decode_line = tolerant(ClaudeLine)
