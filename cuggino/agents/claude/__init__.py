"""The claude backend: how Claude Code is started, what its lines mean, how it names its errors.

`launch` builds its command lines, `lines` declares the part of its protocol that is used, `decoder` turns a
run's lines into events, `failures` turns what its protocol says went wrong into errors.
"""

from __future__ import annotations

from cuggino.agents.agent import AgentOptions, Launch
from cuggino.agents.claude.decoder import ClaudeDecoder
from cuggino.agents.claude.launch import headless, interactive


class ClaudeBackend:
    """Claude Code, `claude` in PATH."""

    name = "claude"
    program = "claude"
    install_advice = "Install it with `npm install -g @anthropic-ai/claude-code`, then run `claude` once and log in."

    def launch(self, options: AgentOptions) -> Launch:
        return headless(options)

    def launch_interactive(self, options: AgentOptions) -> Launch:
        return interactive(options)

    def decoder(self, options: AgentOptions) -> ClaudeDecoder:  # noqa: ARG002 - the lines mean the same for every run
        return ClaudeDecoder()


__all__ = ["ClaudeBackend"]
