"""Names in the configuration → backends. Each module is imported only when its agent is used."""

from __future__ import annotations

from cuggino.agents.agent import Backend
from cuggino.config import BackendName
from cuggino.errors import ConfigError


def backend(name: BackendName) -> Backend:
    """The backend of this name. Raises ConfigError for one that this version cannot start."""
    match name:
        case "claude":
            from cuggino.agents.claude import ClaudeBackend

            return ClaudeBackend()
        case "scripted":
            from cuggino.agents.scripted.backend import ScriptedBackend

            return ScriptedBackend()
        case _:
            raise ConfigError(
                f"The agent `{name}` cannot be started by this version of cuggino.",
                advice="Set `agent` in .cuggino.json to `claude` or `scripted`.",
            )
