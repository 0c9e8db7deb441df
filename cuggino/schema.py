"""The configuration and the log as JSON Schemas, for editors and for programs in other languages.

msgspec makes them from the structs; this module adds the sentences about settings and makes patterns portable. A schema
cannot express everything: only cuggino checks that `specsPath` is below the root.
"""

from __future__ import annotations

from typing import Any

import msgspec

from cuggino.config import Config
from cuggino.events import LogLine
from cuggino.setup.explained import EXPLAINED

_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def config_schema() -> dict[str, Any]:
    """Return the schema of `.cuggino.json`."""
    schema = _schema(Config, "The configuration of cuggino")
    _resolved(schema, schema)["properties"]["$schema"] = {
        "type": "string",
        "description": "Where editors find this schema.",
    }
    for key, sentence in EXPLAINED.items():
        *sections, name = key.split(".")
        node = schema
        for section in sections:
            node = _resolved(schema, node)["properties"][section]
        _resolved(schema, node)["properties"][name]["description"] = sentence
    return schema


def events_schema() -> dict[str, Any]:
    """Return the schema of a line of the log and of `--json`; each event is one of its definitions."""
    return _schema(LogLine, "A line of cuggino's log")


def _schema(struct: type[msgspec.Struct], title: str) -> dict[str, Any]:
    generated: dict[str, Any] = _portable(msgspec.json.schema(struct))
    return {"$schema": _DIALECT, "title": title, **generated}


def _resolved(schema: dict[str, Any], node: dict[str, Any]) -> dict[str, Any]:
    """Return the definition that `node` refers to."""
    found: dict[str, Any] = schema["$defs"][node["$ref"].rpartition("/")[2]]
    return found


def _portable(node: Any) -> Any:
    r"""Replace Python's `\A` and `\Z` by `^` and `$`."""
    if isinstance(node, list):
        return [_portable(item) for item in node]
    if not isinstance(node, dict):
        return node
    return {
        key: item.replace(r"\A", "^").replace(r"\Z", "$")
        if key == "pattern" and isinstance(item, str)
        else _portable(item)
        for key, item in node.items()
    }
