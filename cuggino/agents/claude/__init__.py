"""The claude backend: how Claude Code is started, what its lines mean, how it names its errors.

`launch` builds its command lines, `lines` declares the part of its protocol that is used, `decoder` turns a
run's lines into events, `failures` turns what its protocol says went wrong into errors, `login` tells beforehand
whether it could work at all.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from cuggino.agents.agent import AgentOptions, Launch
from cuggino.agents.claude.decoder import ClaudeDecoder
from cuggino.agents.claude.launch import headless, interactive
from cuggino.agents.diagnosis import Symptom


class ClaudeBackend:
    """Claude Code, `claude` in PATH."""

    name = "claude"
    program = "claude"
    install_advice = "Install it with `npm install -g @anthropic-ai/claude-code`, then run `claude` once and log in."
    version_arguments = ("--version",)
    login_environment = (
        *("ANTHROPIC_*", "CLAUDE_CODE_OAUTH_TOKEN", "CLAUDE_CONFIG_DIR", "CLAUDE_SECURESTORAGE_CONFIG_DIR"),
        *("CLAUDE_CODE_USE_*", "IS_SANDBOX", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "NODE_EXTRA_CA_CERTS"),
    )

    def launch(self, options: AgentOptions) -> Launch:
        return headless(options)

    def launch_interactive(self, options: AgentOptions) -> Launch:
        return interactive(options)

    def decoder(self, options: AgentOptions) -> ClaudeDecoder:  # noqa: ARG002 - the lines mean the same for every run
        return ClaudeDecoder()

    def history(self, environment: Mapping[str, str], cwd: Path, session_id: str) -> Sequence[Path]:
        """A file, and a folder beside it, in a folder for `cwd`, whose name is the path with its signs flattened."""
        home = Path(environment.get("CLAUDE_CONFIG_DIR") or Path(environment.get("HOME", "~")) / ".claude")
        flat = re.sub(r"[^A-Za-z0-9]", "-", str(cwd.resolve()))
        return [
            path for path in (home / "projects" / flat).glob(f"{session_id}*") if path.name.split(".")[0] == session_id
        ]

    def symptoms(self, environment: Mapping[str, str], root: Path) -> Sequence[Symptom]:
        from cuggino.agents.claude.login import login, permissions

        return [it for it in (login(environment, root), permissions(environment, os.getuid())) if it is not None]


__all__ = ["ClaudeBackend"]
