"""A role or a manifest → a file in gemini's policy language.

gemini applies the matching rule with the highest priority. cuggino's rules are above everything in the person's own
settings, and below an administrator's. With a policy, gemini is started in the mode that denies what no rule allows,
so a policy that is not found allows nothing.

A pattern is a regular expression, searched for in the arguments as JSON with a NUL before and after each pair. gemini
rejects patterns in which a group is repeated, and splits a command: each of its parts must be allowed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from cuggino.agents.agent import AgentOptions
from cuggino.agents.launching import toml
from cuggino.commands import literal, pieces
from cuggino.manifest import Permits

_READING = ("read_file", "list_directory", "glob", "grep_search")
_WRITING = ("write_file", "replace")
_SHELL = "run_shell_command"
_SHELL_BESIDE = ("list_background_processes", "read_background_output")

_TOOLS = {
    "Read": ("read_file", "list_directory"),
    "Write": ("write_file",),
    "Edit": ("replace",),
    "Glob": ("glob", "list_directory"),
    "Grep": ("grep_search",),
    "Bash": (_SHELL, *_SHELL_BESIDE),
    "WebFetch": ("web_fetch",),
    "WebSearch": ("google_web_search",),
    "TodoWrite": ("write_todos",),
    "Task": ("invoke_agent",),
    "Agent": ("invoke_agent",),
    "Skill": ("activate_skill",),
}
"""A manifest's names → gemini's own. Any other name is taken for one of gemini's."""

_REST, _ALLOWED_ELSE, _ALLOWED, _DENIED = 990, 991, 992, 993

_ANY_COMMAND = r'\x00"command":'
_WRITES_NO_FILE = r'(?![^\x00]*>(?!&[0-9-]|\s?\/dev\/null[\s;|&)"\\]))'
"""Each `>` in the command leads to a descriptor or to /dev/null."""

_PLACES = r"(\/bin\/|\/usr\/bin\/|\/usr\/local\/bin\/|)"

_OUT_OF_HERE = r'\x00"file_path":"([^\x00]*/|)\.\.(/|")'


class _Rule(msgspec.Struct, frozen=True, kw_only=True):
    tools: Sequence[str]
    decision: str = "allow"
    priority: int = _ALLOWED
    pattern: str | None = None
    redirection: bool = False
    """Whether a command may write to a file with `>`."""

    @property
    def text(self) -> str:
        fields = {"toolName": list(self.tools), "decision": self.decision, "priority": self.priority}
        if self.pattern is not None:
            fields["argsPattern"] = self.pattern
        if self.redirection:
            fields["allowRedirection"] = True
        return "\n".join(("[[rule]]", *(f"{name} = {toml(value)}" for name, value in fields.items())))


def policy(options: AgentOptions) -> str | None:
    """Return the policy; None if gemini's own mode is enough."""
    if options.role.read_only:
        rules = [*_read_only(options)]
    elif options.permits is not None:
        rules = [*_permitted(options.permits, options.cwd), *_given(options)]
    else:
        return None
    nothing_else = _Rule(tools=("*",), decision="deny", priority=_REST)
    return "\n\n".join(rule.text for rule in (*rules, nothing_else)) + "\n"


def _read_only(options: AgentOptions) -> Iterator[_Rule]:
    """Allow reading, any command, and writing to the given paths."""
    yield from _given(options)
    yield _Rule(tools=(*_READING, *_SHELL_BESIDE))
    yield _Rule(tools=(_SHELL,), pattern=_ANY_COMMAND, redirection=True)


def _given(options: AgentOptions) -> Iterator[_Rule]:
    for path in options.writable:
        yield _Rule(tools=_WRITING, pattern=_file([_literal(str(options.cwd / path)), *_within(path, options.cwd)]))


def _within(path: Path, cwd: Path) -> Iterator[str]:
    """Yield other names of the same file: relative ones, and the real one if symbolic links lead to it."""
    whole = cwd / path
    if whole.is_relative_to(cwd):
        relative = _literal(str(whole.relative_to(cwd)))
        yield relative
        yield rf"\./{relative}"
    yield _literal(str(whole.resolve()))


def _permitted(permits: Permits, cwd: Path) -> Iterator[_Rule]:
    manifest, bounds = permits.manifest, permits.bounds
    denied = {own for name in bounds.tools for own in _TOOLS.get(name, (name,))}
    tools = [own for name in manifest.allowed_tools for own in _TOOLS.get(name, (name,)) if own not in denied]
    given = tuple(tool for tool in dict.fromkeys(tools) if tool not in (*_READING, *_WRITING, _SHELL))
    if given:
        yield _Rule(tools=given)
    yield from _reading([tool for tool in _READING if tool in tools], manifest.readable_paths, cwd)
    if writing := [tool for tool in _WRITING if tool in tools]:
        for pattern in manifest.writable_paths:
            yield _Rule(tools=writing, pattern=_file(_matching(pattern, cwd)))
        for pattern in bounds.paths:
            yield _Rule(tools=writing, decision="deny", priority=_DENIED, pattern=_file(_matching(pattern, cwd)))
        yield _Rule(tools=writing, decision="deny", priority=_DENIED, pattern=_OUT_OF_HERE)
    if _SHELL in tools:
        yield from _commands(manifest.allowed_commands)
        for bound in bounds.commands:
            yield _Rule(tools=(_SHELL,), decision="deny", priority=_DENIED, pattern=_beginning(bound))


def _reading(tools: Sequence[str], paths: Sequence[str], cwd: Path) -> Iterator[_Rule]:
    """Allow reading. Searching cannot be restricted to some files, so it needs permission to read everything."""
    if "**" in paths and tools:
        yield _Rule(tools=tools)
    elif "read_file" in tools:
        for pattern in paths:
            yield _Rule(tools=("read_file",), pattern=_file(_matching(pattern, cwd)))
        yield _Rule(tools=("read_file",), decision="deny", priority=_DENIED, pattern=_OUT_OF_HERE)


def _file(alternatives: Iterable[str]) -> str:
    return rf'\x00"file_path":"({"|".join(dict.fromkeys(alternatives))})"\x00'


def _matching(pattern: str, cwd: Path) -> list[str]:
    """Return the expressions for a manifest's pattern, for relative names in `cwd` and for absolute ones."""
    pattern = pattern.removeprefix("./")
    if pattern.endswith("/"):
        pattern += "**"
    meaning = {"**/": r"([^\x00]*/|)", "**": r"[^\x00]*", "*": r"[^/\x00]*", "?": r"[^/\x00]"}
    path = "".join(meaning.get(part) or _literal(part) for part in re.split(r"(\*\*/|\*\*|\*|\?)", pattern))
    if pattern.startswith("**"):  # otherwise it would match an absolute path as a relative one
        path = rf"(?!/){path}"
    places = dict.fromkeys((str(cwd), str(cwd.resolve())))
    return [path, rf"\./{path}", *(rf"{_literal(place)}/{path}" for place in places)]


def _commands(patterns: Iterable[str]) -> Iterator[_Rule]:
    """Allow commands. One that writes to a file with `>` is allowed only as exactly that command."""
    for pattern in patterns:
        command = literal(pattern)
        if command is None:
            whole = _wildcard(pattern.strip())
            yield _Rule(tools=(_SHELL,), pattern=_command(_WRITES_NO_FILE + whole), redirection=True)
            yield _Rule(tools=(_SHELL,), pattern=_command(whole), priority=_ALLOWED_ELSE)
        else:
            alone = (re.sub(r"\s*\d*[<>].*", "", piece, flags=re.DOTALL) for piece in pieces(command))
            for each in dict.fromkeys((command.strip(), *pieces(command), *alone)):
                yield _Rule(tools=(_SHELL,), pattern=_command(_literal(each)), redirection=True)


def _command(pattern: str) -> str:
    return rf'\x00"command":"{pattern}"\x00'


def _wildcard(pattern: str) -> str:
    """Return the expression for a pattern. `git status *` also matches `git status` alone."""
    parts = re.split(r"(\\\*|\*)", pattern)
    whole = "".join({r"\*": r"\*", "*": r"[^\x00]*"}.get(part) or _literal(part) for part in parts)
    return whole.removesuffix(r" [^\x00]*") + r"( [^\x00]*|)" if whole.endswith(r" [^\x00]*") else whole


def _beginning(command: str) -> str:
    """Return the expression for a program, or for one with these words, with or without options before them."""
    program, _, rest = command.partition(" ")
    words = rf"( -[^\x00]*|) {_literal(rest)}" if rest else ""
    return rf'\x00"command":"{_PLACES}{_literal(program)}{words}[\s"\\]'


def _literal(text: str) -> str:
    """Return a regular expression for the text in JSON."""
    return re.sub(r"([\\^$.*+?()\[\]{}|/-])", r"\\\1", json.dumps(text, ensure_ascii=False)[1:-1])
