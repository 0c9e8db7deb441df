"""The gemini backend: how Google's Gemini CLI is started, what its lines mean, how it names its errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from cuggino.agents.agent import AgentOptions, Launch
from cuggino.agents.gemini.decoder import GeminiDecoder
from cuggino.agents.gemini.launch import headless, interactive, policy_file
from cuggino.agents.gemini.policy import policy
from cuggino.agents.prerequisites import Prerequisite, find_home


class GeminiBackend:
    """Gemini CLI, `gemini` in PATH."""

    name = "gemini"
    program = "gemini"
    install_advice = "Install it with `npm install -g @google/gemini-cli`, then run `gemini` once and log in."
    lacks = ""
    version_arguments: tuple[str, ...] = ()  # it takes seconds, and writes into the home directory
    login_environment = (
        *("GEMINI_API_KEY", "GOOGLE_*", "GEMINI_CLI_HOME", "GEMINI_DEFAULT_AUTH_TYPE", "GEMINI_FORCE_*"),
        *("CODE_ASSIST_ENDPOINT", "CLOUD_SHELL", "GEMINI_CLI_USE_COMPUTE_ADC", "CLOUDSDK_*"),
        *("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy", "NODE_EXTRA_CA_CERTS"),
    )

    def launch(self, options: AgentOptions) -> Launch:
        """See `Backend.launch`. gemini accepts a policy only as a file."""
        rules = policy(options)
        launch = headless(options)
        return launch if rules is None else msgspec.structs.replace(launch, files={policy_file(options): rules})

    def launch_interactive(self, options: AgentOptions) -> Launch:
        return interactive(options)

    def decoder(self, options: AgentOptions) -> GeminiDecoder:  # noqa: ARG002 - lines mean the same in every run
        return GeminiDecoder()

    def history(self, environment: Mapping[str, str], cwd: Path, session_id: str) -> Sequence[Path]:  # noqa: ARG002
        """Return the chats, whose names have eight characters of the ID and the minute (each turn may have begun
        another), and what has the whole ID in its name. All projects are searched: gemini chooses a project's directory
        by itself, and keeps its name when the project's changes."""
        home = Path(environment.get("GEMINI_CLI_HOME") or find_home(environment))
        if len(session_id) < 8 or not session_id.replace("-", "").replace("_", "").isalnum():
            return ()
        names = (
            f"chats/session-*-{session_id[:8]}.json*",
            f"chats/{session_id}",
            session_id,
            f"logs/session-{session_id}.jsonl",
            f"tool-outputs/session-{session_id}",
        )
        return [path for name in names for path in sorted((home / ".gemini" / "tmp").glob(f"*/{name}"))]

    def prerequisites(self, environment: Mapping[str, str], root: Path) -> Sequence[Prerequisite]:
        from cuggino.agents.gemini.login import login

        return [login(environment, root)]


__all__ = ["GeminiBackend"]
