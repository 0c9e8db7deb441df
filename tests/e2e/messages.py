"""The blocks of a scripted model's answers, and their form in the Messages API."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeAlias
from uuid import uuid4


class Say:
    """Text; each part is a content block of its own."""

    def __init__(self, *parts: str) -> None:
        self.parts = parts


@dataclass
class Use:
    """The use of a tool."""

    name: str
    input: Mapping[str, Any]


@dataclass
class Fail:
    """An HTTP error. `times`: how many requests fail before the turn continues; None for all."""

    status: int
    error: str = "api_error"
    message: str = "scripted failure"
    headers: Mapping[str, str] = field(default_factory=dict)
    times: int | None = None


@dataclass
class Wait:
    seconds: float


class Drop:
    """The connection is reset."""


class Stall:
    """Silence."""


@dataclass
class Spent:
    """The tokens of this turn."""

    input: int = 1000
    output: int = 10


Block: TypeAlias = Say | Use | Fail | Wait | Drop | Stall | Spent
Turn: TypeAlias = Sequence[Block]
Script: TypeAlias = Sequence[Turn]


def overloaded(times: int | None = None) -> Fail:
    return Fail(529, "overloaded_error", "Overloaded", times=times)


def bad_key() -> Fail:
    return Fail(401, "authentication_error", "invalid x-api-key")


def usage_limit(resets_at: datetime) -> Fail:
    """The limit of five hours. claude believes it only with CLAUDE_CODE_OAUTH_TOKEN in place of a key."""
    moment = str(int(resets_at.timestamp()))
    headers = {
        "anthropic-ratelimit-unified-status": "rejected",
        "anthropic-ratelimit-unified-reset": moment,
        "anthropic-ratelimit-unified-representative-claim": "five_hour",
        "anthropic-ratelimit-unified-5h-status": "rejected",
        "anthropic-ratelimit-unified-5h-reset": moment,
    }
    return Fail(429, "rate_limit_error", "This request would exceed your account's rate limit.", headers)


class Message:
    """One answer, as the events of a stream or as a whole."""

    def __init__(self, model: str, blocks: Sequence[Block]) -> None:
        self._blocks = blocks
        self._index = 0
        self._spent = next((block for block in blocks if isinstance(block, Spent)), Spent())
        self._head = {
            "id": f"msg_{uuid4().hex}",
            "type": "message",
            "role": "assistant",
            "model": model,
            "stop_sequence": None,
        }
        uses = any(isinstance(block, Use) for block in blocks)
        self._stop_reason = "tool_use" if uses else "end_turn"

    def start(self) -> Iterator[dict[str, Any]]:
        message: dict[str, Any] = {**self._head, "content": [], "stop_reason": None, "usage": self._usage(1)}
        yield {"type": "message_start", "message": message}

    def stream(self, block: Say | Use) -> Iterator[dict[str, Any]]:
        for content in _contents(block):
            index = self._index
            self._index += 1
            if content["type"] == "text":
                empty, whole, kind, key = {**content, "text": ""}, content["text"], "text_delta", "text"
            else:
                whole, kind, key = json.dumps(content["input"]), "input_json_delta", "partial_json"
                empty = {**content, "input": {}}
            yield {"type": "content_block_start", "index": index, "content_block": empty}
            for piece in _pieces(whole):
                yield {"type": "content_block_delta", "index": index, "delta": {"type": kind, key: piece}}
            yield {"type": "content_block_stop", "index": index}

    def end(self) -> Iterator[dict[str, Any]]:
        delta = {"stop_reason": self._stop_reason, "stop_sequence": None}
        yield {"type": "message_delta", "delta": delta, "usage": self._usage(self._spent.output)}
        yield {"type": "message_stop"}

    def whole(self) -> dict[str, Any]:
        content = [c for block in self._blocks if isinstance(block, Say | Use) for c in _contents(block)]
        usage = self._usage(self._spent.output)
        return {**self._head, "content": content, "stop_reason": self._stop_reason, "usage": usage}

    def _usage(self, output: int) -> dict[str, int]:
        cache = {"cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}
        return {"input_tokens": self._spent.input, "output_tokens": output, **cache}


def _contents(block: Say | Use) -> list[dict[str, Any]]:
    if isinstance(block, Say):
        return [{"type": "text", "text": part} for part in block.parts]
    return [{"type": "tool_use", "id": f"toolu_{uuid4().hex[:24]}", "name": block.name, "input": dict(block.input)}]


def _pieces(text: str) -> Iterator[str]:
    """About as many as a model would make for a short text, and not too many for a long one."""
    size = max(20, len(text) // 50)
    return (text[start : start + size] for start in range(0, len(text), size))
