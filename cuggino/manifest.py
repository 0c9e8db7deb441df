"""What an agent in a sandbox may do: its manifest, and the bounds that no manifest can lift.

Paths are relative to the sandbox and have forward slashes. In a path pattern, `*` and `?` stay within one name, `**`
matches any number of directories, and a pattern that ends with a slash matches everything below. In a command pattern,
`*` matches anything; a pattern without it matches only that command.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Literal

import msgspec

DEFAULT_TOOLS = ("Read", "Write", "Edit", "Glob", "Grep", "Bash")

AGENT_TOOLS = ("Task", "Agent", "Workflow", "TeamCreate", "SendMessage")
"""The names of tools by which agents start agents, in any backend's version."""

TIME_FACTOR = {"low": 0.5, "medium": 1.0, "high": 2.0}
"""Complexity → factor of the total timeout."""


class SandboxManifest(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """What a task needs. `secrets` are references (`env:NAME`, `file:PATH`), never values."""

    readable_paths: tuple[str, ...] = ("**",)
    writable_paths: tuple[str, ...] = ("**",)
    allowed_tools: tuple[str, ...] = DEFAULT_TOOLS
    allowed_commands: tuple[str, ...] = ()
    environment: Mapping[str, str] = {}
    secrets: tuple[str, ...] = ()
    complexity: Literal["low", "medium", "high"] = "medium"


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """What is denied whatever a manifest allows: tools by name, commands by their first words, writing to paths."""

    tools: tuple[str, ...] = AGENT_TOOLS
    commands: tuple[str, ...] = ()
    paths: tuple[str, ...] = (".git", ".git/**", ".cuggino.json", ".cuggino/**")

    @classmethod
    def of(cls, never_allow: Iterable[str], specs_path: str) -> Bounds:
        """Return the bounds for `spawn.neverAllow`: entries with a slash or leading dot are paths, others commands."""
        entries = tuple(never_allow)
        paths = tuple(entry for entry in entries if "/" in entry or entry.startswith("."))
        specs = specs_path.strip("/").removeprefix("./")
        return cls(
            commands=tuple(entry for entry in entries if entry not in paths),
            paths=tuple(dict.fromkeys((*cls().paths, *paths, specs, f"{specs}/**"))),
        )


class Permits(msgspec.Struct, frozen=True, kw_only=True):
    """A manifest within bounds: denied overrides allowed."""

    manifest: SandboxManifest
    bounds: Bounds = Bounds()

    def may_write(self, path: str) -> bool:
        """Return whether the file at this relative path may be created, changed or deleted."""
        return matches(self.manifest.writable_paths, path) and not matches(self.bounds.paths, path)


def matches(patterns: Iterable[str], path: str) -> bool:
    """Return whether one of the path patterns matches this relative path."""
    return any(_path(pattern).fullmatch(path) for pattern in patterns)


@cache
def _path(pattern: str) -> re.Pattern[str]:
    pattern = pattern.removeprefix("./")
    if pattern.endswith("/"):
        pattern += "**"
    parts = re.split(r"(\*\*/|\*\*|\*|\?)", pattern)
    meaning = {"**/": r"(?:[^/]+/)*", "**": r".*", "*": r"[^/]*", "?": r"[^/]"}
    return re.compile("".join(meaning.get(part, re.escape(part)) for part in parts), re.DOTALL)
