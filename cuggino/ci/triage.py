"""A triage agent's answer: a verdict and a cause, as structured output or as JSON in its last message."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Literal

import msgspec

from cuggino.ci.ports import Triage
from cuggino.ci.state import one_line

VERDICT: dict[str, Any] = {
    "type": "object",
    "properties": {
        "verdict": {"type": "string", "enum": ["transient", "flake", "real"]},
        "cause": {"type": "string"},
    },
    "required": ["verdict", "cause"],
    "additionalProperties": False,
}
"""The JSON Schema of the answer."""

_LONGEST = 1000
_SEARCHED = 20_000
"""Characters at the end of the last message in which JSON is looked for."""


class _Verdict(msgspec.Struct):
    verdict: Literal["transient", "flake", "real"]
    cause: str


def triage_of(structured: Any, words: str) -> Triage:
    """Return the last answer that can be decoded; without one the failure is real.

    A fix that finds nothing costs less than a failure that is rerun again and again.
    """
    for each in (structured, *_objects(words)):
        try:
            answer = msgspec.convert(each, _Verdict)
        except msgspec.ValidationError:
            continue
        return Triage(verdict=answer.verdict, cause=one_line(answer.cause)[:_LONGEST])
    return Triage(verdict="real", cause=one_line(words)[-_LONGEST:])


def _objects(words: str) -> Iterator[Any]:
    """Yield the JSON objects in `words`, the last one first."""
    decoder = json.JSONDecoder()
    for found in reversed(list(re.finditer(r"\{", words[-_SEARCHED:]))):
        with suppress(ValueError, RecursionError):
            yield decoder.raw_decode(words[-_SEARCHED:], found.start())[0]
