"""What the decoders of all backends share: tolerant JSON lines, foreign lines, where messages end, the result."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

import msgspec

from cuggino.agents.agent import MESSAGE_END, SIGN_OF_LIFE, AgentResult, Decoded, Denial
from cuggino.errors import LlmSessionError
from cuggino.events import SystemMessage, UsageReport

ALIVE: tuple[Decoded, ...] = (SIGN_OF_LIFE,)

_FOREIGN_SHOWN = 200
"""Bytes of a foreign line that are reported."""

_Struct = TypeVar("_Struct", bound=msgspec.Struct)
_Line = TypeVar("_Line", bound=msgspec.Struct)


def tolerant(kind: type[_Struct]) -> Callable[[bytes], _Struct | None]:
    """Return a function that decodes a line as `kind`, or returns None if the line is not of the protocol.

    `kind` is flat and has only optional fields: fields that it does not declare are skipped. A union of line types
    would fail a whole line for one block of a kind that did not exist yesterday.
    """
    decode = msgspec.json.Decoder(kind).decode

    def decode_line(line: bytes) -> _Struct | None:
        try:
            return decode(line)
        except (msgspec.ValidationError, RecursionError):
            return None
        except (msgspec.DecodeError, UnicodeDecodeError):
            pass
        # JavaScript writes half of a character that it cut in two as a lone surrogate, which msgspec rejects.
        try:
            loose = json.loads(line.decode(errors="replace"))
            return decode(json.dumps(loose, ensure_ascii=False).encode(errors="replace"))
        except (ValueError, RecursionError):
            return None

    return decode_line


class LineDecoder(Generic[_Line]):
    """The base of every `agent.Decoder`. A backend implements `_take` and `finish`."""

    def __init__(self, program: str, decode: Callable[[bytes], _Line | None]) -> None:
        self.failure: LlmSessionError | None = None
        self.usage: UsageReport | None = None
        self.session_id: str | None = None
        self._program = program
        self._decode = decode
        self._seen_lines = False
        self._reported_foreign = False
        self._in_message = False
        self._denials: dict[str, Denial] = {}
        """Denied calls by their ids: a program may report one twice."""

    def feed(self, line: bytes) -> Sequence[Decoded]:
        """See `agent.Decoder.feed`."""
        if not line or line.isspace():
            return ()
        decoded = self._decode(line)
        if decoded is None:
            return self._report_foreign(line)
        self._seen_lines = True
        return self._take(decoded) or ALIVE

    def _take(self, line: _Line) -> Sequence[Decoded]:
        """Return what the line means; nothing if it is only a sign of life."""
        raise NotImplementedError

    def finish(self, exit_status: int, stderr: str) -> AgentResult:
        """See `agent.Decoder.finish`."""
        raise NotImplementedError

    def _report_foreign(self, line: bytes) -> Sequence[Decoded]:
        if self._reported_foreign:
            return ALIVE
        self._reported_foreign = True
        shown = line[:_FOREIGN_SHOWN].decode(errors="replace")
        return (SystemMessage(text=f"Ignored a line that is not part of {self._program}'s protocol: {shown}"),)

    def _end_message(self) -> list[Decoded]:
        ended: list[Decoded] = [MESSAGE_END] if self._in_message else []
        self._in_message = False
        return ended

    def _result(self, exit_status: int, final_text: str, structured: Any = None) -> AgentResult:
        return AgentResult(
            exit_status=exit_status,
            session_id=self.session_id,
            usage=self.usage,
            denials=tuple(self._denials.values()),
            final_text=final_text,
            structured=structured,
        )


def join_content(content: Any) -> str:
    """Return the text of a tool's result, which may be a list of parts; parts of other kinds are named."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    parts = (part if isinstance(part, dict) else {} for part in content)
    return "\n".join(str(part["text"]) if "text" in part else f"[{part.get('type', '?')}]" for part in parts)
