"""How opencode is started: its arguments, the configuration that is laid over the person's, its environment.

What opencode has no argument for goes into OPENCODE_CONFIG_CONTENT, which opencode merges over the configuration that
it finds: providers, logins and MCP servers stay the person's. It defines an agent of cuggino's own: the rules of an
agent come after all others, and its prompt is part of every request, even after opencode has replaced the beginning of
a long conversation by a summary. That prompt replaces opencode's general one, which is written for a chat with a
person; what opencode adds about its tools, the directory and AGENTS.md stays.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from typing import Any

from cuggino.agents.agent import AgentOptions, Launch
from cuggino.agents.launching import flags
from cuggino.agents.opencode.permissions import Rules, only_there, permissions
from cuggino.errors import LlmSessionError, LlmSessionErrorKind

_AGENT = "cuggino"
_CONTENT = "OPENCODE_CONFIG_CONTENT"
_BRACE = "\ue07b"
"""An unused character that replaces an opening brace until everything is JSON, where it is written by its number."""

_ENVIRONMENT: Mapping[str, str | None] = {
    "PWD": None,  # opencode trusts it more than the directory in which it was started
    "OPENCODE": None,  # set by an opencode that has started cuggino
    "OPENCODE_PID": None,
    "OPENCODE_DISABLE_AUTOUPDATE": "1",
}

_OTHERS = {
    "OPENCODE_DISABLE_PROJECT_CONFIG": "1",  # also AGENTS.md
    "OPENCODE_DISABLE_CLAUDE_CODE": "1",  # CLAUDE.md, .claude/skills
    "OPENCODE_DISABLE_EXTERNAL_SKILLS": "1",  # .agents/skills
}
_KEPT_OUT = {"OPENCODE_DISABLE_PROJECT_CONFIG": "1"}


def headless(options: AgentOptions) -> Launch:
    """Start without a person. The prompt goes to stdin, where it may have any size and begin with anything.

    With a title, opencode does not ask the model for one. Its errors go to stderr as well: some of its lines have only
    a number, under which the error is logged there.
    """
    argv = ["opencode", "run", "--format", "json", "--print-logs", "--log-level", "ERROR"]
    argv += ["--title", f"cuggino {options.role.value}", *_common(options)]
    rules = permissions(options)
    if rules is None and options.skip_permissions:
        argv += ["--auto"]
    prompt = options.prompt.encode(errors="replace")
    return Launch(argv=tuple(argv), stdin=prompt, environment=_environment(options, rules))


def interactive(options: AgentOptions) -> Launch:
    """Start with the person's terminal and the person's own permissions.

    With directories to write to, it asks about every change outside of them, and about every command. The prompt is an
    argument here, of at most 131,071 bytes.
    """
    argv = ["opencode", *_common(options)]
    if options.prompt:
        argv += [f"--prompt={options.prompt}"]
    rules: Rules | None = None
    if options.writable:
        rules = {"bash": "ask", **only_there(options.cwd, options.writable, below=True, otherwise="ask")}
    return Launch(argv=tuple(argv), environment=_environment(options, rules))


def _common(options: AgentOptions) -> list[str]:
    return flags({"--agent": _AGENT, "--session": options.resume_session_id, "--model": options.model})


def _environment(options: AgentOptions, rules: Rules | None) -> dict[str, str | None]:
    """Return the variables to change. A sandbox's configuration is not read either: an agent could write itself other
    rules there. An AGENTS.md in a subdirectory is shown to the model when it reads a file there; nothing prevents that.
    """
    around = os.environ if options.environment is None else options.environment
    environment = {**_ENVIRONMENT, _CONTENT: _content(around.get(_CONTENT, ""), _settings(options, rules))}
    if options.foreign:
        environment |= _OTHERS
    elif options.permits is not None:
        environment |= _KEPT_OUT
    return environment


def _settings(options: AgentOptions, rules: Rules | None) -> dict[str, Any]:
    agent: dict[str, Any] = {"mode": "primary", "description": "The agent that cuggino started."}
    if options.system_prompt:
        agent["prompt"] = options.system_prompt
    if rules is not None:
        agent["permission"] = rules
    settings: dict[str, Any] = {
        "agent": {_AGENT: agent},
        "share": "disabled",
        "snapshot": False,  # copies of the working tree, for an undo that nobody would ask for
        "experimental": {"continue_loop_on_deny": True},
    }
    if options.permits is not None and not options.foreign:
        settings["instructions"] = [str(options.cwd / "AGENTS.md")]
    return settings


def _content(persons: str, ours: dict[str, Any]) -> str:
    """Merge both. opencode replaces `{env:…}` and `{file:…}` in a configuration: only in the person's own here."""
    try:
        theirs = json.loads(persons or "{}")
    except ValueError:
        theirs = None
    if not isinstance(theirs, dict):
        raise LlmSessionError(
            f"opencode cannot be started: {_CONTENT} is not an object in plain JSON.",
            LlmSessionErrorKind.SETUP,
            advice="Remove comments and trailing commas from it, or move it to opencode's configuration file.",
        )
    safe = json.loads(re.sub(r"\{(?=env:|file:)", _BRACE, json.dumps(ours)))
    return json.dumps(_merged(theirs, safe), ensure_ascii=False).replace(_BRACE, "\\u007b")


def _merged(under: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """Merge `agent` too, but not single agents: one with the name of ours would add its rules."""
    merged = {**under, **over}
    for key in ("agent", "experimental"):
        if isinstance(below := under.get(key), dict):
            merged[key] = {**below, **over[key]}
    if isinstance(below := under.get("instructions"), list) and "instructions" in over:
        merged["instructions"] = [*below, *over["instructions"]]
    return merged
