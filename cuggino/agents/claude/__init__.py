"""The claude backend: how Claude Code is started, what its lines mean, how it names its errors.

`launch` builds its command lines, `permissions` turns a sandbox's rules into claude's own, `login_settings` keeps
the login where the person's settings are not used. `lines` declares the part of its protocol that is used, `decoder`
turns a run's lines into events, `failures` turns what its protocol says went wrong into errors, `login` tells
beforehand whether it could work at all.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from cuggino.agents.agent import AgentOptions, Launch
from cuggino.agents.claude.decoder import ClaudeDecoder
from cuggino.agents.claude.launch import headless, interactive
from cuggino.agents.claude.login_settings import login_patterns
from cuggino.agents.diagnosis import Symptom


class ClaudeBackend:
    """Claude Code, `claude` in PATH."""

    name = "claude"
    program = "claude"
    install_advice = "Install it with `npm install -g @anthropic-ai/claude-code`, then run `claude` once and log in."
    lacks = ""
    version_arguments = ("--version",)

    @property
    def login_environment(self) -> tuple[str, ...]:
        return login_patterns(os.environ)

    def launch(self, options: AgentOptions) -> Launch:
        return headless(options)

    def launch_interactive(self, options: AgentOptions) -> Launch:
        return interactive(options)

    def decoder(self, options: AgentOptions) -> ClaudeDecoder:  # noqa: ARG002 - the lines mean the same for every run
        return ClaudeDecoder()

    def history(self, environment: Mapping[str, str], cwd: Path, session_id: str) -> Sequence[Path]:  # noqa: ARG002
        """What bears the conversation's name, wherever claude puts that; with a folder in which nothing else is.

        The name is enough. The folder for `cwd` is called after it, but cut and hashed where that is long.
        """
        name = re.compile(rf"{re.escape(session_id)}(?!\w)")
        home = Path(environment.get("CLAUDE_CONFIG_DIR") or Path(environment.get("HOME", "~")) / ".claude")
        temporary = (
            Path(environment.get("CLAUDE_CODE_TMPDIR") or environment.get("TMPDIR") or "/tmp") / f"claude-{os.getuid()}"
        )
        found: list[Path] = []
        for folder in (*_names(home), *_names(home / "projects"), *_names(temporary)):
            inside = _names(folder)
            own = [path for path in inside if name.match(path.name)]
            others = [path for path in inside if path not in own and (not path.is_dir() or _names(path))]
            alone = own and not others and folder.parent != home
            found += [folder] if alone else own
        return found

    def symptoms(self, environment: Mapping[str, str], root: Path) -> Sequence[Symptom]:
        from cuggino.agents.claude.login import login, permissions

        return [it for it in (login(environment, root), permissions(environment, os.getuid())) if it is not None]


def _names(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:  # a file, or nothing
        return []


__all__ = ["ClaudeBackend"]
