"""A run of claude: its lines → events, and at its end a result or the error that it was.

Only the agent's own text becomes `Text`: not a sub-agent's, not a tool's, and not what claude says by itself
(model `<synthetic>`). Each content block is a line of its own; those of one message share its id.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cuggino.agents.agent import MESSAGE_END, SIGN_OF_LIFE, AgentResult, Decoded, Denial, Text
from cuggino.agents.claude.failures import Complaint, did_not_end, is_login, program_failed, protocol_failure
from cuggino.agents.claude.lines import Block, Line, Message, decode_line
from cuggino.errors import LlmSessionError
from cuggino.events import SystemMessage, ToolCall, ToolResult, UsageReport
from cuggino.manifest import AGENT_TOOLS, DEFAULT_TOOLS

ALIVE: tuple[Decoded, ...] = (SIGN_OF_LIFE,)

# Most lines are partial messages, which repeat what a whole line says a moment later. They are known by their
# first bytes and never decoded, but for the one that tells that a message is over.
_PARTIAL = b'{"type":"stream_event"'
_PARTIAL_STOP = b'{"type":"stream_event","event":{"type":"message_stop"'

_TOOLS = frozenset((*DEFAULT_TOOLS, *AGENT_TOOLS))

_SYNTHETIC = "<synthetic>"
_TOLD = frozenset({"model_fallback", "model_refusal_fallback", "model_refusal_no_fallback"})


class ClaudeDecoder:
    """One run. A message of the agent ends where its stream says so, where another begins, or at a result."""

    def __init__(self) -> None:
        self.failure: LlmSessionError | None = None
        self.usage: UsageReport | None = None
        self.session_id: str | None = None
        self._message: str | None = None
        """The id of the message whose text has not ended."""
        self._started = False
        self._seen_lines = False
        self._told_nonsense = False
        self._complaint = Complaint()
        self._result: Line | None = None
        self._called: dict[str, Denial] = {}
        """The tools whose results are not there yet, as the denials that they may come to be."""
        self._denials: dict[str, Denial] = {}

    def feed(self, line: bytes) -> Sequence[Decoded]:
        if line.startswith(_PARTIAL) and not line.startswith(_PARTIAL_STOP):
            return ALIVE
        if not line or line.isspace():
            return ()
        decoded = decode_line(line)
        if decoded is None:
            return self._nonsense(line)
        self._seen_lines = True
        if decoded.parent_tool_use_id is not None:
            return ALIVE
        match decoded.type:
            case "assistant" if decoded.message is not None:
                return self._assistant(decoded, decoded.message)
            case "user" if decoded.message is not None:
                return self._tool_results(decoded.message) or ALIVE
            case "stream_event" if decoded.event is not None and decoded.event.type == "message_stop":
                return self._end_message() or ALIVE
            case "system":
                return self._system(decoded)
            case "rate_limit_event":
                self._complaint.limit = decoded.rate_limit_info
            case "result":
                return self._end(decoded)
        return ALIVE

    def finish(self, exit_status: int, stderr: str) -> AgentResult:
        result = self._result
        if self.failure is not None:
            raise protocol_failure(self._complaint, result, exit_status, stderr, started=True)
        if result is None:
            raise program_failed(exit_status, stderr, printed_nothing=not self._seen_lines)
        out_of_budget = result.subtype == "error_max_budget_usd"
        if result.is_error and not out_of_budget:
            raise protocol_failure(self._complaint, result, exit_status, stderr, started=self._started)
        if exit_status != 0 and not out_of_budget:
            raise did_not_end(exit_status, stderr)
        return AgentResult(
            exit_status=exit_status,
            session_id=self.session_id,
            usage=self.usage,
            denials=tuple(self._denials.values()),
            final_text=result.result or "",
            structured=result.structured_output,
        )

    def _nonsense(self, line: bytes) -> Sequence[Decoded]:
        if self._told_nonsense:
            return ALIVE
        self._told_nonsense = True
        shown = line[:200].decode(errors="replace")
        return (SystemMessage(text=f"claude printed a line that is not of its protocol, passed over: {shown}"),)

    def _assistant(self, line: Line, message: Message) -> Sequence[Decoded]:
        decoded: list[Decoded] = []
        if message.id != self._message:
            decoded += self._end_message()
        if message.model == _SYNTHETIC:
            text = "".join(block.text or "" for block in _blocks(message))
            if isinstance(line.error, str):
                self._complaint.error, self._complaint.words = line.error, text
            elif text:
                decoded.append(SystemMessage(text=text))
            return decoded or ALIVE
        self._complaint = Complaint(limit=self._complaint.limit)
        for block in _blocks(message):
            if block.type == "text" and block.text:
                decoded.append(Text(block.text))
                self._message = message.id
            elif block.type == "tool_use":
                decoded.append(ToolCall(id=block.id, name=block.name, input=block.input))
                self._called[block.id] = Denial(tool=block.name, input=block.input)
        return decoded or ALIVE

    def _tool_results(self, message: Message) -> list[Decoded]:
        decoded: list[Decoded] = []
        for block in _blocks(message):
            if block.type != "tool_result":
                continue
            result = ToolResult(id=block.tool_use_id, output=_tool_output(block.content), is_error=bool(block.is_error))
            called = self._called.pop(result.id, None)
            if called is not None and result.is_error and _is_denied(called.tool, result.output):
                self._denials[result.id] = called
            decoded.append(result)
        return decoded

    def _system(self, line: Line) -> Sequence[Decoded]:
        match line.subtype:
            case "init":
                self.session_id = line.session_id
                if self._started:  # a background task ended, and claude goes on in the same run
                    return ALIVE
                self._started = True
                return (SystemMessage(text=f"claude {line.claude_code_version}, model {line.model}"),)
            case "api_retry":
                return self._retry(line)
            case subtype if subtype in _TOLD and isinstance(line.content, str) and line.content:
                return (SystemMessage(text=line.content),)
        return ALIVE

    def _retry(self, line: Line) -> Sequence[Decoded]:
        error = line.error if isinstance(line.error, str) else "unknown"
        self._complaint.retried = line.error_status
        what = "API not reached" if line.error_status is None else f"API error {line.error_status} ({error})"
        # The first refusal may be a login that has just run out: claude renews it before it tries again.
        if line.attempt >= 2 and is_login(error, line.error_status):
            self._complaint.error = error
            self.failure = protocol_failure(self._complaint, None, None, "", started=True)
        delay = line.retry_delay_ms / 1000
        text = f"{what}, attempt {line.attempt} of {line.max_retries}, next in {delay:.0f} s"
        return (SystemMessage(text=text),)

    def _end(self, line: Line) -> Sequence[Decoded]:
        """A result. There is one for each time that claude came to rest; money and tokens count from the start."""
        ended = self._end_message()
        self._result = line
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
        return ended or ALIVE

    def _end_message(self) -> list[Decoded]:
        if self._message is None:
            return []
        self._message = None
        return [MESSAGE_END]


def _blocks(message: Message) -> list[Block]:
    return message.content if isinstance(message.content, list) else []


def _is_denied(tool: str, output: str) -> bool:
    """Whether a failed tool's result is claude's own word that the rules deny it.

    claude's list of denials lacks those for a path that a rule denies, and for a tool that the rules have taken away.
    These words stand at the very beginning, in a frame that claude puts around its own errors; what a command has
    printed stands behind its exit code.
    """
    gone = f"<tool_use_error>Error: No such tool available: {tool}"
    if output.startswith(gone):
        return tool in _TOOLS or output.startswith(f"{gone}. {tool} exists but is not enabled")
    return (
        output == "<tool_use_error>File is in a directory that is denied by your permission settings.</tool_use_error>"
    )


def _tool_output(content: Any) -> str:
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    parts = (part if isinstance(part, dict) else {} for part in content)
    return "\n".join(str(part["text"]) if "text" in part else f"[{part.get('type', '?')}]" for part in parts)
