"""Whether opencode would find a login, from its environment and its files alone.

opencode itself is not asked: that takes seconds, and writes to the person's home. The login that is found may be for
another provider than the model's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cuggino.agents.prerequisites import Prerequisite, find_home, login_found, login_missing, read_json

KEYS = (
    *("OPENCODE_API_KEY", "ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OPENROUTER_API_KEY", "GEMINI_API_KEY"),
    *("GOOGLE_GENERATIVE_AI_API_KEY", "GROQ_API_KEY", "MISTRAL_API_KEY", "DEEPSEEK_API_KEY", "XAI_API_KEY"),
    "AWS_BEARER_TOKEN_BEDROCK",
)
"""The keys of some providers; opencode knows more, and a configuration can name any."""

_PROVIDER = re.compile(r'"provider"\s*:\s*\{\s*"([^"]+)"')
_FILES = ("opencode.json", "opencode.jsonc", "config.json")


def login(environment: Mapping[str, str], root: Path) -> Prerequisite:
    """Return where opencode would take its login from."""
    found = next((f"{name} is set" for name in ("OPENCODE_AUTH_CONTENT", *KEYS) if environment.get(name)), None)
    found = found or _logged_in(environment) or _configured(environment, root)
    if found is not None:
        return login_found(found)
    return login_missing(
        "opencode has no login and no configured provider, according to its files and the environment",
        "opencode auth login    (or set the key of a provider, such as ANTHROPIC_API_KEY)",
    )


def _logged_in(environment: Mapping[str, str]) -> str | None:
    path = _folder(environment, "XDG_DATA_HOME", ".local/share") / "auth.json"
    logins = read_json(path, dict[str, Any])
    return f"logged in to {', '.join(sorted(logins))}, by {path}" if logins else None


def _configured(environment: Mapping[str, str], root: Path) -> str | None:
    """Return a provider that a configuration defines. These are JSON with comments: searched, not decoded."""
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
    return Path(environment.get(variable) or find_home(environment) / otherwise) / "opencode"
