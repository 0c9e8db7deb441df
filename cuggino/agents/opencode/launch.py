"""How opencode is started: its arguments, the configuration that is laid over the person's, its environment.

What opencode has no argument for goes into OPENCODE_CONFIG_CONTENT, which opencode merges over the configuration that
it finds: providers, logins, MCP servers stay the person's. It defines an agent of cuggino's own, since the rules of an
agent come after all others', and its prompt stands in every request, also when opencode has replaced the beginning of
a long conversation by a summary. That prompt takes the place of opencode's general one, which is written for a chat
with a person; what opencode tells of its tools, of the folder and of AGENTS.md comes all the same.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from typing import Any

from cuggino.agents.agent import AgentOptions, Launch
from cuggino.agents.opencode.permissions import Rules, only_there, permissions
from cuggino.errors import LlmSessionError, LlmSessionErrorKind

_AGENT = "cuggino"
_CONTENT = "OPENCODE_CONFIG_CONTENT"
_BRACE = "\ue07b"
"""Of no meaning: stands for an opening brace until all is JSON, where it is written by its number."""

_ENVIRONMENT: Mapping[str, str | None] = {
    "PWD": None,  # opencode believes it more than where it was started
    "OPENCODE": None,  # of an opencode that has started cuggino
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
    """A run without a person. The prompt goes by stdin, where it may be of any size and begin with anything.

    With a title opencode does not ask the model for one. Its errors go to stderr as well: some of its lines name no
    more than a number under which they stand there.
    """
    argv = ["opencode", "run", "--format", "json", "--print-logs", "--log-level", "ERROR"]
    argv += ["--title", f"cuggino {options.role.value}", *_common(options)]
    rules = permissions(options)
    if rules is None and options.skip_permissions:
        argv += ["--auto"]
    prompt = options.prompt.encode(errors="replace")
    return Launch(argv=tuple(argv), stdin=prompt, environment=_environment(options, rules))


def interactive(options: AgentOptions) -> Launch:
    """With the person's terminal, and the person's own permissions.

    With folders to write to, it is asked about every change but in these, and about every command. The prompt is an
    argument here: at most 131,071 bytes.
    """
    argv = ["opencode", *_common(options)]
    if options.prompt:
        argv += [f"--prompt={options.prompt}"]
    rules: Rules | None = None
    if options.writable:
        rules = {"bash": "ask", **only_there(options.cwd, options.writable, below=True, otherwise="ask")}
    return Launch(argv=tuple(argv), environment=_environment(options, rules))


def _common(options: AgentOptions) -> list[str]:
    argv = ["--agent", _AGENT]
    if options.resume_session_id is not None:
        argv += ["--session", options.resume_session_id]
    if options.model is not None:
        argv += ["--model", options.model]
    return argv


def _environment(options: AgentOptions, rules: Rules | None) -> dict[str, str | None]:
    """A sandbox's configuration is not read either: an agent could write itself other rules there. An AGENTS.md in a
    subfolder is shown to the model when it reads a file there, which nothing prevents."""
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
        "snapshot": False,  # copies of the working tree, for an undo that nobody is there to ask for
        "experimental": {"continue_loop_on_deny": True},
    }
    if options.permits is not None and not options.foreign:
        settings["instructions"] = [str(options.cwd / "AGENTS.md")]
    return settings


def _content(persons: str, ours: dict[str, Any]) -> str:
    """Both as one. In a configuration `{env:…}` and `{file:…}` stand for something else: in the person's own only."""
    try:
        theirs = json.loads(persons or "{}")
    except ValueError:
        theirs = None
    if not isinstance(theirs, dict):
        raise LlmSessionError(
            f"opencode cannot be started: {_CONTENT} is set to something else than an object of plain JSON.",
            LlmSessionErrorKind.SETUP,
            advice="Write it without comments and trailing commas, or put it into opencode's configuration file.",
        )
    safe = json.loads(re.sub(r"\{(?=env:|file:)", _BRACE, json.dumps(ours)))
    return json.dumps(_merged(theirs, safe), ensure_ascii=False).replace(_BRACE, "\\u007b")


def _merged(under: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """`agent` too, but not what is below it: an agent of the name of ours would add its rules."""
    merged = {**under, **over}
    for key in ("agent", "experimental"):
        if isinstance(below := under.get(key), dict):
            merged[key] = {**below, **over[key]}
    if isinstance(below := under.get("instructions"), list) and "instructions" in over:
        merged["instructions"] = [*below, *over["instructions"]]
    return merged
