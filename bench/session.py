"""Generate a session of claude of any size: the lines of a recorded turn, with other words in them.

The recording decides which lines there are, in which order and with which fields. A seeded generator draws the lengths
of texts, commands and results, so that each run reads the same bytes.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

RECORDING = Path(__file__).parent.parent / "tests" / "recordings" / "claude" / "tools.jsonl"

TEXT = (
    "the parser reads a file and returns what it found; `value` is kept, because tests/unit covers it. "
    "Naïve callers — and there are some — expect None < 0 here:\n\n    if a < b and c > d:\n        return x\n"
)
WORDS = TEXT.split(" ")


class Recorded:
    """The lines of a recorded session, by kind. Each use fills in a copy."""

    def __init__(self, path: Path) -> None:
        lines = [json.loads(line) for line in path.read_bytes().splitlines()]
        self._kinds: dict[str, dict[str, Any]] = {}
        for line in lines:
            self._kinds.setdefault(_kind(line), line)

    def line(self, kind: str) -> dict[str, Any]:
        copy: dict[str, Any] = json.loads(json.dumps(self._kinds[kind]))
        return copy


def _kind(line: dict[str, Any]) -> str:
    """Return `type` and whatever else distinguishes two kinds of lines."""
    if line["type"] == "stream_event":
        event = line["event"]
        inner = event.get("delta", {}).get("type") or event.get("content_block", {}).get("type") or ""
        return f"{event['type']} {inner}".strip()
    if line["type"] == "assistant":
        return f"assistant {line['message']['content'][0]['type']}"
    return f"{line['type']} {line.get('subtype') or ''}".strip()


def session(size: int, seed: int = 7) -> Iterator[bytes]:
    """Yield the lines of a session of at least `size` bytes, each with its line feed. The last one is a result."""
    recorded = Recorded(RECORDING)
    rng = random.Random(seed)
    written = 0
    yield _bytes(recorded.line("system init"))
    number = 0
    while written < size:
        number += 1
        for line in _turn(recorded, rng, number):
            data = _bytes(line)
            written += len(data)
            yield data
    yield _bytes(recorded.line("result success"))


def write_session(path: Path, size: int) -> None:
    with path.open("wb") as file:
        file.writelines(session(size))


def _turn(recorded: Recorded, rng: random.Random, number: int) -> Iterator[dict[str, Any]]:
    """Yield the lines of a message with text and a tool call, and of the tool's result."""
    message = f"msg_{number:024x}"
    tool = f"toolu_{number:024x}"
    text = words(rng, rng.randint(10, 80))
    if number % 10 == 0:
        text += f"\n<NOTE>{words(rng, 20)}</NOTE>\n"
    call = {"command": words(rng, rng.randint(5, 60)), "description": words(rng, 5)}

    yield recorded.line("system status")
    yield recorded.line("message_start")
    yield recorded.line("content_block_start text")
    for piece in _pieces(text, 25):
        yield _with(recorded.line("content_block_delta text_delta"), ["event", "delta", "text"], piece)
    yield _said(recorded, message, "text", {"text": text})
    yield recorded.line("content_block_stop")
    yield recorded.line("content_block_start tool_use")
    for piece in _pieces(json.dumps(call), 20):
        yield _with(recorded.line("content_block_delta input_json_delta"), ["event", "delta", "partial_json"], piece)
    yield _said(recorded, message, "tool_use", {"id": tool, "name": "Bash", "input": call})
    yield recorded.line("content_block_stop")
    yield recorded.line("message_delta")
    yield recorded.line("message_stop")
    result = recorded.line("user")
    output = words(rng, min(8000, int(rng.lognormvariate(5, 1.2))))
    result["message"]["content"][0].update(tool_use_id=tool, content=output, is_error=False)
    yield result


def _said(recorded: Recorded, message: str, kind: str, block: dict[str, Any]) -> dict[str, Any]:
    line = recorded.line(f"assistant {kind}")
    line["message"]["id"] = message
    line["message"]["content"][0].update(block)
    return line


def _with(line: dict[str, Any], keys: list[str], value: str) -> dict[str, Any]:
    place = line
    for key in keys[:-1]:
        place = place[key]
    place[keys[-1]] = value
    return line


def words(rng: random.Random, count: int) -> str:
    return " ".join(rng.choices(WORDS, k=count))


def _pieces(text: str, size: int) -> Iterator[str]:
    return (text[start : start + size] for start in range(0, len(text), size))


def _bytes(line: dict[str, Any]) -> bytes:
    return json.dumps(line, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
