"""A run of claude: its lines → events, and at its end a result or an error.

Only the agent's own text becomes `Text`: not a sub-agent's, not a tool's, and not claude's own words (model
`<synthetic>`). Each content block is a line of its own; the blocks of one message share its id.
"""

from __future__ import annotations

from collections.abc import Sequence

from cuggino.agents.agent import AgentResult, Decoded, Denial, Text
from cuggino.agents.claude.failures import CAUSES, Complaint, is_login, protocol_failure
from cuggino.agents.claude.lines import ClaudeBlock, ClaudeLine, ClaudeMessage, decode_line
from cuggino.agents.decoding import ALIVE, LineDecoder, join_content
from cuggino.events import SystemMessage, ToolCall, ToolResult, UsageReport
from cuggino.manifest import AGENT_TOOLS, DEFAULT_TOOLS

# Most lines are partial messages, which repeat what a whole line says a moment later. They are recognized by their
# first bytes and never decoded, except for the one that ends a message.
_PARTIAL = b'{"type":"stream_event"'
_PARTIAL_STOP = b'{"type":"stream_event","event":{"type":"message_stop"'

_TOOLS = frozenset((*DEFAULT_TOOLS, *AGENT_TOOLS))

_SYNTHETIC = "<synthetic>"
_REPORTED = frozenset({"model_fallback", "model_refusal_fallback", "model_refusal_no_fallback"})


class ClaudeDecoder(LineDecoder[ClaudeLine]):
    """One run. A message of the agent ends where its stream says so, where another begins, or at a result."""

    def __init__(self) -> None:
        super().__init__("claude", decode_line)
        self._message = ""
        """The ID of the message whose text came last."""
        self._started = False
        self._complaint = Complaint()
        self._last_result: ClaudeLine | None = None
        self._called: dict[str, Denial] = {}
        """The tools whose results are missing, as the denials that they may become."""

    def feed(self, line: bytes) -> Sequence[Decoded]:
        if line.startswith(_PARTIAL) and not line.startswith(_PARTIAL_STOP):
            return ALIVE
        return super().feed(line)

    def _take(self, line: ClaudeLine) -> Sequence[Decoded]:
        if line.parent_tool_use_id is not None:
            return ()
        match line.type:
            case "assistant" if line.message is not None:
                return self._assistant(line, line.message)
            case "user" if line.message is not None:
                return self._tool_results(line.message)
            case "stream_event" if line.event is not None and line.event.type == "message_stop":
                return self._end_message()
            case "system":
                return self._system(line)
            case "rate_limit_event":
                self._complaint.limit = line.rate_limit_info
            case "result":
                return self._end(line)
        return ()

    def finish(self, exit_status: int, stderr: str) -> AgentResult:
        result = self._last_result
        if self.failure is not None:
            raise protocol_failure(self._complaint, result, exit_status, stderr, started=True)
        if result is None:
            raise CAUSES.no_result(exit_status, stderr, refused=exit_status == 1 and not self._seen_lines)
        out_of_budget = result.subtype == "error_max_budget_usd"
        if result.is_error and not out_of_budget:
            raise protocol_failure(self._complaint, result, exit_status, stderr, started=self._started)
        if exit_status != 0 and not out_of_budget:
            raise CAUSES.bad_exit(exit_status, stderr)
        return self._result(exit_status, result.result or "", result.structured_output)

    def _assistant(self, line: ClaudeLine, message: ClaudeMessage) -> Sequence[Decoded]:
        decoded: list[Decoded] = []
        if message.id != self._message:
            decoded += self._end_message()
        if message.model == _SYNTHETIC:
            text = "".join(block.text or "" for block in _blocks(message))
            if isinstance(line.error, str):
                self._complaint.error, self._complaint.words = line.error, text
            elif text:
                decoded.append(SystemMessage(text=text))
            return decoded
        self._complaint = Complaint(limit=self._complaint.limit)
        for block in _blocks(message):
            if block.type == "text" and block.text:
                decoded.append(Text(block.text))
                self._in_message, self._message = True, message.id
            elif block.type == "tool_use":
                decoded.append(ToolCall(id=block.id, name=block.name, input=block.input))
                self._called[block.id] = Denial(tool=block.name, input=block.input)
        return decoded

    def _tool_results(self, message: ClaudeMessage) -> list[Decoded]:
        decoded: list[Decoded] = []
        for block in _blocks(message):
            if block.type != "tool_result":
                continue
            result = ToolResult(id=block.tool_use_id, output=join_content(block.content), is_error=bool(block.is_error))
            called = self._called.pop(result.id, None)
            if called is not None and result.is_error and _is_denied(called.tool, result.output):
                self._denials[result.id] = called
            decoded.append(result)
        return decoded

    def _system(self, line: ClaudeLine) -> Sequence[Decoded]:
        match line.subtype:
            case "init":
                self.session_id = line.session_id
                if self._started:  # a background task ended, and claude continues in the same run
                    return ()
                self._started = True
                return (SystemMessage(text=f"claude {line.claude_code_version}, model {line.model}"),)
            case "api_retry":
                return self._retry(line)
            case subtype if subtype in _REPORTED and isinstance(line.content, str) and line.content:
                return (SystemMessage(text=line.content),)
        return ()

    def _retry(self, line: ClaudeLine) -> Sequence[Decoded]:
        error = line.error if isinstance(line.error, str) else "unknown"
        self._complaint.retried = line.error_status
        what = "API not reached" if line.error_status is None else f"API error {line.error_status} ({error})"
        # The first refusal may be a login that has just expired: claude renews it before it retries.
        if line.attempt >= 2 and is_login(error, line.error_status):
            self._complaint.error = error
            self.failure = protocol_failure(self._complaint, None, None, "", started=True)
        delay = line.retry_delay_ms / 1000
        text = f"{what}, attempt {line.attempt} of {line.max_retries}, next in {delay:.0f} s"
        return (SystemMessage(text=text),)

    def _end(self, line: ClaudeLine) -> Sequence[Decoded]:
        """Take a result. claude prints one whenever it comes to rest; money and tokens count from the start."""
        self._last_result = line
        self.session_id = self.session_id or line.session_id
        for denied in line.permission_denials:
            self._denials[denied.tool_use_id] = Denial(tool=denied.tool_name, input=denied.tool_input)
        models = line.modelUsage.values()
        self.usage = UsageReport(
            input_tokens=sum(model.input_tokens for model in models),
            output_tokens=sum(model.output_tokens for model in models),
            cache_read_tokens=sum(model.cache_read_input_tokens for model in models),
            cache_creation_tokens=sum(model.cache_creation_input_tokens for model in models),
            cost_usd=line.total_cost_usd,
        )
        return self._end_message()


def _blocks(message: ClaudeMessage) -> list[ClaudeBlock]:
    return message.content if isinstance(message.content, list) else []


def _is_denied(tool: str, output: str) -> bool:
    """Return whether a failed tool's result is claude's own statement that the rules deny it.

    claude's list of denials lacks those for a path that a rule denies, and for a tool that the rules have removed.
    These words stand at the very beginning, in a frame that claude puts around its own errors; the output of a command
    stands after its exit code.
    """
    gone = f"<tool_use_error>Error: No such tool available: {tool}"
    if output.startswith(gone):
        return tool in _TOOLS or output.startswith(f"{gone}. {tool} exists but is not enabled")
    return (
        output == "<tool_use_error>File is in a directory that is denied by your permission settings.</tool_use_error>"
    )
