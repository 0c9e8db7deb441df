"""A run of codex: its lines → events, and at its end a result or the error that it was.

A message of the agent comes whole, as one item: there is no partial text. Tools are told when they start and when
they end. A run has ended well only if it says so, by `turn.completed`.
"""

from __future__ import annotations

import re
from collections.abc import MutableMapping, Sequence
from typing import Any

import msgspec

from cuggino.agents.agent import MESSAGE_END, SIGN_OF_LIFE, AgentResult, Decoded, Denial, Text
from cuggino.agents.codex.failures import did_not_end, is_certain, program_failed, protocol_failure
from cuggino.agents.codex.lines import Item, Line, Usage, decode_line
from cuggino.errors import LlmSessionError
from cuggino.events import SystemMessage, ToolCall, ToolResult, UsageReport

ALIVE: tuple[Decoded, ...] = (SIGN_OF_LIFE,)

_TOOLS = {
    "command_execution": "shell",
    "file_change": "apply_patch",
    "mcp_tool_call": "mcp",
    "collab_tool_call": "agent",
    "web_search": "web_search",
}
"""Kinds of items → the names that the tools have for the model, as far as the item does not tell a better one."""

_RETRY = re.compile(r"Reconnecting\.\.\. (?:(\d+)/(\d+)|[\w ]+) \((.*)\)", re.DOTALL)


class CodexDecoder:
    """One run. `spent` is what conversations have used before it, by their ids; it is kept up to date."""

    def __init__(self, spent: MutableMapping[str, UsageReport], *, structured: bool = False) -> None:
        self.failure: LlmSessionError | None = None
        self.usage: UsageReport | None = None
        self.session_id: str | None = None
        self._spent = spent
        self._structured = structured
        self._seen_lines = False
        self._told_nonsense = False
        self._completed = False
        self._words = ""
        """codex's last word on what went wrong."""
        self._final_text = ""
        self._called: set[str] = set()
        self._denials: list[Denial] = []

    def feed(self, line: bytes) -> Sequence[Decoded]:
        if not line or line.isspace():
            return ()
        decoded = decode_line(line)
        if decoded is None:
            return self._nonsense(line)
        self._seen_lines = True
        match decoded.type:
            case "thread.started":
                self.session_id = decoded.thread_id
            case "item.started" if decoded.item is not None:
                return self._call(decoded.item) or ALIVE
            case "item.completed" if decoded.item is not None:
                return self._item(decoded.item) or ALIVE
            case "error":
                return self._error(decoded.message or "")
            case "turn.failed":
                self._completed = False
                self._words = (decoded.error.message if decoded.error else "") or self._words or "no reason was given"
            case "turn.completed":
                self._complete(decoded)
        return ALIVE

    def finish(self, exit_status: int, stderr: str) -> AgentResult:
        if self.failure is not None or (self._words and not self._completed):
            raise protocol_failure(self._words, exit_status, stderr)
        if not self._completed:
            raise program_failed(exit_status, stderr, printed_nothing=not self._seen_lines)
        if exit_status != 0:
            raise did_not_end(exit_status, stderr)
        return AgentResult(
            exit_status=exit_status,
            session_id=self.session_id,
            usage=self.usage,
            denials=tuple(self._denials),
            final_text=self._final_text,
            structured=_json(self._final_text) if self._structured else None,
        )

    def _nonsense(self, line: bytes) -> Sequence[Decoded]:
        if self._told_nonsense:
            return ALIVE
        self._told_nonsense = True
        shown = line[:200].decode(errors="replace")
        return (SystemMessage(text=f"codex printed a line that is not of its protocol, passed over: {shown}"),)

    def _call(self, item: Item) -> list[Decoded]:
        if item.type not in _TOOLS or item.id in self._called:
            return []
        self._called.add(item.id)
        return [ToolCall(id=item.id, name=_name(item), input=_input(item))]

    def _item(self, item: Item) -> list[Decoded]:
        """An item that is complete. Some are told only then."""
        if item.type == "agent_message" and item.text:
            self._final_text = item.text
            return [Text(item.text), MESSAGE_END]
        if item.type == "error" and item.message:
            return [SystemMessage(text=item.message)]
        if item.type not in _TOOLS:
            return []
        told = self._call(item)
        self._called.discard(item.id)
        if item.status == "declined":
            self._denials.append(Denial(tool=_name(item), input=_input(item)))
        failed = item.status in ("failed", "declined") or item.exit_code not in (None, 0)
        return [*told, ToolResult(id=item.id, output=_output(item), is_error=failed)]

    def _error(self, message: str) -> Sequence[Decoded]:
        retry = _RETRY.match(message)
        if retry is None:
            self._words = message or self._words
            return ALIVE
        attempt, attempts, why = retry.groups()
        # The first refusal may be a login that has just run out: codex renews it before it tries again.
        if int(attempt or 0) >= 2 and is_certain(why):
            self._words = why
            self.failure = protocol_failure(why, None, "")
        count = f", attempt {attempt} of {attempts}" if attempt else ""
        return (SystemMessage(text=f"API not reached, or it refused{count}: {why}"),)

    def _complete(self, line: Line) -> None:
        self._completed = True
        if self.session_id is None or line.usage is None:
            return
        total = _report(line.usage)
        before = self._spent.get(self.session_id, UsageReport())
        self._spent[self.session_id] = total
        self.usage = UsageReport(
            input_tokens=total.input_tokens - before.input_tokens,
            output_tokens=total.output_tokens - before.output_tokens,
            cache_read_tokens=total.cache_read_tokens - before.cache_read_tokens,
            cache_creation_tokens=total.cache_creation_tokens - before.cache_creation_tokens,
        )


def _report(usage: Usage) -> UsageReport:
    """Cached tokens are counted apart, as everywhere here."""
    return UsageReport(
        input_tokens=max(0, usage.input_tokens - usage.cached_input_tokens - usage.cache_write_input_tokens),
        output_tokens=usage.output_tokens,
        cache_read_tokens=usage.cached_input_tokens,
        cache_creation_tokens=usage.cache_write_input_tokens,
    )


def _name(item: Item) -> str:
    if item.type == "mcp_tool_call":
        return f"{item.server}.{item.tool}"
    return (item.tool if item.type == "collab_tool_call" else None) or _TOOLS[item.type]


def _input(item: Item) -> Any:
    match item.type:
        case "command_execution":
            return {"command": item.command}
        case "file_change":
            return {"changes": item.changes}
        case "web_search":
            return {"query": item.query}
        case "collab_tool_call":
            return {"prompt": item.prompt}
    return item.arguments


def _output(item: Item) -> str:
    if item.aggregated_output is not None:
        return item.aggregated_output
    told = item.error if item.error is not None else item.result
    if isinstance(told, dict):
        told = told.get("message") or told.get("content")
    if isinstance(told, list):
        parts = (part if isinstance(part, dict) else {} for part in told)
        return "\n".join(str(part["text"]) if "text" in part else f"[{part.get('type', '?')}]" for part in parts)
    return str(told or "")


def _json(text: str) -> Any:
    """The JSON that is all of a text, but for a fence around it; None if it is none."""
    fenced = re.fullmatch(r"\s*```(?:json)?\s*\n(.*)\n\s*```\s*", text, re.DOTALL)
    try:
        return msgspec.json.decode(fenced[1] if fenced else text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return None
