"""How claude is started: its flags and its environment. `permissions` has what it may do."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from cuggino.agents.agent import AgentOptions, Launch
from cuggino.agents.claude.login_settings import LoginSettings, login_settings
from cuggino.agents.claude.permissions import ENVIRONMENT, below, permissions, settings
from cuggino.agents.launching import flags, not_a_command

# claude sets these for the programs that it starts. If a claude has started cuggino, agents must not take themselves
# for part of that claude: an interactive one would not keep its conversation.
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
    """Start without a person. The prompt goes to stdin, where it may have any size; the system prompt and the schema
    are arguments of at most 131,071 bytes each."""
    budget, schema = options.budget_usd, options.schema
    login = login_settings(options.environment) if options.permits is not None else LoginSettings()
    argv = [
        *("claude", "-p", "--output-format", "stream-json", "--verbose", "--include-partial-messages"),
        *_common(options),
        *flags({"--max-budget-usd": None if budget is None else f"{max(budget, _SMALLEST_BUDGET):.4f}"}),
        *flags({"--json-schema": None if schema is None else msgspec.json.encode(schema).decode()}),
        *permissions(options, login.settings),
    ]
    return Launch(
        argv=tuple(argv),
        stdin=not_a_command(options.prompt).encode(errors="replace"),
        environment={**_ENVIRONMENT, **login.environment, **(ENVIRONMENT if options.permits is not None else {})},
    )


def interactive(options: AgentOptions) -> Launch:
    """Start with the person's terminal and the person's own permissions.

    With directories to write to, it asks about every change outside of them, whatever mode the person's settings
    choose: a rule that denies would override one that allows, so "only there" has no other expression.
    """
    argv = ["claude", *_common(options)]
    if options.writable:
        argv += ["--permission-mode", "default", "--settings", settings(below(options.cwd, options.writable))]
    if options.prompt:
        argv += ["--", not_a_command(options.prompt)]
    return Launch(argv=tuple(argv), environment=_ENVIRONMENT)


def _common(options: AgentOptions) -> list[str]:
    return flags(
        {
            "--resume": options.resume_session_id,
            "--model": options.model,
            "--append-system-prompt": options.system_prompt,
            "--session-id": options.session_id,
        }
    )
