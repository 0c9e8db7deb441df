"""What the launches of all backends share."""

from __future__ import annotations

import json
from collections.abc import Mapping


def flags(values: Mapping[str, str | None]) -> list[str]:
    """Return `--name value` for each flag that has a value."""
    return [part for name, value in values.items() if value for part in (name, value)]


def not_a_command(prompt: str) -> str:
    """Return a prompt that a program does not take for one of its own slash commands."""
    return f"Your task:\n{prompt}" if prompt.lstrip().startswith("/") else prompt


def toml(value: object) -> str:
    """Return a value of strings, numbers and lists in TOML: JSON, except for the one sign that only TOML escapes."""
    text = json.dumps(value, ensure_ascii=False).encode(errors="replace").decode()
    return text.replace("\x7f", "\\u007f")
