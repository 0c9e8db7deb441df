"""A run of gemini: its lines → events, and at its end a result or an error.

gemini does not report where a message ends: the agent's text continues until a tool is used, a tool's result comes, or
the run ends.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from cuggino.agents.agent import AgentResult, Decoded, Denial, Text
from cuggino.agents.decoding import LineDecoder
from cuggino.agents.gemini.failures import no_result, run_failed
from cuggino.agents.gemini.lines import GeminiLine, decode_line
from cuggino.events import SystemMessage, ToolCall, ToolResult, UsageReport

_DENIED = "policy_violation"
_NO_SUCH_TOOL = "tool_not_registered"
_FAILED = "unhandled_exception"
_UNASKED = re.compile(r'Tool execution for "[^"\n]*" requires user confirmation, which is not supported in [^"\n]*')
"""gemini's own words where its rules want a person to be asked, as for a command that writes with `>`."""


class GeminiDecoder(LineDecoder[GeminiLine]):
    """One run. gemini reports an error when it has given up, and ends: none is certain before its result."""

    def __init__(self) -> None:
        super().__init__("gemini", decode_line)
        self._message: list[str] = []
        """The pieces of the last message."""
        self._calls: dict[str, GeminiLine] = {}
        self._error = ""
        """The words of the last error line."""
        self._last_result: GeminiLine | None = None

    def _take(self, line: GeminiLine) -> Sequence[Decoded]:
        match line.type:
            case "init":
                self.session_id = line.session_id
                return (SystemMessage(text=f"gemini, model {line.model}"),)
            case "message" if line.role == "assistant" and line.content:
                return self._text(line.content)
            case "message" if line.role == "user":
                return self._end_message()
            case "tool_use":
                self._calls[line.tool_id] = line
                call = ToolCall(id=line.tool_id, name=line.tool_name, input=line.parameters)
                return (*self._end_message(), call)
            case "tool_result":
                return (*self._end_message(), self._tool_result(line))
            case "error":
                self._error = line.message
                return (SystemMessage(text=f"gemini: {line.message}"),)
            case "result":
                return self._end(line)
        return ()

    def finish(self, exit_status: int, stderr: str) -> AgentResult:
        result = self._last_result
        if result is None:
            raise no_result(exit_status, stderr, printed_nothing=not self._seen_lines)
        if result.status != "success" or exit_status != 0:
            raise run_failed(result, self._error, exit_status, stderr)
        return self._result(exit_status, "".join(self._message))

    def _text(self, text: str) -> Sequence[Decoded]:
        if not self._in_message:
            self._in_message, self._message = True, []
        self._message.append(text)
        return (Text(text),)

    def _tool_result(self, line: GeminiLine) -> ToolResult:
        call = self._calls.pop(line.tool_id, None)
        kind = line.error.type if line.error is not None else ""
        output = line.output or (line.error.message if line.error is not None else "")
        unasked = kind == _FAILED and _UNASKED.fullmatch(output) is not None
        if call is not None and (unasked or kind in (_DENIED, _NO_SUCH_TOOL)):
            self._denials[line.tool_id] = Denial(tool=call.tool_name, input=call.parameters)
        return ToolResult(id=line.tool_id, output=output, is_error=line.status == "error")

    def _end(self, line: GeminiLine) -> Sequence[Decoded]:
        self._last_result = line
        if line.stats is not None:
            self.usage = UsageReport(
                input_tokens=line.stats.input,
                output_tokens=line.stats.output_tokens,
                cache_read_tokens=line.stats.cached,
            )
        return self._end_message()
