"""The codex backend: how OpenAI's Codex is started, what its lines mean, how it names its errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from cuggino.agents.agent import AgentOptions, Launch
from cuggino.agents.codex.decoder import CodexDecoder
from cuggino.agents.codex.launch import headless, interactive
from cuggino.agents.prerequisites import Prerequisite
from cuggino.events import UsageReport


class CodexBackend:
    """OpenAI's Codex, `codex` in PATH."""

    name = "codex"
    program = "codex"
    install_advice = "Install it with `npm install -g @openai/codex`, then run `codex login`."
    lacks = (
        "codex neither restricts commands nor reports denials: the commands of the manifest and of spawn.neverAllow"
        " are not enforced, and there is nothing to recover from."
    )
    version_arguments = ("--version",)
    login_environment = (
        *("CODEX_HOME", "CODEX_SQLITE_HOME", "CODEX_API_KEY", "CODEX_ACCESS_TOKEN", "CODEX_CA_CERTIFICATE"),
        *("OPENAI_*", "AZURE_OPENAI_*", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "SSL_CERT_FILE"),
    )

    def __init__(self) -> None:
        self._spent: dict[str, UsageReport] = {}
        """What each conversation has used so far: codex reports that, and not what one run has used."""

    def launch(self, options: AgentOptions) -> Launch:
        return headless(options)

    def launch_interactive(self, options: AgentOptions) -> Launch:
        return interactive(options)

    def decoder(self, options: AgentOptions) -> CodexDecoder:
        return CodexDecoder(self._spent, structured=options.schema is not None)

    def history(self, environment: Mapping[str, str], cwd: Path, session_id: str) -> Sequence[Path]:  # noqa: ARG002
        """Return the recording of the conversation, in a directory named for the day on which it began. What codex has
        of it in its databases is stored with that of others; `codex delete ID` removes it there too."""
        home = Path(environment.get("CODEX_HOME") or Path(environment.get("HOME", "~")) / ".codex")
        found = (home / "sessions").glob("*/*/*/rollout-*.jsonl*")
        return [path for path in found if path.name.partition(".")[0].endswith(f"-{session_id}")]

    def prerequisites(self, environment: Mapping[str, str], root: Path) -> Sequence[Prerequisite]:  # noqa: ARG002
        from cuggino.agents.codex.login import login

        return [login(environment)]


__all__ = ["CodexBackend"]
