"""A run of opencode: its lines → events, and at its end a result or an error.

A step is one answer of the model: its text and the tools that it used, each reported when it is over. No line ends the
run. It succeeded if its last step wanted no more tools, no error followed, and the program exited with 0.
"""

from __future__ import annotations

from collections.abc import Sequence

from cuggino.agents.agent import AgentResult, Decoded, Denial, Text
from cuggino.agents.decoding import LineDecoder
from cuggino.agents.opencode.failures import CAUSES, is_login, protocol_failure
from cuggino.agents.opencode.lines import OpencodeError, OpencodeLine, OpencodePart, decode_line
from cuggino.events import ToolCall, ToolResult, UsageReport

_DENIED = (
    "The user has specified a rule which prevents you from using this specific tool call",
    "The user rejected permission to use this specific tool call",
)
"""How opencode itself words a denial, in the error of a tool that never ran."""


class OpencodeDecoder(LineDecoder[OpencodeLine]):
    """One run."""

    def __init__(self) -> None:
        super().__init__("opencode", decode_line)
        self._text = ""
        """The text of the last step that had some."""
        self._reason = ""
        """Why the last step ended."""
        self._error: OpencodeError | None = None
        self._started = False
        self._overcame = False
        """A step began after an error: opencode continues, for one, when it has shortened a conversation."""

    def _take(self, line: OpencodeLine) -> Sequence[Decoded]:
        self.session_id = self.session_id or line.session_id
        match line.type:
            case "step_start":
                return self._start_step()
            case "text" if line.part.text:
                self._text = self._text + line.part.text if self._in_message else line.part.text
                self._in_message = True
                return (Text(line.part.text),)
            case "tool_use":
                return self._tool(line.part)
            case "step_finish":
                return self._end_step(line.part)
            case "error":
                return self._fail(line)
        return ()

    def finish(self, exit_status: int, stderr: str) -> AgentResult:
        if self._error is not None:
            raise protocol_failure(self._error, exit_status, stderr, started=self._started)
        if not self._reason or exit_status not in ((0, 1) if self._overcame else (0,)):
            raise CAUSES.no_result(exit_status, stderr, refused=exit_status == 1 and self.session_id is None)
        if self._reason == "tool-calls":
            raise CAUSES.interrupted.error(stderr=stderr, exit_status=exit_status)
        return self._result(exit_status, self._text)

    def _start_step(self) -> Sequence[Decoded]:
        self._started = True
        if self._error is not None:
            self._error, self._overcame = None, True
        return self._end_message()

    def _tool(self, part: OpencodePart) -> Sequence[Decoded]:
        """Take a tool's use, which opencode reports when it is over."""
        state = part.state
        failed = state.status == "error"
        if failed and state.error.startswith(_DENIED):
            self._denials[part.call_id] = Denial(tool=part.tool, input=state.input)
        return (
            ToolCall(id=part.call_id, name=part.tool, input=state.input),
            ToolResult(
                id=part.call_id,
                output=state.error if failed else state.output,
                is_error=failed or bool(state.metadata.exit),
            ),
        )

    def _end_step(self, part: OpencodePart) -> Sequence[Decoded]:
        """Add the step's own tokens and money. opencode counts 0 for a model whose price it does not know."""
        self._reason = part.reason or "unknown"
        spent, tokens = self.usage or UsageReport(input_tokens=0, output_tokens=0), part.tokens
        self.usage = UsageReport(
            input_tokens=spent.input_tokens + tokens.input,
            output_tokens=spent.output_tokens + tokens.output + tokens.reasoning,
            cache_read_tokens=spent.cache_read_tokens + tokens.cache.read,
            cache_creation_tokens=spent.cache_creation_tokens + tokens.cache.write,
            cost_usd=(spent.cost_usd or 0) + part.cost or None,
        )
        return self._end_message()

    def _fail(self, line: OpencodeLine) -> Sequence[Decoded]:
        self._error = line.error or OpencodeError()
        if is_login(self._error):
            self.failure = protocol_failure(self._error, None, "")
        return self._end_message()
