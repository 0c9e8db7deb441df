"""The JSON Schemas accept what cuggino accepts and writes, and refuse what it refuses.

`fits` implements the part of JSON Schema that they use, and fails for any other keyword.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, get_args, get_origin

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cuggino import events
from cuggino.config import Config, decode
from cuggino.errors import ConfigError
from cuggino.schema import config_schema, events_schema
from cuggino.setup.explained import EXPLAINED

CONFIG = config_schema()
EVENTS = events_schema()

TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}
WORDS = {"$schema", "$defs", "title", "description", "default", "discriminator", "required"}
"""Keywords that do not constrain values by themselves."""


def fits(value: Any, schema: dict[str, Any], whole: dict[str, Any]) -> bool:
    def one(word: str, rule: Any) -> bool:
        match word:
            case "$ref":
                return fits(value, whole["$defs"][rule.removeprefix("#/$defs/")], whole)
            case "type":
                return _is(value, rule)
            case "enum":
                return value in rule
            case "anyOf":
                return any(fits(value, kind, whole) for kind in rule)
            case "pattern":
                return not isinstance(value, str) or re.search(rule, value) is not None
            case "minimum":
                return not _is(value, "number") or value >= rule
            case "exclusiveMinimum":
                return not _is(value, "number") or value > rule
            case "items":
                return not isinstance(value, list) or all(fits(item, rule, whole) for item in value)
            case "properties":
                return not isinstance(value, dict) or (
                    all(key in value for key in schema.get("required", ()))
                    and all(fits(value[key], kind, whole) for key, kind in rule.items() if key in value)
                )
            case "additionalProperties":
                assert rule is False
                return not isinstance(value, dict) or value.keys() <= schema["properties"].keys()
        assert word in WORDS, word
        return True

    return all(one(word, rule) for word, rule in schema.items())


def _is(value: Any, kind: str) -> bool:
    if kind in ("integer", "number"):
        numbers = int if kind == "integer" else (int, float)
        return isinstance(value, numbers) and not isinstance(value, bool)
    return isinstance(value, TYPES[kind])


def patterns(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        yield from (item for key, item in node.items() if key == "pattern")
    for item in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from patterns(item)


# ---- the configuration ------------------------------------------------------------------------

DEFAULTS = json.loads(msgspec.json.encode(Config()))

SAMPLES: list[Any] = [
    {},
    DEFAULTS,
    {"checkCommand": "make\nmake check", "limits": {"maxCostUsd": 0.5}, "notify": {"events": ["LoopApproved"]}},
    {"spawn": {"secrets": ["env:TOKEN", "file:~/.netrc"], "integrate": "pr"}, "agents": {"audit": "codex"}},
    {"spawn": {"secrets": ["TOKEN"]}},
    {"checkCommand": " "},
    {"checkCommand": "a\0b"},
    {"maxIterations": 0},
    {"maxIterations": "3"},
    {"limits": {"idleTimeout": 0}},
    {"limits": {"retrys": 1}},
    {"comit": True},
    {"commit": 1},
    {"agent": "cluade"},
    {"notify": {"events": ["Aproved"]}},
    [],
]


def accepts(value: Any) -> bool:
    try:
        decode(json.dumps(value).encode(), "")
    except ConfigError:
        return False
    return True


@pytest.mark.parametrize("value", SAMPLES, ids=json.dumps)
def test_the_schema_accepts_what_cuggino_accepts(value: Any) -> None:
    assert fits(value, CONFIG, CONFIG) == accepts(value)


_values = st.none() | st.booleans() | st.integers() | st.text() | st.lists(st.text())
_files = st.fixed_dictionaries(
    {},
    optional={
        key: st.fixed_dictionaries({}, optional=dict.fromkeys(value, _values)) if isinstance(value, dict) else _values
        for key, value in DEFAULTS.items()
        if key != "specsPath"  # a schema cannot express its rules
    },
)


@given(_files)
def test_the_schema_accepts_exactly_what_cuggino_accepts(value: Any) -> None:
    assert fits(value, CONFIG, CONFIG) == accepts(value)


def test_every_key_is_described() -> None:
    described = {}
    for key, kind in CONFIG["$defs"]["Config"]["properties"].items():
        described[key] = kind["description"]
        inner = CONFIG["$defs"][kind["$ref"].rpartition("/")[2]]["properties"] if "$ref" in kind else {}
        described |= {f"{key}.{name}": each["description"] for name, each in inner.items()}
    assert described.pop("$schema")
    assert described == EXPLAINED


def test_patterns_are_portable_to_other_languages() -> None:
    """In JavaScript `\\A` is the letter A."""
    found = set(patterns(CONFIG))
    assert len(found) == 2
    for pattern in found:
        assert pattern.startswith("^")
        assert pattern.endswith("$")
        assert "\\A" not in pattern
        assert "\\Z" not in pattern


# ---- the log ----------------------------------------------------------------------------------

_EXAMPLES: dict[Any, Any] = {
    str: "text",
    int: 3,
    float: 0.5,
    bool: True,
    Any: {"a": [1, None]},
    datetime: "2026-11-21T22:30:25.342Z",
}


def _example(kind: Any) -> Any:
    """Return a JSON value of the type, using the first part of a union or literal."""
    if kind in _EXAMPLES:
        return _EXAMPLES[kind]
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return {field.encode_name: _example(field.type) for field in msgspec.structs.fields(kind)}
    if get_origin(kind) is tuple:
        return [_example(get_args(kind)[0])] * 2
    if get_origin(kind) is Mapping:
        return {"key": _example(get_args(kind)[1])}
    part = get_args(kind)[0]
    return part if isinstance(part, str) else _example(part)


def _examples(kind: type[msgspec.Struct]) -> Iterator[dict[str, Any]]:
    """Yield an event with all fields, and one with only the required ones, as JSON."""
    fields = msgspec.structs.fields(kind)
    for some in (fields, [field for field in fields if field.required]):
        yield {"_tag": kind.__name__, **{field.encode_name: _example(field.type) for field in some}}


@pytest.mark.parametrize("kind", get_args(events.PrintableEvent))
def test_the_schema_accepts_every_event_as_logged(kind: type[msgspec.Struct]) -> None:
    for event in _examples(kind):
        for session in (None, "01a2003b-6baf-7f58-a314-981ab2d7eb83"):
            line = {"at": "2026-11-21T22:30:25.342Z", "session": session, "event": event}
            written = events.encoder.encode(events.decode_log_line(json.dumps(line)))
            assert fits(json.loads(written), EVENTS, EVENTS)


@pytest.mark.parametrize(
    "line",
    [
        {"at": "", "session": None, "event": {"_tag": "Nonsense"}},
        {"at": "", "session": None, "event": {"_tag": "LoopApproved"}},
        {"at": "", "session": None, "event": {"_tag": "LoopApproved", "iteration": "1"}},
        {"at": "", "event": {"_tag": "LoopApproved", "iteration": 1}},
    ],
)
def test_the_schema_of_the_log_refuses_other_lines(line: dict[str, Any]) -> None:
    assert not fits(line, EVENTS, EVENTS)
    with pytest.raises(msgspec.ValidationError):
        events.decode_log_line(json.dumps(line))
