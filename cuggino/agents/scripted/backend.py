"""The scripted agent as a backend. It speaks claude's lines, so claude's decoder reads them."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from cuggino.agents.agent import AgentOptions, AgentResult, Decoded, Decoder, Launch
from cuggino.agents.claude import ClaudeBackend
from cuggino.agents.scripted import BAD_SCRIPT
from cuggino.errors import LlmSessionError, LlmSessionErrorKind
from cuggino.events import SystemMessage, UsageReport


class ScriptedBackend:
    """Our own program, run by our own Python: there is nothing to install."""

    name = "scripted"
    program = sys.executable
    install_advice = "It is a part of cuggino: install cuggino again."

    lacks = ""
    login_environment = ("CUGGINO_SCRIPT",)

    def launch(self, options: AgentOptions) -> Launch:
        """The system prompt and the prompt go to stdin, one after the other."""
        argv = _common(options)
        if options.resume_session_id is not None:
            argv += ["--resume", options.resume_session_id]
        elif options.session_id is not None:
            argv += ["--session-id", options.session_id]
        for path in options.writable:
            argv += ["--writable", str(path)]
        return Launch(argv=tuple(argv), stdin=_prompt(options).encode())

    def launch_interactive(self, options: AgentOptions) -> Launch:
        return Launch(argv=(*_common(options), "--interactive", f"--prompt={_prompt(options)}"))

    def history(self, environment: Mapping[str, str], cwd: Path, session_id: str) -> Sequence[Path]:  # noqa: ARG002
        """It remembers nothing."""
        return ()

    def decoder(self, options: AgentOptions) -> Decoder:
        return _Decoder(ClaudeBackend().decoder(options))


class _Decoder:
    """claude's, but for the one failure that claude does not have: a script that cannot be played."""

    def __init__(self, claude: Decoder) -> None:
        self._claude = claude

    @property
    def failure(self) -> LlmSessionError | None:
        return self._claude.failure

    @property
    def usage(self) -> UsageReport | None:
        return self._claude.usage

    @property
    def session_id(self) -> str | None:
        return self._claude.session_id

    def feed(self, line: bytes) -> Sequence[Decoded]:
        return [_own_name(item) for item in self._claude.feed(line)]

    def finish(self, exit_status: int, stderr: str) -> AgentResult:
        if exit_status == BAD_SCRIPT:
            raise LlmSessionError(
                stderr.strip() or "the script cannot be played",
                LlmSessionErrorKind.SETUP,
                advice="docs/scripted-agent.md says what a script may hold.",
                stderr=stderr,
                exit_status=exit_status,
            )
        return self._claude.finish(exit_status, stderr)


def _own_name(item: Decoded) -> Decoded:
    """The words with which claude's decoder greets it, in its own name."""
    if isinstance(item, SystemMessage) and item.text.startswith("claude scripted"):
        return SystemMessage(text="The scripted agent plays: no model, no cost.")
    return item


def _common(options: AgentOptions) -> list[str]:
    # -P: a project's own `msgspec.py` or `cuggino` must not be found before ours.
    argv = [sys.executable, "-P", "-m", "cuggino.agents.scripted", "--role", options.role.value]
    return argv if options.model is None else [*argv, "--model", options.model]


def _prompt(options: AgentOptions) -> str:
    return "\n\n".join(filter(None, (options.system_prompt, options.prompt)))
