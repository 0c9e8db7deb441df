"""A run of gemini: its lines → events, and at its end a result or the error that it was.

gemini tells no end of a message: the agent's text goes on until a tool is used, its result is there, or all is over.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from cuggino.agents.agent import MESSAGE_END, SIGN_OF_LIFE, AgentResult, Decoded, Denial, Text
from cuggino.agents.gemini.failures import program_failed, run_failed
from cuggino.agents.gemini.lines import Line, decode_line
from cuggino.errors import LlmSessionError
from cuggino.events import SystemMessage, ToolCall, ToolResult, UsageReport

ALIVE: tuple[Decoded, ...] = (SIGN_OF_LIFE,)

_DENIED = "policy_violation"
_NO_SUCH_TOOL = "tool_not_registered"
_FAILED = "unhandled_exception"
_UNASKED = re.compile(r'Tool execution for "[^"\n]*" requires user confirmation, which is not supported in [^"\n]*')
"""gemini's own words where its rules say that a person is to be asked, as for a command that writes by `>`."""


class GeminiDecoder:
    """One run. gemini tells an error when it has given up, and ends: none is certain before its result."""

    def __init__(self) -> None:
        self.failure: LlmSessionError | None = None
        self.usage: UsageReport | None = None
        self.session_id: str | None = None
        self._in_message = False
        self._said: list[str] = []
        """The pieces of the last message."""
        self._calls: dict[str, Line] = {}
        self._denials: list[Denial] = []
        self._seen_lines = False
        self._told_nonsense = False
        self._error = ""
        """What was last told to be an error."""
        self._result: Line | None = None

    def feed(self, line: bytes) -> Sequence[Decoded]:
        if not line or line.isspace():
            return ()
        decoded = decode_line(line)
        if decoded is None:
            return self._nonsense(line)
        self._seen_lines = True
        match decoded.type:
            case "init":
                self.session_id = decoded.session_id
                return (SystemMessage(text=f"gemini, model {decoded.model}"),)
            case "message" if decoded.role == "assistant" and decoded.content:
                return self._text(decoded.content)
            case "message" if decoded.role == "user":
                return self._end_message() or ALIVE
            case "tool_use":
                self._calls[decoded.tool_id] = decoded
                call = ToolCall(id=decoded.tool_id, name=decoded.tool_name, input=decoded.parameters)
                return (*self._end_message(), call)
            case "tool_result":
                return (*self._end_message(), self._tool_result(decoded))
            case "error":
                self._error = decoded.message
                return (SystemMessage(text=f"gemini: {decoded.message}"),)
            case "result":
                return self._end(decoded)
        return ALIVE

    def finish(self, exit_status: int, stderr: str) -> AgentResult:
        result = self._result
        if result is None:
            raise program_failed(exit_status, stderr, printed_nothing=not self._seen_lines)
        if result.status != "success" or exit_status != 0:
            raise run_failed(result, self._error, exit_status, stderr)
        return AgentResult(
            exit_status=exit_status,
            session_id=self.session_id,
            usage=self.usage,
            denials=tuple(self._denials),
            final_text="".join(self._said),
        )

    def _nonsense(self, line: bytes) -> Sequence[Decoded]:
        if self._told_nonsense:
            return ALIVE
        self._told_nonsense = True
        shown = line[:200].decode(errors="replace")
        return (SystemMessage(text=f"gemini printed a line that is not of its protocol, passed over: {shown}"),)

    def _text(self, text: str) -> Sequence[Decoded]:
        if not self._in_message:
            self._in_message, self._said = True, []
        self._said.append(text)
        return (Text(text),)

    def _tool_result(self, line: Line) -> ToolResult:
        call = self._calls.pop(line.tool_id, None)
        kind = line.error.type if line.error is not None else ""
        output = line.output or (line.error.message if line.error is not None else "")
        unasked = kind == _FAILED and _UNASKED.fullmatch(output) is not None
        if call is not None and (unasked or kind in (_DENIED, _NO_SUCH_TOOL)):
            self._denials.append(Denial(tool=call.tool_name, input=call.parameters))
        return ToolResult(id=line.tool_id, output=output, is_error=line.status == "error")

    def _end(self, line: Line) -> Sequence[Decoded]:
        self._result = line
        if line.stats is not None:
            self.usage = UsageReport(
                input_tokens=line.stats.input,
                output_tokens=line.stats.output_tokens,
                cache_read_tokens=line.stats.cached,
            )
        return self._end_message() or ALIVE

    def _end_message(self) -> list[Decoded]:
        if not self._in_message:
            return []
        self._in_message = False
        return [MESSAGE_END]
