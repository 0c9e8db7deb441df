"""A sandbox's rules → claude's own permission settings, which deny what the rules do not allow.

How claude applies its rules was measured, and each of these facts is tested with the real program:

- The mode `dontAsk` denies what no rule allows. Commands that only read within the directory are always allowed.
- A command is allowed if each part between its operators is; a rule may also match the whole text, but not across `|`.
  Paths that it redirects to, or passes to `cp`, `mkdir`, `cat` and the like, must be allowed as paths as well.
- `Edit(path)` is for every tool that writes. Path rules are like those of .gitignore; both ends of a link must be
  allowed.
- Everything in the directory may be read, whatever is allowed: only a rule that denies prevents reading.
- Allowing rules of all settings add up. So neither the person's nor the project's settings are used in a sandbox.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from cuggino.agents.agent import AgentOptions
from cuggino.commands import literal, pieces
from cuggino.manifest import Permits

# Denied even to an agent that may do everything else: nobody is there to answer it, its work must be in this directory,
# where it is checked, and must be over when it ends. Some of these exist only in some versions.
NOT_HEADLESS = (
    "AskUserQuestion",  # a person must answer
    "EnterPlanMode",
    "ExitPlanMode",
    "EnterWorktree",  # continues in another directory
    "ExitWorktree",
    "CronCreate",  # acts after the end
    "CronDelete",
    "CronList",
    "ScheduleWakeup",
    "Workflow",  # many agents, at a cost that nobody has agreed to
)

# The only tools of a read-only role: denying by name would miss the next version's writing tool.
_READING = ("Bash", "Read", "Glob", "Grep", "TaskOutput", "TaskStop")
_WRITING = ("Write", "Edit")

_OF_COMMANDS = ("TaskOutput", "TaskStop")
"""These belong to Bash: a command may continue in the background."""

_BY_RULES = frozenset({"Bash", "Read", "Write", "Edit", "NotebookEdit", "Glob", "Grep", *_OF_COMMANDS})
"""Tools that are allowed by paths and commands; all others are allowed by name."""

_STARTS_AGENTS = ("Skill", "RemoteTrigger", "TeamDelete")
"""A skill may start an agent."""

NOTHING: Mapping[str, Any] = {}

_RUNNERS = ("env", "/usr/bin/env", "exec", "eval", "bash", "sh")

_TOOL = re.compile(r"\w[\w-]*")


ENVIRONMENT = {"CLAUDE_BASH_MAINTAIN_PROJECT_WORKING_DIR": "1", "CLAUDE_CODE_DISABLE_AUTO_MEMORY": "1"}
"""In a sandbox, each command starts in the sandbox's directory, to which relative rules and paths refer. What claude
remembers of the person's project, which a worktree shares, is left out."""


def permissions(options: AgentOptions, more: Mapping[str, Any] = NOTHING) -> list[str]:
    """Return the flags. Whatever would need a question is denied. `more` are settings besides a sandbox's rules."""
    if options.permits is not None:
        return [*_within(options, options.permits, more), *_alone("")]
    foreign = _alone("user") if options.foreign else []
    if options.role.read_only:
        return [*_read_only(options), *foreign]
    denied = ["--disallowedTools", ",".join(NOT_HEADLESS)]
    return [*foreign, *(["--dangerously-skip-permissions"] if options.skip_permissions else []), *denied]


def _alone(sources: str) -> list[str]:
    """Exclude the project's settings, hooks, instructions and servers."""
    return ["--setting-sources", sources, "--strict-mcp-config"]


def _read_only(options: AgentOptions) -> list[str]:
    """Allow reading, commands, and writing to the given paths."""
    tools = _READING + (_WRITING if options.writable else ())
    rules = [*_READING, *(_rule("Edit", rule) for path in options.writable for rule in exactly(options.cwd / path))]
    return ["--permission-mode", "dontAsk", "--tools", ",".join(tools), "--settings", settings(rules)]


def _within(options: AgentOptions, permits: Permits, more: Mapping[str, Any]) -> list[str]:
    tools = _tools(permits)
    allow, deny = _rules(options, permits, tools)
    return ["--permission-mode", "dontAsk", "--tools", ",".join(tools), "--settings", settings(allow, deny, more)]


def settings(allow: Iterable[str], deny: Iterable[str] = (), more: Mapping[str, Any] = NOTHING) -> str:
    """Return settings as an argument, each rule once."""
    rules = {"allow": list(dict.fromkeys(allow)), "deny": list(dict.fromkeys(deny))}
    return msgspec.json.encode({**more, "permissions": {key: value for key, value in rules.items() if value}}).decode()


def below(folder: Path, paths: Iterable[Path]) -> list[str]:
    """Return rules that allow writing to everything below these paths."""
    return [_rule("Edit", f"{rule}/**") for path in paths for rule in exactly(folder / path)]


def exactly(path: Path) -> list[str]:
    """Return the pattern for exactly this file, for writing and editing alike; two if symbolic links lead to it.

    claude wants both the path that the agent named and the real one allowed. `//` is the root. The pattern is like one
    of .gitignore, except that a question mark cannot be escaped and matches any one character.
    """
    return ["/" + _escaped(str(each), "*") for each in dict.fromkeys((path, path.resolve()))]


def _tools(permits: Permits) -> list[str]:
    """Return the tools that exist. An empty list becomes one empty name."""
    denied = {*permits.bounds.tools, *NOT_HEADLESS, *_STARTS_AGENTS}
    tools = [tool for tool in permits.manifest.allowed_tools if _TOOL.fullmatch(tool) and tool not in denied]
    return list(dict.fromkeys((*tools, *(_OF_COMMANDS if "Bash" in tools else ()))))


def _rules(options: AgentOptions, permits: Permits, tools: list[str]) -> tuple[list[str], list[str]]:
    manifest, bounds = permits.manifest, permits.bounds
    allow = [tool for tool in tools if tool not in _BY_RULES or tool in _OF_COMMANDS]
    allow += _paths("Read", manifest.readable_paths, options.cwd)
    allow += _paths("Edit", manifest.writable_paths, options.cwd)
    allow += [_rule("Edit", rule) for path in options.writable for rule in exactly(options.cwd / path)]
    deny = list(dict.fromkeys((*bounds.tools, *NOT_HEADLESS, *_STARTS_AGENTS)))
    deny += _paths("Edit", bounds.paths, options.cwd)
    deny += _memories((options.environment or os.environ).get("CLAUDE_CONFIG_DIR"))
    deny += _all_but("Read", manifest.readable_paths)
    deny += _all_but("Edit", (*manifest.writable_paths, *_relative(options.writable, options.cwd)))
    deny += [_rule("Bash", pattern) for bound in bounds.commands for pattern in _forms(bound)]
    for pattern in manifest.allowed_commands:
        command = literal(pattern)
        if command is None:
            allow.append(_rule("Bash", _wildcard(pattern)))
        else:
            parts = pieces(command) if "|" in command else ()
            for each in dict.fromkeys((command.strip(), *parts)):
                allowed, denied = _exact_command(each)
                allow.append(allowed)
                deny += denied
    return allow, deny


def _paths(tool: str, patterns: Iterable[str], folder: Path) -> Iterator[str]:
    """Yield rules for patterns below the directory, with both its names if it is a link; none that leads out of it."""
    for pattern in _sound(patterns):
        for base in exactly(folder):
            yield _rule(tool, f"{base.rstrip('/')}/{_escaped(pattern)}")


def _memories(config: str | None) -> Iterator[str]:
    """Yield rules against claude's memory of the project: every agent may write to it without being asked, and every
    later claude reads it, the person's own too."""
    for folder in exactly(Path(config)) if config else ("~/.claude",):
        yield from (_rule("Edit", f"{folder}/**"), _rule("Read", f"{folder}/projects/*/memory/**"))


def _all_but(tool: str, patterns: Iterable[str]) -> Iterator[str]:
    """Yield rules that deny all paths except these: a list with exceptions, as in .gitignore, relative to claude's
    working directory. For reading, Glob and Grep then find nothing, while commands can still read whole directories."""
    sound = _sound(patterns)
    if "**" in sound:
        return
    yield from (f"{tool}(./**)", f"{tool}(!*/)")  # everything, except looking into directories
    for pattern in sound:
        inside = re.sub(r"/\*\*$", "/**/*", _escaped(pattern))  # otherwise it would mean only the directory
        yield _rule(tool, f"!/{inside}")


def _relative(paths: Iterable[Path], folder: Path) -> Iterator[str]:
    """Yield the paths below the directory, as patterns."""
    for path in paths:
        if (folder / path).is_relative_to(folder):
            yield (folder / path).relative_to(folder).as_posix().replace("*", r"\*")


def _sound(patterns: Iterable[str]) -> list[str]:
    plain = (pattern.removeprefix("./") for pattern in patterns)
    return [
        f"{pattern}**" if pattern.endswith("/") else pattern
        for pattern in plain
        if pattern and not pattern.startswith(("/", "~", "!", "#")) and ".." not in pattern.split("/")
    ]


def _forms(bound: str) -> Iterator[str]:
    """Yield the patterns of a command that is never allowed.

    claude itself looks behind `xargs`, `timeout`, variables and quotes. For other programs that run their arguments,
    such as `bash -c`, the text is matched. That can be evaded; it helps where a manifest allows such a program.
    """
    program, _, rest = bound.partition(" ")
    for name in (program, *(f"{folder}/{program}" for folder in ("/bin", "/usr/bin", "/usr/local/bin"))):
        yield f"{name} {rest} *".replace("  ", " ")
        if rest:  # with options before it: `git -C . push`
            yield f"{name} -* {rest}"
            yield f"{name} -* {rest} *"
    for runner in _RUNNERS:
        yield f"{runner} {bound} *"
        yield from (f"{runner} *{before}{bound} *" for before in " '\"")


def _exact_command(command: str) -> tuple[str, list[str]]:
    """Return a rule that allows exactly this command, and rules that deny longer ones.

    An exact rule cannot contain a literal star, but a rule for a prefix can: so the prefix is allowed, and everything
    longer is denied.
    """
    if "*" not in command:
        return _rule("Bash", command), []
    longer = re.sub(r"([\\*])", r"\\\1", command) + " **"
    return _rule("Bash", f"{command}:*"), [_rule("Bash", longer), _rule("Bash", f"xargs {command}:*")]


def _wildcard(pattern: str) -> str:
    """Convert a manifest's pattern to claude's, where `:*` at the end would be another kind of pattern."""
    parts = re.split(r"(\\\*|\*)", pattern.strip())
    whole = "".join(part if part in ("*", r"\*") else part.replace("\\", r"\\") for part in parts)
    return f"{whole}*" if whole.endswith(":*") else whole


def _escaped(path: str, signs: str = "") -> str:
    """Escape what is special in a .gitignore, and `signs`."""
    return re.sub(rf"([\[\]{{}}\\{signs}])", r"\\\1", path)


def _rule(tool: str, content: str) -> str:
    """Return a rule. Brackets and backslashes in its content are escaped with a backslash."""
    escaped = re.sub(r"([()\\])", r"\\\1", content)
    return f"{tool}({escaped})"
