"""The opencode backend: how opencode is started, what its lines mean, how it names its errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from cuggino.agents.agent import AgentOptions, Launch
from cuggino.agents.opencode.decoder import OpencodeDecoder
from cuggino.agents.opencode.launch import headless, interactive
from cuggino.agents.opencode.login import KEYS
from cuggino.agents.prerequisites import Prerequisite


class OpencodeBackend:
    """opencode, `opencode` in PATH."""

    name = "opencode"
    program = "opencode"
    install_advice = "Install it with `npm install -g opencode-ai`, then run `opencode auth login`."
    lacks = ""
    version_arguments: tuple[str, ...] = ()  # it takes seconds, and writes into the home directory
    login_environment = (
        *KEYS,
        *("OPENCODE_CONFIG*", "OPENCODE_AUTH_CONTENT", "OPENCODE_MODELS_*", "OPENCODE_DISABLE_*"),
        *("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME"),
        *("AWS_*", "AZURE_*", "GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_CLOUD_PROJECT", "VERTEX_LOCATION"),
        *("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "NODE_EXTRA_CA_CERTS"),
    )

    def launch(self, options: AgentOptions) -> Launch:
        return headless(options)

    def launch_interactive(self, options: AgentOptions) -> Launch:
        return interactive(options)

    def decoder(self, options: AgentOptions) -> OpencodeDecoder:  # noqa: ARG002 - lines mean the same in every run
        return OpencodeDecoder()

    def history(self, environment: Mapping[str, str], cwd: Path, session_id: str) -> Sequence[Path]:  # noqa: ARG002
        """Return nothing: opencode keeps all conversations in one database."""
        return ()

    def prerequisites(self, environment: Mapping[str, str], root: Path) -> Sequence[Prerequisite]:
        from cuggino.agents.opencode.login import login

        return (login(environment, root),)


__all__ = ["OpencodeBackend"]
