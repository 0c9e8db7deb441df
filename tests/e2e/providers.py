"""Every agent's program with its model."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from cuggino.config import BackendName
from tests.e2e.claude_model import CLAUDE
from tests.e2e.codex_model import CODEX
from tests.e2e.gemini_model import GEMINI
from tests.e2e.opencode_model import OPENCODE
from tests.e2e.provider import Provider
from tests.e2e.scripted_model import SCRIPTED

PROVIDERS: Mapping[BackendName, Provider] = {
    "claude": CLAUDE,
    "codex": CODEX,
    "gemini": GEMINI,
    "opencode": OPENCODE,
    "scripted": SCRIPTED,
}


def limit_retries(name: BackendName, home: Path) -> Mapping[str, str]:
    """Make a program give up soon instead of retrying for half a minute or more: return the variables for that, and
    change its configuration in `home`."""
    match name:
        case "claude":
            return {"CLAUDE_CODE_MAX_RETRIES": "1"}
        case "codex":
            with (home / ".codex" / "config.toml").open("a") as config:  # it ends with the provider's table
                config.write("request_max_retries = 1\nstream_max_retries = 1\n")
    return {}
