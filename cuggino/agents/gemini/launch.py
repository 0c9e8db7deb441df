"""How gemini is started: its flags, its prompt, its environment."""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Mapping
from pathlib import Path

from cuggino.agents.agent import AgentOptions, Launch
from cuggino.agents.gemini.policy import policy

_TOOLS_HERE = (
    "About the tools here: read_file passes over files that git ignores, such as those in .cuggino/; read them with"
    " `cat`. A shell command with $(…), <(…) or backticks is blocked: write it without. Build files, such as"
    " package.json, pyproject.toml or a Makefile, can be changed by shell commands only."
)
"""What gemini does whatever it is told, and a model would find out by failing."""

_OWN = ("GEMINI_*", "GOOGLE_*", "CODE_ASSIST_*", "CLOUD*", "NODE_*", "*_PROXY", "*_proxy", "SANDBOX*", "SEATBELT_*")
"""Variables that change what gemini does, or whom it asks."""


def headless(options: AgentOptions) -> Launch:
    """A run without a person. The prompt goes by stdin, of which gemini takes 8 MB. Our standing instructions stand
    before it: gemini's own system prompt can only be replaced as a whole, with all that it says about its tools."""
    argv = ["gemini", "--output-format", "stream-json", "--skip-trust", *_common(options)]
    if policy(options) is not None:
        argv += ["--approval-mode", "default", "--policy", str(policy_file(options))]
    elif options.skip_permissions:
        argv += ["--approval-mode", "yolo"]
    if options.resume_session_id is None and options.session_id is not None:
        argv += ["--session-id", options.session_id]
    for folder in dict.fromkeys((options.cwd / path).parent for path in options.writable):
        if not folder.is_relative_to(options.cwd):  # it writes only in folders that it is given
            argv += ["--include-directories", str(folder)]
    return Launch(
        argv=tuple(argv),
        stdin=_prompt(options, _TOOLS_HERE).encode(errors="replace"),
        environment=_environment(options),
    )


def interactive(options: AgentOptions) -> Launch:
    """With the person's terminal, and the person's own permissions. With folders to write to, it is asked about every
    change, wherever it is: that these need no question could be said in a file only."""
    argv = ["gemini", *_common(options)]
    if options.writable:
        argv += ["--approval-mode", "default"]
    if options.resume_session_id is None and options.session_id is not None:
        argv += ["--session-id", options.session_id]
    if prompt := _prompt(options):
        argv.append(f"--prompt-interactive={prompt}")
    return Launch(argv=tuple(argv), environment=_environment(options))


def policy_file(options: AgentOptions) -> Path:
    """gemini takes only files with this ending for policies."""
    return options.output.with_name(f"{options.output.name}.toml")


def _common(options: AgentOptions) -> list[str]:
    argv = []
    if options.resume_session_id is not None:
        argv += ["--resume", options.resume_session_id]
    if options.model is not None:
        argv += ["--model", options.model]
    return argv


def _prompt(options: AgentOptions, *first: str) -> str:
    """A conversation that goes on has its standing instructions already. What begins with a slash is a command of
    gemini's own."""
    before = () if options.resume_session_id is not None else (options.system_prompt, *first)
    prompt = "\n\n".join(filter(None, (*before, options.prompt)))
    return f"Your task:\n{prompt}" if prompt.lstrip().startswith("/") else prompt


def _environment(options: AgentOptions) -> Mapping[str, str | None]:
    """For other people's projects: none of the settings, hooks and servers in them, and no variable in their `.env`
    that says whom gemini asks. That file is read all the same, but it changes no variable that is there."""
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
