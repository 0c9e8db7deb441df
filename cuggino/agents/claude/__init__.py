"""The claude backend: how Claude Code is started, what its lines mean, how it names its errors."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from cuggino.agents.agent import AgentOptions, Launch
from cuggino.agents.claude.decoder import ClaudeDecoder
from cuggino.agents.claude.launch import headless, interactive
from cuggino.agents.claude.login_settings import login_patterns
from cuggino.agents.prerequisites import Prerequisite


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

    def decoder(self, options: AgentOptions) -> ClaudeDecoder:  # noqa: ARG002 - lines mean the same in every run
        return ClaudeDecoder()

    def history(self, environment: Mapping[str, str], cwd: Path, session_id: str) -> Sequence[Path]:  # noqa: ARG002
        """Return everything that bears the conversation's name, and a directory that contains nothing else.

        The directory for `cwd` is not computed: claude cuts and hashes a long path.
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

    def prerequisites(self, environment: Mapping[str, str], root: Path) -> Sequence[Prerequisite]:
        from cuggino.agents.claude.login import login, permissions

        return [it for it in (login(environment, root), permissions(environment, os.getuid())) if it is not None]


def _names(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:  # a file, or nothing
        return []


__all__ = ["ClaudeBackend"]
