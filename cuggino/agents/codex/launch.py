"""How codex is started: its arguments, its settings for one run, its environment."""

from __future__ import annotations

import json
from collections.abc import Mapping

import msgspec

from cuggino.agents.agent import AgentOptions, Launch
from cuggino.agents.codex.permissions import for_folders, permissions
from cuggino.agents.launching import flags, toml

# codex sets these for the programs that it starts. If a codex has started cuggino, the agents must not take themselves
# for part of that codex.
_ENVIRONMENT: Mapping[str, str | None] = dict.fromkeys(
    (
        "CODEX_APPLY_PATCH_PRESERVE_LINE_ENDINGS",
        "CODEX_CI",
        "CODEX_INTERNAL_ORIGINATOR_OVERRIDE",
        "CODEX_MANAGED_BY_NPM",
        "CODEX_MANAGED_PACKAGE_ROOT",
        "CODEX_PERMISSION_PROFILE",
        "CODEX_PLUGIN_METRICS_OUTPUT",
        "CODEX_SANDBOX",
        "CODEX_SANDBOX_NETWORK_DISABLED",
        "CODEX_SESSION_ID",
        "CODEX_THREAD_ID",
        "CODEX_TOOL_CALL_ID",
        "CODEX_VERSION",
    )
)

_HEADLESS = (
    'approval_policy="never"',  # nobody is there to be asked
    "allow_login_shell=false",  # /etc/profile would replace the PATH that checks have
    "features.unbounded_connection_retries=false",  # or it waits for its provider forever, and reports no failure
)


def headless(options: AgentOptions) -> Launch:
    """Start without a person. The prompt goes to stdin, where it may have any size; the system prompt is an argument of
    at most 131,071 bytes. codex names the conversation itself, so `session_id` is not passed."""
    resume = _resume(options)
    argv = [
        *("codex", "exec", *resume[:1], "--json", "--skip-git-repo-check"),
        *_settings(*_HEADLESS),
        *_common(options),
        *permissions(options),
        *("--", *resume[1:], "-"),
    ]
    return Launch(argv=tuple(argv), stdin=options.prompt.encode(errors="replace"), environment=_ENVIRONMENT)


def interactive(options: AgentOptions) -> Launch:
    """Start with the person's terminal and the person's own permissions. With directories to write to, it asks about
    every change outside of them."""
    resume = _resume(options)
    argv = ["codex", *resume[:1], *_common(options)]
    if options.writable:
        argv += [*_settings('approval_policy="on-request"'), *for_folders(options.cwd, options.writable)]
    if rest := [*resume[1:], *([options.prompt] if options.prompt else [])]:
        argv += ["--", *rest]
    return Launch(argv=tuple(argv), environment=_ENVIRONMENT)


def _resume(options: AgentOptions) -> list[str]:
    return ["resume", options.resume_session_id] if options.resume_session_id else []


def _common(options: AgentOptions) -> list[str]:
    argv = flags({"--model": options.model})
    if instructions := _instructions(options):
        argv += _settings(f"developer_instructions={toml(instructions)}")
    if options.foreign:
        cwd = options.cwd.resolve()
        untrusted = ",".join(f'{toml(str(folder))}={{trust_level="untrusted"}}' for folder in (cwd, *cwd.parents))
        argv += _settings(f"projects={{{untrusted}}}", "project_doc_max_bytes=0", "skills.include_instructions=false")
    return argv


def _instructions(options: AgentOptions) -> str:
    """Return the system prompt, which also asks for a schema: codex wants one in a file, and its provider accepts only
    some schemas."""
    if options.schema is None:
        return options.system_prompt
    schema = json.dumps(msgspec.to_builtins(options.schema))
    request = f"Your last message is JSON and nothing else, by this JSON schema: {schema}"
    return f"{options.system_prompt}\n\n{request}" if options.system_prompt else request


def _settings(*settings: str) -> list[str]:
    return [part for setting in settings for part in ("-c", setting)]
