"""A sandbox's rules → claude's own permission settings, by which it denies what they do not allow.

What claude makes of its rules was measured, and each of these is tested with the real program:

- The mode `dontAsk` denies what no rule allows. Commands that only read, within the folder, are always allowed.
- A command is allowed if each part of it is, at its operators; the whole text may be a rule too, but not across `|`.
  What it redirects to, or names as a path of `cp`, `mkdir`, `cat` and the like, must be allowed as a path as well.
- `Edit(path)` is for every tool that writes. Rules for paths are of .gitignore's kind; a link must be allowed by both
  its ends.
- Everything in the folder may be read, whatever is allowed: only a rule that denies keeps something from being read.
- Allowing rules of all settings add up. So none of the person's or the project's settings are used in a sandbox.
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

# What an agent that may do everything else may not: nobody is there to answer it, its work has to be in this
# folder, where it is checked, and over when it ends. Some of these exist in some versions only.
NOT_HEADLESS = (
    "AskUserQuestion",  # a person must answer
    "EnterPlanMode",
    "ExitPlanMode",
    "EnterWorktree",  # goes on in another folder
    "ExitWorktree",
    "CronCreate",  # does something after the end
    "CronDelete",
    "CronList",
    "ScheduleWakeup",
    "Workflow",  # a crowd of agents, at a cost that nobody has agreed to
)

# What exists for a read-only role at all: a denial by name would let through the writing tool of the next version.
_READING = ("Bash", "Read", "Glob", "Grep", "TaskOutput", "TaskStop")
_WRITING = ("Write", "Edit")

_OF_COMMANDS = ("TaskOutput", "TaskStop")
"""What belongs to Bash: a command may go on in the background."""

_BY_RULES = frozenset({"Bash", "Read", "Write", "Edit", "NotebookEdit", "Glob", "Grep", *_OF_COMMANDS})
"""Tools that are allowed by paths and commands; all others by their name alone."""

_STARTS_AGENTS = ("Skill", "RemoteTrigger", "TeamDelete")
"""A skill may begin an agent of its own."""

NOTHING: Mapping[str, Any] = {}

_RUNNERS = ("env", "/usr/bin/env", "exec", "eval", "bash", "sh")

_TOOL = re.compile(r"\w[\w-]*")


ENVIRONMENT = {"CLAUDE_BASH_MAINTAIN_PROJECT_WORKING_DIR": "1", "CLAUDE_CODE_DISABLE_AUTO_MEMORY": "1"}
"""In a sandbox: each command begins in the sandbox's folder, from which relative rules and paths count. What claude
remembers of the person's project, which is a worktree's too, is not told."""


def permissions(options: AgentOptions, more: Mapping[str, Any] = NOTHING) -> list[str]:
    """The flags. What would be asked about is denied. `more` are settings to use beside the rules of a sandbox."""
    if options.permits is not None:
        return [*_within(options, options.permits, more), *_alone("")]
    foreign = _alone("user") if options.foreign else []
    if options.role.read_only:
        return [*_read_only(options), *foreign]
    denied = ["--disallowedTools", ",".join(NOT_HEADLESS)]
    return [*foreign, *(["--dangerously-skip-permissions"] if options.skip_permissions else []), *denied]


def _alone(sources: str) -> list[str]:
    """Nothing of the project's: no settings, hooks, instructions, servers."""
    return ["--setting-sources", sources, "--strict-mcp-config"]


def _read_only(options: AgentOptions) -> list[str]:
    """Reading, commands, and writing to the paths that it is given."""
    tools = _READING + (_WRITING if options.writable else ())
    rules = [*_READING, *(_rule("Edit", rule) for path in options.writable for rule in exactly(options.cwd / path))]
    return ["--permission-mode", "dontAsk", "--tools", ",".join(tools), "--settings", settings(rules)]


def _within(options: AgentOptions, permits: Permits, more: Mapping[str, Any]) -> list[str]:
    tools = _tools(permits)
    allow, deny = _rules(options, permits, tools)
    return ["--permission-mode", "dontAsk", "--tools", ",".join(tools), "--settings", settings(allow, deny, more)]


def settings(allow: Iterable[str], deny: Iterable[str] = (), more: Mapping[str, Any] = NOTHING) -> str:
    """As an argument. A rule is there once."""
    rules = {"allow": list(dict.fromkeys(allow)), "deny": list(dict.fromkeys(deny))}
    return msgspec.json.encode({**more, "permissions": {key: value for key, value in rules.items() if value}}).decode()


def below(folder: Path, paths: Iterable[Path]) -> list[str]:
    """Rules that allow to write to everything below these paths."""
    return [_rule("Edit", f"{rule}/**") for path in paths for rule in exactly(folder / path)]


def exactly(path: Path) -> list[str]:
    """The pattern for exactly this file, for writing and editing alike; two if symbolic links lead to it.

    claude wants both the path that the agent named and the real one allowed. `//` is the root. The pattern is of
    .gitignore's kind, but for a question mark, which cannot be escaped and stands for any one character.
    """
    return ["/" + _escaped(str(each), "*") for each in dict.fromkeys((path, path.resolve()))]


def _tools(permits: Permits) -> list[str]:
    """What exists at all. Nothing at all is said by an empty name."""
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
    """Rules for patterns below the folder, by both its names if a link leads to it. Nothing that leads out of it."""
    for pattern in _sound(patterns):
        for base in exactly(folder):
            yield _rule(tool, f"{base.rstrip('/')}/{_escaped(pattern)}")


def _memories(config: str | None) -> Iterator[str]:
    """claude lets every agent write, unasked, to what it remembers of the project, and tells it to all who come later:
    to the person's own claude too."""
    for folder in exactly(Path(config)) if config else ("~/.claude",):
        yield from (_rule("Edit", f"{folder}/**"), _rule("Read", f"{folder}/projects/*/memory/**"))


def _all_but(tool: str, patterns: Iterable[str]) -> Iterator[str]:
    """Rules that deny all but these: a list as in .gitignore, with exceptions, which count from the folder that claude
    works in. For reading they make Glob and Grep find nothing, and commands that read a whole folder read on."""
    sound = _sound(patterns)
    if "**" in sound:
        return
    yield from (f"{tool}(./**)", f"{tool}(!*/)")  # all; but look into folders
    for pattern in sound:
        inside = re.sub(r"/\*\*$", "/**/*", _escaped(pattern))  # else it would mean the folder alone
        yield _rule(tool, f"!/{inside}")


def _relative(paths: Iterable[Path], folder: Path) -> Iterator[str]:
    """Those below the folder, as patterns."""
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
    """The patterns of a command that is never allowed.

    claude itself looks behind `xargs`, `timeout`, variables and quotes. Of others that run what they are given, such as
    `bash -c`, the text is looked at, which is no wall: it serves where a manifest allows them.
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
    """The rules for a command and no other: what allows it, and what denies more than it.

    A star in it cannot be said in a rule that is exact. But in one for a beginning it is a star: so that is allowed,
    and everything longer denied.
    """
    if "*" not in command:
        return _rule("Bash", command), []
    longer = re.sub(r"([\\*])", r"\\\1", command) + " **"
    return _rule("Bash", f"{command}:*"), [_rule("Bash", longer), _rule("Bash", f"xargs {command}:*")]


def _wildcard(pattern: str) -> str:
    """claude's pattern for one of a manifest's. At the end, `:*` would be another kind of pattern."""
    parts = re.split(r"(\\\*|\*)", pattern.strip())
    whole = "".join(part if part in ("*", r"\*") else part.replace("\\", r"\\") for part in parts)
    return f"{whole}*" if whole.endswith(":*") else whole


def _escaped(path: str, signs: str = "") -> str:
    """What means something in a .gitignore, and nothing in a path; `signs` are more of it."""
    return re.sub(rf"([\[\]{{}}\\{signs}])", r"\\\1", path)


def _rule(tool: str, content: str) -> str:
    """In a rule's brackets a bracket or a backslash stands for itself when a backslash is before it."""
    escaped = re.sub(r"([()\\])", r"\\\1", content)
    return f"{tool}({escaped})"
