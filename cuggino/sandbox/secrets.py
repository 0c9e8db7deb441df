"""Read the secrets of a sandbox, and redact them from everything that cuggino writes.

A value is found as it is, and in JSON, base64, percent-encoding and UTF-16.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias, TypeVar
from urllib.parse import quote, quote_plus

import msgspec

from cuggino.errors import SandboxError
from cuggino.events import Event, Send
from cuggino.files import write_atomic

MASK = "***"
SHORTEST = 4
"""Minimum characters of a secret: a shorter one could not be distinguished from other text."""
_ENCODED = 8
"""Minimum characters of a value that is also searched in its encoded forms; shorter ones could be anything."""

_E = TypeVar("_E", bound=Event)
_S = TypeVar("_S", str, bytes)
_Bytes: TypeAlias = bytes


def read_secrets(
    references: Iterable[str], allowed: Iterable[str], environment: Mapping[str, str], root: Path
) -> dict[str, str]:
    """Return the values of those references that are allowed by `spawn.secrets`.

    `env:NAME` is a variable of `environment`; `file:PATH` is a file, relative to `root`, without its final line break.
    Raise SandboxError, which names the reference and never the value, if one is missing or too short.
    """
    granted = set(allowed)
    return {it: _value(it, environment, root) for it in dict.fromkeys(references) if it in granted}


def _value(reference: str, environment: Mapping[str, str], root: Path) -> str:
    kind, _, name = reference.partition(":")
    if kind == "env":
        value = environment.get(name, "")
    else:
        try:
            value = (root / Path(name).expanduser()).read_text(encoding="utf-8").rstrip("\r\n")
        except (OSError, ValueError, RuntimeError):
            raise SandboxError(f"The secret {reference} cannot be read.", advice="Fix or remove it.") from None
    if not value:
        raise SandboxError(f"The secret {reference} has no value.", advice="Set it, or remove it from the manifest.")
    if len(value) < SHORTEST or "\0" in value:
        raise SandboxError(f"The secret {reference} cannot be a secret: it is too short, or binary.")
    return value


# ---- redaction --------------------------------------------------------------------------------


class Redaction:
    """Replaces every secret with `***`. Where values overlap in a text, the whole overlap is replaced."""

    def __init__(self, values: Iterable[str]) -> None:
        self._texts = sorted({form for value in values for form in _forms(value)}, key=lambda it: (-len(it), it))
        self._bytes = sorted({form for text in self._texts for form in _encodings(text)}, key=lambda it: (-len(it), it))

    def text(self, text: str) -> str:
        if not any(form in text for form in self._texts):
            return text
        return MASK.join(text[begin:end] for begin, end in _between(text, self._texts))

    def bytes(self, data: _Bytes) -> _Bytes:
        if not self.finds(data):
            return data
        return MASK.encode().join(data[begin:end] for begin, end in _between(data, self._bytes))

    def finds(self, data: _Bytes) -> bool:
        """Return whether it contains a secret."""
        return any(form in data for form in self._bytes)

    @property
    def longest(self) -> int:
        """The length in bytes of the longest form of a secret."""
        return len(self._bytes[0]) if self._bytes else 0

    def event(self, event: _E) -> _E:
        """Return the event without secrets at any depth; the same object if it holds none."""
        found: _E = self._deep(event)
        return found

    def _deep(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, _Bytes):
            return self.bytes(value)
        if isinstance(value, msgspec.Struct):
            fields = {name: getattr(value, name) for name in value.__struct_fields__}
            different = {name: new for name, old in fields.items() if (new := self._deep(old)) is not old}
            return msgspec.structs.replace(value, **different) if different else value
        if isinstance(value, Mapping):
            changed = {self._deep(key): self._deep(item) for key, item in value.items()}
            return value if changed == value else changed
        if isinstance(value, list | tuple | set | frozenset):
            items = [self._deep(item) for item in value]
            return value if all(new is old for new, old in zip(items, value, strict=True)) else type(value)(items)
        return value


def redacting(send: Send, redaction: Redaction) -> Send:
    """Wrap `send` so that every event is redacted first."""

    async def send_redacted(event: Event) -> None:
        await send(redaction.event(event))

    return send_redacted


@contextmanager
def redacted_output(raw: Path, kept: Path, redaction: Redaction) -> Iterator[Path]:
    """Yield a file for a command's raw output. After the block only `kept` remains, which is redacted."""
    try:
        yield raw
    finally:
        if raw.exists():
            write_atomic(kept, redaction.bytes(raw.read_bytes()))
            raw.unlink()


def _between(text: _S, forms: Sequence[_S]) -> list[tuple[int, int]]:
    """Return the spans between occurrences of the forms; overlapping occurrences count as one."""
    places: list[tuple[int, int]] = []
    for form in forms:
        at = text.find(form)
        while at != -1:
            places.append((at, at + len(form)))
            at = text.find(form, at + 1)
    pieces: list[tuple[int, int]] = []
    end = 0
    for begin, stop in sorted(places):
        if begin > end or not pieces:
            pieces.append((end, begin))
        end = max(end, stop)
    return [*pieces, (end, len(text))]


def _forms(value: str) -> set[str]:
    """Return the secret and each longer line of it, as they are and encoded."""
    forms = {value} - {""}
    for part in {value, *(line.strip() for line in value.splitlines())}:
        if len(part) >= _ENCODED:
            forms |= {part, json.dumps(part)[1:-1], json.dumps(part, ensure_ascii=False)[1:-1]}
            forms |= {quote(part), quote(part, safe=""), quote_plus(part)}
            forms |= _base64(part.encode("utf-8", "surrogateescape"))
    return forms


def _base64(data: bytes) -> set[str]:
    """Return the encodings at all three alignments within longer data, without the characters that depend on it."""
    found = set()
    for shift in range(3):
        padded = bytes(shift) + data
        whole = len(padded) // 3 * 3
        first = (0, 2, 3)[shift]
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            found.add(encode(padded[:whole]).decode()[first:])
    return {form for form in found if len(form) >= _ENCODED}


def _encodings(text: str) -> set[bytes]:
    forms = {text.encode("utf-8", "surrogateescape")}
    if len(text) >= _ENCODED:
        forms |= {text.encode(f"utf-16-{order}", "surrogatepass") for order in ("le", "be")}
    return forms
