"""How codex is started: its arguments, its settings for one run, its environment."""

from __future__ import annotations

import json
from collections.abc import Mapping

import msgspec

from cuggino.agents.agent import AgentOptions, Launch
from cuggino.agents.codex.permissions import for_folders, permissions, quoted

# What codex tells the programs that it starts. When it has started cuggino, the agents must not take themselves for a
# part of that codex.
_ENVIRONMENT: Mapping[str, str | None] = {
    "CODEX_APPLY_PATCH_PRESERVE_LINE_ENDINGS": None,
    "CODEX_CI": None,
    "CODEX_INTERNAL_ORIGINATOR_OVERRIDE": None,
    "CODEX_MANAGED_BY_NPM": None,
    "CODEX_MANAGED_PACKAGE_ROOT": None,
    "CODEX_PERMISSION_PROFILE": None,
    "CODEX_PLUGIN_METRICS_OUTPUT": None,
    "CODEX_SANDBOX": None,
    "CODEX_SANDBOX_NETWORK_DISABLED": None,
    "CODEX_SESSION_ID": None,
    "CODEX_THREAD_ID": None,
    "CODEX_TOOL_CALL_ID": None,
    "CODEX_VERSION": None,
}

_HEADLESS = (
    'approval_policy="never"',  # nobody is there to be asked
    "allow_login_shell=false",  # /etc/profile would put another PATH in place of the one that checks have
    "features.unbounded_connection_retries=false",  # or it waits for its provider forever, and tells no failure
)


def headless(options: AgentOptions) -> Launch:
    """A run without a person. The prompt goes by stdin, where it may be of any size; the system prompt is an argument,
    of at most 131,071 bytes. codex names the conversation itself, so `session_id` is not passed."""
    argv = ["codex", "exec", *(["resume"] if options.resume_session_id else []), "--json", "--skip-git-repo-check"]
    argv += _settings(*_HEADLESS)
    argv += _common(options)
    argv += permissions(options)
    argv += ["--", *_conversation(options), "-"]
    prompt = options.prompt.encode(errors="replace")
    return Launch(argv=tuple(argv), stdin=prompt, environment=_ENVIRONMENT)


def interactive(options: AgentOptions) -> Launch:
    """With the person's terminal, and the person's own permissions. With folders to write to, it asks about every
    change but in these."""
    argv = ["codex", *(["resume"] if options.resume_session_id else []), *_common(options)]
    if options.writable:
        argv += [*_settings('approval_policy="on-request"'), *for_folders(options.cwd, options.writable)]
    if rest := [*_conversation(options), *([options.prompt] if options.prompt else [])]:
        argv += ["--", *rest]
    return Launch(argv=tuple(argv), environment=_ENVIRONMENT)


def _common(options: AgentOptions) -> list[str]:
    argv = ["--model", options.model] if options.model is not None else []
    if instructions := _instructions(options):
        argv += _settings(f"developer_instructions={quoted(instructions)}")
    if options.foreign:
        cwd = options.cwd.resolve()
        untrusted = ",".join(f'{quoted(str(folder))}={{trust_level="untrusted"}}' for folder in (cwd, *cwd.parents))
        argv += _settings(f"projects={{{untrusted}}}", "project_doc_max_bytes=0", "skills.include_instructions=false")
    return argv


def _instructions(options: AgentOptions) -> str:
    """A schema is asked for in words: codex wants it in a file, and its provider takes only a part of all schemas."""
    if options.schema is None:
        return options.system_prompt
    schema = json.dumps(msgspec.to_builtins(options.schema))
    asked = f"Your last message is JSON and nothing else, by this JSON schema: {schema}"
    return f"{options.system_prompt}\n\n{asked}" if options.system_prompt else asked


def _conversation(options: AgentOptions) -> list[str]:
    return [options.resume_session_id] if options.resume_session_id else []


def _settings(*settings: str) -> list[str]:
    return [part for setting in settings for part in ("-c", setting)]
