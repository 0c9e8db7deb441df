"""The scripted agent as a backend. It prints claude's lines, so claude's decoder reads them."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from cuggino.agents.agent import AgentOptions, AgentResult, Decoded, Decoder, Launch
from cuggino.agents.claude.decoder import ClaudeDecoder
from cuggino.agents.launching import flags
from cuggino.agents.prerequisites import Prerequisite
from cuggino.agents.scripted import BAD_SCRIPT
from cuggino.errors import LlmSessionError, LlmSessionErrorKind
from cuggino.events import SystemMessage


class ScriptedBackend:
    """cuggino's own program, run by cuggino's own Python: there is nothing to install."""

    name = "scripted"
    program = sys.executable
    install_advice = "It is part of cuggino: install cuggino again."
    lacks = ""
    version_arguments: tuple[str, ...] = ()
    login_environment = ("CUGGINO_SCRIPT",)

    def launch(self, options: AgentOptions) -> Launch:
        """See `Backend.launch`. The system prompt and the prompt go to stdin, in this order."""
        argv = _common(options)
        resumed = options.resume_session_id
        argv += flags({"--resume": resumed, "--session-id": None if resumed else options.session_id})
        for path in options.writable:
            argv += ["--writable", str(path)]
        return Launch(argv=tuple(argv), stdin=_prompt(options).encode())

    def launch_interactive(self, options: AgentOptions) -> Launch:
        return Launch(argv=(*_common(options), "--interactive", f"--prompt={_prompt(options)}"))

    def history(self, environment: Mapping[str, str], cwd: Path, session_id: str) -> Sequence[Path]:  # noqa: ARG002
        """Return nothing: it keeps no conversations."""
        return ()

    def prerequisites(self, environment: Mapping[str, str], root: Path) -> Sequence[Prerequisite]:  # noqa: ARG002
        """Return nothing: it needs no login."""
        return ()

    def decoder(self, options: AgentOptions) -> Decoder:  # noqa: ARG002 - lines mean the same in every run
        return ScriptedDecoder()


class ScriptedDecoder(ClaudeDecoder):
    """claude's decoder, with one more failure: a script that cannot be played."""

    def feed(self, line: bytes) -> Sequence[Decoded]:
        return [_rename_greeting(item) for item in super().feed(line)]

    def finish(self, exit_status: int, stderr: str) -> AgentResult:
        if exit_status == BAD_SCRIPT:
            raise LlmSessionError(
                stderr.strip() or "the script cannot be played",
                LlmSessionErrorKind.SETUP,
                advice="docs/scripted-agent.md describes what a script may contain.",
                stderr=stderr,
                exit_status=exit_status,
            )
        return super().finish(exit_status, stderr)


def _rename_greeting(item: Decoded) -> Decoded:
    if isinstance(item, SystemMessage) and item.text.startswith("claude scripted"):
        return SystemMessage(text="The scripted agent plays: no model, no cost.")
    return item


def _common(options: AgentOptions) -> list[str]:
    # -P: a project's own `msgspec.py` or `cuggino` must not be found before ours.
    program = [sys.executable, "-P", "-m", "cuggino.agents.scripted"]
    return [*program, *flags({"--role": options.role.value, "--model": options.model})]


def _prompt(options: AgentOptions) -> str:
    return "\n\n".join(filter(None, (options.system_prompt, options.prompt)))
