"""How gemini is started: its flags, its prompt, its environment."""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Mapping
from pathlib import Path

from cuggino.agents.agent import AgentOptions, Launch
from cuggino.agents.gemini.policy import policy
from cuggino.agents.launching import flags, not_a_command

_TOOLS_HERE = (
    "About the tools here: read_file skips files that git ignores, such as those in .cuggino/; read them with `cat`."
    " A shell command with $(…), <(…) or backticks is blocked: write it without them. Build files, such as"
    " package.json, pyproject.toml or a Makefile, can be changed only by shell commands."
)
"""What gemini does whatever its settings say, and a model would otherwise learn by failing."""

_OWN = ("GEMINI_*", "GOOGLE_*", "CODE_ASSIST_*", "CLOUD*", "NODE_*", "*_PROXY", "*_proxy", "SANDBOX*", "SEATBELT_*")
"""Variables that change what gemini does, or whom it asks."""


def headless(options: AgentOptions) -> Launch:
    """Start without a person. The prompt goes to stdin, of which gemini reads 8 MB. The system prompt comes before it:
    gemini's own system prompt can only be replaced as a whole, with everything that it says about its tools."""
    argv = ["gemini", "--output-format", "stream-json", "--skip-trust", *_common(options)]
    if policy(options) is not None:
        argv += ["--approval-mode", "default", "--policy", str(policy_file(options))]
    elif options.skip_permissions:
        argv += ["--approval-mode", "yolo"]
    for folder in dict.fromkeys((options.cwd / path).parent for path in options.writable):
        if not folder.is_relative_to(options.cwd):  # it writes only in directories that it is given
            argv += ["--include-directories", str(folder)]
    return Launch(
        argv=tuple(argv),
        stdin=_prompt(options, _TOOLS_HERE).encode(errors="replace"),
        environment=_environment(options),
    )


def interactive(options: AgentOptions) -> Launch:
    """Start with the person's terminal and the person's own permissions. With directories to write to, it asks about
    every change, in these too: only a file could exempt them."""
    argv = ["gemini", *_common(options)]
    if options.writable:
        argv += ["--approval-mode", "default"]
    if prompt := _prompt(options):
        argv.append(f"--prompt-interactive={prompt}")
    return Launch(argv=tuple(argv), environment=_environment(options))


def policy_file(options: AgentOptions) -> Path:
    """Return where the policy goes. gemini accepts only files with this suffix."""
    return options.output.with_name(f"{options.output.name}.toml")


def _common(options: AgentOptions) -> list[str]:
    resumed = options.resume_session_id
    session_id = options.session_id if resumed is None else None
    return flags({"--resume": resumed, "--model": options.model, "--session-id": session_id})


def _prompt(options: AgentOptions, *first: str) -> str:
    """Return the whole prompt. A resumed conversation already has its instructions."""
    before = () if options.resume_session_id is not None else (options.system_prompt, *first)
    return not_a_command("\n\n".join(filter(None, (*before, options.prompt))))


def _environment(options: AgentOptions) -> Mapping[str, str | None]:
    """Return, for other people's projects, what keeps their settings, hooks and servers out, and the variables in their
    `.env` that choose gemini's provider. gemini reads that file anyway, but changes no variable that is set."""
    if not options.foreign:
        return {}
    there = os.environ if options.environment is None else options.environment
    names = (name for file in (".gemini/.env", ".env") for name in _names(options.cwd / file))
    taken = {name: "" for name in names if name not in there and any(fnmatch.fnmatchcase(name, own) for own in _OWN)}
    return {**taken, "GEMINI_CLI_TRUST_WORKSPACE": "false"}


def _names(env_file: Path) -> list[str]:
    try:
        text = env_file.read_text(errors="replace")
    except OSError:
        return []
    return re.findall(r"^\s*(?:export\s+)?([\w.-]+)\s*[=:]", text, re.MULTILINE)
