"""How claude is started: its flags, what it may do, its environment."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from cuggino.agents.agent import AgentOptions, Launch

# What an agent that may do everything else may not: nobody is there to answer it, its work has to be in this
# folder, where it is checked, and over when it ends. Some of these exist in some versions only.
_NOT_HEADLESS = (
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

# What claude tells the programs that it starts. When it has started cuggino, the agents must not take themselves
# for a part of that claude: an interactive one would not keep its conversation.
_ENVIRONMENT: Mapping[str, str | None] = {
    "CLAUDECODE": None,
    "CLAUDE_CODE_ENTRYPOINT": None,
    "CLAUDE_CODE_SESSION_ID": None,
    "CLAUDE_CODE_CHILD_SESSION": None,
    "CLAUDE_CODE_EXECPATH": None,
    "CLAUDE_EFFORT": None,
    "AI_AGENT": None,
    "DISABLE_AUTOUPDATER": "1",
}

_SMALLEST_BUDGET = 0.01  # dollars; claude crashes on zero


def headless(options: AgentOptions) -> Launch:
    """A run without a person. The prompt goes by stdin, where it may be of any size; the system prompt and the
    schema are arguments, each of at most 131,071 bytes."""
    argv = ["claude", "-p", "--output-format", "stream-json", "--verbose", "--include-partial-messages"]
    argv += _common(options)
    if options.session_id is not None:
        argv += ["--session-id", options.session_id]
    if options.budget_usd is not None:
        argv += ["--max-budget-usd", f"{max(options.budget_usd, _SMALLEST_BUDGET):.4f}"]
    if options.schema is not None:
        argv += ["--json-schema", msgspec.json.encode(options.schema).decode()]
    argv += _permissions(options)
    return Launch(argv=tuple(argv), stdin=_prompt(options.prompt).encode(errors="replace"), environment=_ENVIRONMENT)


def interactive(options: AgentOptions) -> Launch:
    """With the person's terminal, and the person's own permissions.

    With folders to write to, it is asked about every change but in these, whatever mode the person's settings
    choose: a rule that denies would be stronger than one that allows, so "only there" cannot be said otherwise.
    """
    argv = ["claude", *_common(options)]
    if options.writable:
        rules = [f"Edit({rule}/**)" for path in options.writable for rule in _rules(options.cwd / path)]
        argv += ["--permission-mode", "default", "--settings", _allowing(rules)]
    if options.session_id is not None:
        argv += ["--session-id", options.session_id]
    if options.prompt:
        argv += ["--", _prompt(options.prompt)]
    return Launch(argv=tuple(argv), environment=_ENVIRONMENT)


def _common(options: AgentOptions) -> list[str]:
    argv = []
    if options.resume_session_id is not None:
        argv += ["--resume", options.resume_session_id]
    if options.model is not None:
        argv += ["--model", options.model]
    if options.system_prompt:
        argv += ["--append-system-prompt", options.system_prompt]
    return argv


def _prompt(prompt: str) -> str:
    """A prompt that begins with a slash would be a command of claude's own, and an unknown one ends in success."""
    return f"Your task:\n{prompt}" if prompt.lstrip().startswith("/") else prompt


def _permissions(options: AgentOptions) -> list[str]:
    if options.role.read_only:
        return _read_only(options)
    denied = ["--disallowedTools", ",".join(_NOT_HEADLESS)]
    return ["--dangerously-skip-permissions", *denied] if options.skip_permissions else denied


def _read_only(options: AgentOptions) -> list[str]:
    """Reading, commands, and writing to the paths that it is given. What would be asked about is denied."""
    tools = _READING + (_WRITING if options.writable else ())
    rules = [*_READING, *(f"Edit({rule})" for path in options.writable for rule in _rules(options.cwd / path))]
    return ["--permission-mode", "dontAsk", "--tools", ",".join(tools), "--settings", _allowing(rules)]


def _allowing(rules: Sequence[str]) -> str:
    return json.dumps({"permissions": {"allow": rules}})


def _rules(path: Path) -> list[str]:
    """The pattern for exactly this file, for writing and editing alike; two if symbolic links lead to it.

    claude wants both the path that the agent named and the real one allowed. `//` is the root. The pattern is of
    .gitignore's kind, but for a question mark, which cannot be escaped and stands for any one character.
    """
    paths = dict.fromkeys((path, path.resolve()))
    return ["/" + re.sub(r"([*\[\]{}()\\])", r"\\\1", str(each)) for each in paths]
