"""The lines of `gemini --output-format stream-json`, as far as they are used: one struct for all of them."""

from __future__ import annotations

from typing import Any

import msgspec

from cuggino.agents.decoding import tolerant


class GeminiError(msgspec.Struct):
    type: str = ""
    message: str = ""


class GeminiStats(msgspec.Struct):
    """The tokens of this run, all models together. `input` excludes those from the cache."""

    input: int = 0
    output_tokens: int = 0
    cached: int = 0


class GeminiLine(msgspec.Struct):
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
    error: GeminiError | None = None
    stats: GeminiStats | None = None
    # error
    severity: str = ""
    message: str = ""


decode_line = tolerant(GeminiLine)
