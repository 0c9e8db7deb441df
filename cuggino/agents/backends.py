"""Names in the configuration → backends. Each module is imported only when its agent is used."""

from __future__ import annotations

from cuggino.agents.agent import Backend
from cuggino.config import BackendName


def backend(name: BackendName) -> Backend:
    """The backend of this name."""
    match name:
        case "claude":
            from cuggino.agents.claude import ClaudeBackend

            return ClaudeBackend()
        case "codex":
            from cuggino.agents.codex import CodexBackend

            return CodexBackend()
        case "gemini":
            from cuggino.agents.gemini import GeminiBackend

            return GeminiBackend()
        case "opencode":
            from cuggino.agents.opencode import OpencodeBackend

            return OpencodeBackend()
        case "scripted":
            from cuggino.agents.scripted.backend import ScriptedBackend

            return ScriptedBackend()
