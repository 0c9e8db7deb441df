"""A role or a manifest → opencode's rules by permission and pattern, of which the last match counts.

`*` denies everything first, so a new version's tools are denied until they are listed. opencode matches a file by its
path from the root of its git working tree (from `/` without one), and in its patterns `*` matches anything, even
slashes. One permission, `edit`, is for every tool that writes.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

from cuggino.agents.agent import AgentOptions
from cuggino.manifest import Permits

Action: TypeAlias = str
Rules: TypeAlias = dict[str, Action | dict[str, Action]]

_READING = ("bash", "read", "glob", "grep")
_OUTSIDE = "external_directory"
_NAMES = {"write": "edit", "multiedit": "edit", "notebookedit": "edit"}
"""Tools that a manifest names differently; all others are opencode's own in lower case."""


def permissions(options: AgentOptions) -> Rules | None:
    """Return the rules for a run without a person; None for the person's own, which may extend the defaults."""
    if options.permits is None and not options.role.read_only:
        return None
    rules: Rules = {"*": "deny", "doom_loop": "allow"}  # doom_loop: repeating a call, which would need a question
    if options.permits is None:
        rules |= dict.fromkeys((*_READING, _OUTSIDE), "allow")
    else:
        rules |= _permitted(options.permits, options.cwd)
    if options.role.read_only:
        rules = {name: rule for name, rule in rules.items() if name in ("*", "doom_loop", *_READING, _OUTSIDE)}
        rules |= only_there(options.cwd, options.writable)
    return rules


def only_there(cwd: Path, paths: Sequence[Path], *, below: bool = False, otherwise: Action = "deny") -> Rules:
    """Allow writing to these paths (or below them), and `otherwise` for all others."""
    if not paths:
        return {"edit": otherwise}
    whole = (cwd / path for path in paths)
    named = dict.fromkeys(each for path in whole for each in (path, path.resolve()))
    patterns = (_literal(name) + ("/*" if below else "") for path in named for name in _names(cwd, path))
    return {"edit": {"*": otherwise, **dict.fromkeys(patterns, "allow")}}


def _permitted(permits: Permits, cwd: Path) -> Rules:
    manifest, bounds = permits.manifest, permits.bounds
    tools = {_tool(name) for name in manifest.allowed_tools} - {_tool(name) for name in bounds.tools}
    rules: Rules = dict.fromkeys(sorted(tools), "allow")
    rules[_OUTSIDE] = "deny"
    whole = "**" in manifest.readable_paths
    if "read" in tools and not whole:
        rules["read"] = _allowed(cwd, manifest.readable_paths)
    if "grep" in tools and not whole:
        rules["grep"] = "deny"  # it shows the content of files, and has no rules by path
    if "edit" in tools:
        denied = (rule for pattern in bounds.paths for rule in _rules(cwd, _globs(pattern)))
        rules["edit"] = _add(_allowed(cwd, manifest.writable_paths), "deny", (*denied, "../*"))
    if "bash" in tools:
        allowed = _add({"*": "deny"}, "allow", manifest.allowed_commands)
        rules["bash"] = _add(allowed, "deny", (f"{words} *" for words in bounds.commands))
    return rules


def _add(rules: dict[str, Action], action: Action, patterns: Iterable[str]) -> dict[str, Action]:
    """Add patterns at the end, even existing ones: the last match counts."""
    for pattern in patterns:
        rules.pop(pattern, None)
        rules[pattern] = action
    return rules


def _tool(name: str) -> str:
    return _NAMES.get(name.lower(), name.lower())


def _allowed(cwd: Path, patterns: Iterable[str]) -> dict[str, Action]:
    """Return rules in an order that denies a pattern's excess before a longer pattern allows it."""
    rules = {"*": "deny"}
    for pattern in sorted(patterns, key=lambda each: ("**" in each or each.endswith("/"), each.count("/"))):
        _add(rules, "allow", _rules(cwd, _globs(pattern)))
        if "**" not in pattern:
            _add(rules, "deny", _rules(cwd, _deeper(pattern)))
    return rules


def _globs(pattern: str) -> Iterator[str]:
    """Convert a manifest's path pattern to opencode's, which may match too much: its `*` crosses slashes."""
    pattern = pattern.removeprefix("./")
    if pattern.endswith("/"):
        pattern += "**"
    before, stars, after = pattern.partition("**/")
    if stars:
        for rest in _globs(after):
            yield from (f"{before}{rest}", f"{before}*/{rest}")
    else:
        yield re.sub(r"\*+", "*", pattern)


def _deeper(pattern: str) -> Iterator[str]:
    """Yield the excess of a pattern: paths with a slash in place of one of its stars."""
    parts = pattern.removeprefix("./").split("*")
    for number in range(1, len(parts)):
        yield "*".join(parts[:number]) + "*/*" + "*".join(parts[number:])


def _rules(cwd: Path, globs: Iterable[str]) -> Iterator[str]:
    for glob in globs:
        yield from (prefix + glob for prefix in dict.fromkeys(_literal(name) for name in _folders(cwd)))


def _folders(cwd: Path) -> Iterator[str]:
    """Yield the prefixes by which opencode names paths in `cwd`."""
    for name in _names(cwd, cwd.resolve()):
        yield "" if name == "." else f"{name}/"


def _names(cwd: Path, path: Path) -> list[str]:
    """Return the path as opencode names it in a git working tree, and without one."""
    above = cwd.resolve()
    root = next((each for each in (above, *above.parents) if (each / ".git").exists()), Path("/"))
    return list(dict.fromkeys(os.path.relpath(path, start) for start in (root, Path("/"))))


def _literal(path: str) -> str:
    """Return a pattern for this path. A star cannot be escaped; a question mark matches any one character."""
    return path.replace("*", "?")
