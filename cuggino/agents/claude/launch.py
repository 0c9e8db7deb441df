"""How claude is started: its flags and its environment. What it may do is `permissions`'."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from cuggino.agents.agent import AgentOptions, Launch
from cuggino.agents.claude.login_settings import LoginSettings, login_settings
from cuggino.agents.claude.permissions import ENVIRONMENT, below, permissions, settings

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
    login = login_settings(options.environment) if options.permits is not None else LoginSettings()
    argv += permissions(options, login.settings)
    return Launch(
        argv=tuple(argv),
        stdin=_prompt(options.prompt).encode(errors="replace"),
        environment={**_ENVIRONMENT, **login.environment, **(ENVIRONMENT if options.permits is not None else {})},
    )


def interactive(options: AgentOptions) -> Launch:
    """With the person's terminal, and the person's own permissions.

    With folders to write to, it is asked about every change but in these, whatever mode the person's settings
    choose: a rule that denies would be stronger than one that allows, so "only there" cannot be said otherwise.
    """
    argv = ["claude", *_common(options)]
    if options.writable:
        argv += ["--permission-mode", "default", "--settings", settings(below(options.cwd, options.writable))]
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
