"""Printing claude's lines, as far as anybody reads them.

Each line is one write, so that readers never wait for the rest of a line. Like claude, it continues when the reader has
closed the pipe.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

Line: TypeAlias = dict[str, Any]

_CAMEL = {
    "input_tokens": "inputTokens",
    "output_tokens": "outputTokens",
    "cache_read_input_tokens": "cacheReadInputTokens",
    "cache_creation_input_tokens": "cacheCreationInputTokens",
}
"""The kinds of tokens: names in `usage` → names in `modelUsage`."""


class LinePrinter:
    """One run's output on the file descriptor `fd`. An init line comes before the first line that needs one."""

    def __init__(self, fd: int, *, session_id: str, cwd: str, model: str) -> None:
        self._fd = fd
        self._session_id = session_id
        self._cwd = cwd
        self._model = model
        self._started = time.monotonic()
        self._introduced = False
        self._ended = False
        self._turns = 0
        self._last_text = ""
        self._usage = dict.fromkeys(_CAMEL, 0)
        self.cost = 0.0
        self.structured: Any = msgspec.UNSET
        self.denials: list[Line] = []

    # ---- printing ---------------------------------------------------------------------------

    def raw(self, line: bytes) -> None:
        """Print a line as it is, and a line feed."""
        data = memoryview(line + b"\n")
        try:
            while data:
                data = data[os.write(self._fd, data) :]
        except BrokenPipeError:
            pass

    def print(self, line: Line) -> None:
        self.raw(msgspec.json.encode(line))

    def _line(self, line_type: str, **fields: Any) -> None:
        self._introduce()
        self.print(self._stamped(line_type, fields))

    def _stamped(self, line_type: str, fields: Line) -> Line:
        return {"type": line_type, **fields, "session_id": self._session_id, "uuid": unique()}

    def begin(self) -> None:
        """Print the init line, unless it was printed or the run has ended."""
        if not self._ended:
            self._introduce()

    def _introduce(self) -> None:
        if self._introduced:
            return
        self._introduced = True
        self._line(
            "system",
            subtype="init",
            cwd=self._cwd,
            model=self._model,
            tools=["Bash", "Edit", "Read", "Task", "Write"],
            permissionMode="default",
            apiKeySource="none",
            claude_code_version="scripted",
        )

    # ---- messages ---------------------------------------------------------------------------

    def text(self, blocks: Sequence[str], deltas: int = 1) -> None:
        """Print one message of text blocks, each streamed in `deltas` pieces and then printed as a whole."""
        message = self._message_start()
        for index, text in enumerate(blocks):
            self._event("content_block_start", index=index, content_block={"type": "text", "text": ""})
            size = -(-len(text) // deltas) or 1
            for start in range(0, len(text), size):
                delta = {"type": "text_delta", "text": text[start : start + size]}
                self._event("content_block_delta", index=index, delta=delta)
            self._line("assistant", **self._message(message, {"type": "text", "text": text}))
            self._event("content_block_stop", index=index)
            self._last_text = text
        self._message_stop("end_turn")

    def exactly(self, size: int) -> None:
        """Print one message whose line is `size` bytes long."""
        self._introduce()
        block: Line = {"type": "text", "text": ""}
        line = self._stamped("assistant", self._message(f"msg_{unique()}", block))
        block["text"] = "x" * (size - len(msgspec.json.encode(line)))
        self.print(line)
        self._turns += 1
        self._last_text = block["text"]

    def call(self, name: str, arguments: Mapping[str, Any]) -> str:
        """Print a message that calls a tool; return the call's ID."""
        call = f"toolu_{unique()}"
        message = self._message_start()
        block = {"type": "tool_use", "id": call, "name": name, "input": {}}
        self._event("content_block_start", index=0, content_block=block)
        self._line("assistant", **self._message(message, block | {"input": arguments}))
        self._event("content_block_stop", index=0)
        self._message_stop("tool_use")
        return call

    def tool_result(self, call: str, output: str, *, error: bool = False) -> None:
        block: Line = {"type": "tool_result", "tool_use_id": call, "content": output, "is_error": error}
        self._line("user", message={"role": "user", "content": [block]}, parent_tool_use_id=None)

    def subagent(self, description: str, text: str) -> None:
        """Print a sub-agent's request, its answer `text`, and that answer as the tool's result."""
        call = self.call("Agent", {"description": description, "prompt": description})
        self._line("system", subtype="task_started", task_id=unique(), tool_use_id=call, description=description)
        question = {"role": "user", "content": [{"type": "text", "text": description}]}
        self._line("user", message=question, parent_tool_use_id=call)
        answer = self._message(f"msg_{unique()}", {"type": "text", "text": text}, parent=call)
        self._line("assistant", **answer)
        self.tool_result(call, text)

    def thinking(self, tokens: int) -> None:
        """Print a sign of life."""
        self._line("system", subtype="thinking_tokens", estimated_tokens=tokens, estimated_tokens_delta=1)

    def user_text(self, text: str) -> None:
        content = [{"type": "text", "text": text}]
        self._line("user", message={"role": "user", "content": content}, parent_tool_use_id=None)

    # ---- failures ---------------------------------------------------------------------------

    def api_retry(self, attempt: int, status: int | None, error: str, delay: float) -> None:
        delay_ms = max(delay, 0.5) * 1000
        fields: Line = {"attempt": attempt, "max_retries": 10, "retry_delay_ms": delay_ms, "error_status": status}
        self._line("system", subtype="api_retry", error=error, **fields)

    def usage_limit(self, resets_at: int | None) -> None:
        limit: Line = {"status": "rejected", "rateLimitType": "five_hour"}
        self._line("rate_limit_event", rate_limit_info=limit if resets_at is None else limit | {"resetsAt": resets_at})

    def synthetic(self, error: str, text: str) -> None:
        """Print the message with which claude reports a failed request."""
        message = self._message(unique(), {"type": "text", "text": text}, model="<synthetic>")
        self._line("assistant", **message, error=error)
        self._last_text = text

    # ---- the end ----------------------------------------------------------------------------

    def add_usage(self, cost: float, **tokens: int) -> None:
        self.cost += cost
        for name, number in tokens.items():
            self._usage[name] += number

    def result(self, subtype: str = "success", **fields: Any) -> None:
        """Print the result line. The next line gets another init line, as after a background task of claude's."""
        line: Line = {"subtype": subtype, "is_error": subtype != "success", "num_turns": self._turns}
        line |= {"duration_ms": int((time.monotonic() - self._started) * 1000), "stop_reason": "end_turn"}
        if subtype == "success":
            line["result"] = self._last_text
            self._introduce()
        line |= {"total_cost_usd": self.cost, "usage": self._usage, "permission_denials": self.denials}
        line |= {"terminal_reason": "completed"}
        if self.structured is not msgspec.UNSET:
            line["structured_output"] = self.structured
        line["modelUsage"] = {self._model: {_CAMEL[name]: number for name, number in self._usage.items()}}
        self.print(self._stamped("result", line | fields))
        self._introduced = False
        self._ended = True

    # ---- the pieces -------------------------------------------------------------------------

    def _message_start(self) -> str:
        message = f"msg_{unique()}"
        self._turns += 1
        self._event("message_start", message={"id": message, "role": "assistant", "model": self._model, "content": []})
        return message

    def _message_stop(self, reason: str) -> None:
        self._event("message_delta", delta={"stop_reason": reason, "stop_sequence": None})
        self._event("message_stop")

    def _event(self, event: str, **fields: Any) -> None:
        self._line("stream_event", event={"type": event, **fields}, parent_tool_use_id=None)

    def _message(self, message: str, block: Line, *, parent: str | None = None, model: str = "") -> Line:
        content: Line = {"id": message, "type": "message", "role": "assistant", "model": model or self._model}
        return {"message": content | {"content": [block]}, "parent_tool_use_id": parent}


class TextPrinter(LinePrinter):
    """Prints messages and the names of tools instead, for a person's own terminal."""

    def print(self, line: Line) -> None:
        if line["type"] == "assistant":
            for block in line["message"]["content"]:
                text = block["text"] if block["type"] == "text" else f"▶ {block['name']}"
                self.raw(text.encode())


def unique() -> str:
    return os.urandom(12).hex()
