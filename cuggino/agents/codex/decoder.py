"""A run of codex: its lines → events, and at its end a result or an error.

A message of the agent comes whole, as one item: there is no partial text. Tools are reported when they start and when
they end. A run has succeeded only if it says so, with `turn.completed`.
"""

from __future__ import annotations

import re
from collections.abc import MutableMapping, Sequence
from typing import Any

import msgspec

from cuggino.agents.agent import MESSAGE_END, AgentResult, Decoded, Denial, Text
from cuggino.agents.codex.failures import CAUSES, is_certain, protocol_failure
from cuggino.agents.codex.lines import CodexItem, CodexLine, CodexUsage, decode_line
from cuggino.agents.decoding import LineDecoder, join_content
from cuggino.events import SystemMessage, ToolCall, ToolResult, UsageReport

_TOOLS = {
    "command_execution": "shell",
    "file_change": "apply_patch",
    "mcp_tool_call": "mcp",
    "collab_tool_call": "agent",
    "web_search": "web_search",
}
"""Kinds of items → the names that the tools have for the model, unless the item has a better one."""

_RETRY = re.compile(r"Reconnecting\.\.\. (?:(\d+)/(\d+)|[\w ]+) \((.*)\)", re.DOTALL)


class CodexDecoder(LineDecoder[CodexLine]):
    """One run. `spent` is what conversations have used before it, by their IDs; it is updated."""

    def __init__(self, spent: MutableMapping[str, UsageReport], *, structured: bool = False) -> None:
        super().__init__("codex", decode_line)
        self._spent = spent
        self._structured = structured
        self._completed = False
        self._words = ""
        """What codex last said about a failure."""
        self._final_text = ""
        self._called: set[str] = set()

    def _take(self, line: CodexLine) -> Sequence[Decoded]:
        match line.type:
            case "thread.started":
                self.session_id = line.thread_id
            case "item.started" if line.item is not None:
                return self._call(line.item)
            case "item.completed" if line.item is not None:
                return self._item(line.item)
            case "error":
                return self._error(line.message or "")
            case "turn.failed":
                self._completed = False
                self._words = (line.error.message if line.error else "") or self._words or "no reason was given"
            case "turn.completed":
                self._complete(line)
        return ()

    def finish(self, exit_status: int, stderr: str) -> AgentResult:
        if self.failure is not None or (self._words and not self._completed):
            raise protocol_failure(self._words, exit_status, stderr)
        if not self._completed:
            raise CAUSES.no_result(exit_status, stderr, refused=exit_status in (1, 2) and not self._seen_lines)
        if exit_status != 0:
            raise CAUSES.bad_exit(exit_status, stderr)
        return self._result(exit_status, self._final_text, _json(self._final_text) if self._structured else None)

    def _call(self, item: CodexItem) -> list[Decoded]:
        if item.type not in _TOOLS or item.id in self._called:
            return []
        self._called.add(item.id)
        return [ToolCall(id=item.id, name=_name(item), input=_input(item))]

    def _item(self, item: CodexItem) -> list[Decoded]:
        """Take a complete item. Some are reported only then."""
        if item.type == "agent_message" and item.text:
            self._final_text = item.text
            return [Text(item.text), MESSAGE_END]
        if item.type == "error" and item.message:
            return [SystemMessage(text=item.message)]
        if item.type not in _TOOLS:
            return []
        call = self._call(item)
        self._called.discard(item.id)
        if item.status == "declined":
            self._denials[item.id] = Denial(tool=_name(item), input=_input(item))
        failed = item.status in ("failed", "declined") or item.exit_code not in (None, 0)
        return [*call, ToolResult(id=item.id, output=_output(item), is_error=failed)]

    def _error(self, message: str) -> Sequence[Decoded]:
        retry = _RETRY.match(message)
        if retry is None:
            self._words = message or self._words
            return ()
        attempt, attempts, why = retry.groups()
        # The first refusal may be a login that has just expired: codex renews it before it retries.
        if int(attempt or 0) >= 2 and is_certain(why):
            self._words = why
            self.failure = protocol_failure(why, None, "")
        count = f", attempt {attempt} of {attempts}" if attempt else ""
        return (SystemMessage(text=f"API not reached, or it rejected the request{count}: {why}"),)

    def _complete(self, line: CodexLine) -> None:
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


def _report(usage: CodexUsage) -> UsageReport:
    """Return the usage with cached tokens counted apart, as everywhere in cuggino."""
    return UsageReport(
        input_tokens=max(0, usage.input_tokens - usage.cached_input_tokens - usage.cache_write_input_tokens),
        output_tokens=usage.output_tokens,
        cache_read_tokens=usage.cached_input_tokens,
        cache_creation_tokens=usage.cache_write_input_tokens,
    )


def _name(item: CodexItem) -> str:
    if item.type == "mcp_tool_call":
        return f"{item.server}.{item.tool}"
    return (item.tool if item.type == "collab_tool_call" else None) or _TOOLS[item.type]


def _input(item: CodexItem) -> Any:
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


def _output(item: CodexItem) -> str:
    if item.aggregated_output is not None:
        return item.aggregated_output
    output = item.error if item.error is not None else item.result
    if isinstance(output, dict):
        output = output.get("message") or output.get("content")
    return join_content(output) if isinstance(output, list) else str(output or "")


def _json(text: str) -> Any:
    """Return the JSON that a text consists of, except for a fence around it; None if it is not JSON."""
    fenced = re.fullmatch(r"\s*```(?:json)?\s*\n(.*)\n\s*```\s*", text, re.DOTALL)
    try:
        return msgspec.json.decode(fenced[1] if fenced else text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return None
