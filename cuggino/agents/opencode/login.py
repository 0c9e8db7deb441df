"""Whether opencode would find a login, from its environment and its files alone.

It does not ask opencode itself: that takes seconds, and writes to the person's home. That a login is there does not
say that the provider takes it, nor that it is the one for the model.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from cuggino.agents.diagnosis import Symptom

KEYS = (
    *("OPENCODE_API_KEY", "ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OPENROUTER_API_KEY", "GEMINI_API_KEY"),
    *("GOOGLE_GENERATIVE_AI_API_KEY", "GROQ_API_KEY", "MISTRAL_API_KEY", "DEEPSEEK_API_KEY", "XAI_API_KEY"),
    "AWS_BEARER_TOKEN_BEDROCK",
)
"""The keys of some providers; opencode knows more of them, and a configuration can name any."""

_PROVIDER = re.compile(r'"provider"\s*:\s*\{\s*"([^"]+)"')
_FILES = ("opencode.json", "opencode.jsonc", "config.json")


def login(environment: Mapping[str, str], root: Path) -> Symptom:
    """Where opencode would take its login from."""
    found = next((f"{name} is set" for name in ("OPENCODE_AUTH_CONTENT", *KEYS) if environment.get(name)), None)
    found = found or _logged_in(environment) or _configured(environment, root)
    if found is not None:
        return Symptom(what="login", fit=True, text=found)
    return Symptom(
        what="login",
        fit=False,
        text="opencode has no login and no provider of its own, as far as its files and the environment tell",
        mend="opencode auth login    (or set the key of a provider, such as ANTHROPIC_API_KEY)",
    )


def _logged_in(environment: Mapping[str, str]) -> str | None:
    path = _folder(environment, "XDG_DATA_HOME", ".local/share") / "auth.json"
    try:
        logins = msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return None
    return f"logged in to {', '.join(sorted(logins))}, by {path}" if logins else None


def _configured(environment: Mapping[str, str], root: Path) -> str | None:
    """A provider that a configuration defines. These are JSON with comments: looked through, not read."""
    content = environment.get("OPENCODE_CONFIG_CONTENT", "")
    if (found := _PROVIDER.search(content)) is not None:
        return f"the provider {found[1]}, in OPENCODE_CONFIG_CONTENT"
    folders = (_folder(environment, "XDG_CONFIG_HOME", ".config"), root)
    paths = [folder / name for folder in folders for name in _FILES]
    if given := environment.get("OPENCODE_CONFIG"):
        paths.insert(0, Path(given))
    for path in paths:
        try:
            found = _PROVIDER.search(path.read_text(errors="replace"))
        except OSError:
            continue
        if found is not None:
            return f"the provider {found[1]}, in {path}"
    return None


def _folder(environment: Mapping[str, str], variable: str, otherwise: str) -> Path:
    home = Path(environment.get("HOME") or Path.home())
    return Path(environment.get(variable) or home / otherwise) / "opencode"
