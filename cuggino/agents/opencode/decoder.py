"""A run of opencode: its lines → events, and at its end a result or the error that it was.

A step is one answer of the model: its text and the tools that it used, each told when it is over. No line ends the
run. It ended well when its last step wanted no more tools, no error followed, and the program exited with 0.
"""

from __future__ import annotations

from collections.abc import Sequence

from cuggino.agents.agent import MESSAGE_END, SIGN_OF_LIFE, AgentResult, Decoded, Denial, Text
from cuggino.agents.opencode.failures import is_login, program_failed, protocol_failure, stopped_short
from cuggino.agents.opencode.lines import Error, Line, Part, decode_line
from cuggino.errors import LlmSessionError
from cuggino.events import SystemMessage, ToolCall, ToolResult, UsageReport

ALIVE: tuple[Decoded, ...] = (SIGN_OF_LIFE,)

_DENIED = (
    "The user has specified a rule which prevents you from using this specific tool call",
    "The user rejected permission to use this specific tool call",
)
"""How opencode's own machinery words a denial, in the error of a tool that never ran."""


class OpencodeDecoder:
    """One run."""

    def __init__(self) -> None:
        self.failure: LlmSessionError | None = None
        self.usage: UsageReport | None = None
        self.session_id: str | None = None
        self._in_text = False
        self._text = ""
        """The text of the last step that said something."""
        self._reason = ""
        """Why the last step ended."""
        self._error: Error | None = None
        self._started = False
        self._overcame = False
        """A step began after an error: opencode goes on, for one, when it has made a conversation shorter."""
        self._told_nonsense = False
        self._denials: list[Denial] = []

    def feed(self, line: bytes) -> Sequence[Decoded]:
        if not line or line.isspace():
            return ()
        decoded = decode_line(line)
        if decoded is None:
            return self._nonsense(line)
        self.session_id = self.session_id or decoded.session_id
        match decoded.type:
            case "step_start":
                return self._start_step()
            case "text" if decoded.part.text:
                self._text = self._text + decoded.part.text if self._in_text else decoded.part.text
                self._in_text = True
                return (Text(decoded.part.text),)
            case "tool_use":
                return self._tool(decoded.part)
            case "step_finish":
                return self._end_step(decoded.part)
            case "error":
                return self._fail(decoded)
        return ALIVE

    def finish(self, exit_status: int, stderr: str) -> AgentResult:
        if self._error is not None:
            raise protocol_failure(self._error, exit_status, stderr, started=self._started)
        if not self._reason or exit_status not in ((0, 1) if self._overcame else (0,)):
            raise program_failed(exit_status, stderr, printed_nothing=self.session_id is None)
        if self._reason == "tool-calls":
            raise stopped_short(exit_status, stderr)
        return AgentResult(
            exit_status=exit_status,
            session_id=self.session_id,
            usage=self.usage,
            denials=tuple(self._denials),
            final_text=self._text,
        )

    def _nonsense(self, line: bytes) -> Sequence[Decoded]:
        if self._told_nonsense:
            return ALIVE
        self._told_nonsense = True
        shown = line[:200].decode(errors="replace")
        return (SystemMessage(text=f"opencode printed a line that is not of its protocol, passed over: {shown}"),)

    def _start_step(self) -> Sequence[Decoded]:
        self._started = True
        if self._error is not None:
            self._error, self._overcame = None, True
        return self._end_message() or ALIVE

    def _end_message(self) -> list[Decoded]:
        if not self._in_text:
            return []
        self._in_text = False
        return [MESSAGE_END]

    def _tool(self, part: Part) -> Sequence[Decoded]:
        """opencode tells of a tool's use when it is over."""
        state = part.state
        failed = state.status == "error"
        if failed and state.error.startswith(_DENIED):
            self._denials.append(Denial(tool=part.tool, input=state.input))
        return (
            ToolCall(id=part.call_id, name=part.tool, input=state.input),
            ToolResult(
                id=part.call_id,
                output=state.error if failed else state.output,
                is_error=failed or bool(state.metadata.exit),
            ),
        )

    def _end_step(self, part: Part) -> Sequence[Decoded]:
        """Tokens and money are the step's own. opencode counts 0 for a model whose price it does not know."""
        self._reason = part.reason or "unknown"
        spent, tokens = self.usage or UsageReport(input_tokens=0, output_tokens=0), part.tokens
        self.usage = UsageReport(
            input_tokens=spent.input_tokens + tokens.input,
            output_tokens=spent.output_tokens + tokens.output + tokens.reasoning,
            cache_read_tokens=spent.cache_read_tokens + tokens.cache.read,
            cache_creation_tokens=spent.cache_creation_tokens + tokens.cache.write,
            cost_usd=(spent.cost_usd or 0) + part.cost or None,
        )
        return self._end_message() or ALIVE

    def _fail(self, line: Line) -> Sequence[Decoded]:
        self._error = line.error or Error()
        if is_login(self._error):
            self.failure = protocol_failure(self._error, None, "")
        return self._end_message() or ALIVE
