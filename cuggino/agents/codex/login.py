"""Whether codex would find a login, from its environment and its files alone. It does not ask `codex login status`."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from cuggino.agents.prerequisites import Prerequisite, find_home, login_found, login_missing, read_json

_KEYS = ("CODEX_API_KEY", "CODEX_ACCESS_TOKEN")


class _CodexLogin(msgspec.Struct):
    api_key: str | None = msgspec.field(default=None, name="OPENAI_API_KEY")
    tokens: dict[str, Any] | None = None


def login(environment: Mapping[str, str]) -> Prerequisite:
    """Return where codex would take its login from. A provider that the person configured has its own key, or none."""
    home = Path(environment.get("CODEX_HOME") or find_home(environment) / ".codex")
    config = _config(home / "config.toml")
    name = config.get("model_provider", "openai")
    providers = config.get("model_providers")
    provider = providers.get(name) if isinstance(providers, dict) else None
    if isinstance(provider, dict) and not provider.get("requires_openai_auth"):
        return _provider(environment, str(name), provider, home / "config.toml")
    if (key := next((key for key in _KEYS if environment.get(key)), None)) is not None:
        return login_found(f"{key} is set")
    found = read_json(home / "auth.json", _CodexLogin)
    if found is not None and found.tokens:
        return login_found(f"logged in, by {home / 'auth.json'}")
    if found is not None and found.api_key:
        return login_found(f"a key, in {home / 'auth.json'}")
    if config.get("cli_auth_credentials_store") in ("keyring", "auto"):
        return login_found(f"in the system's keyring, according to {home / 'config.toml'}; it is not checked")
    return login_missing(
        "codex is not logged in, according to its files and the environment",
        "codex login    (or set CODEX_API_KEY)",
    )


def _provider(environment: Mapping[str, str], name: str, provider: Mapping[str, Any], config: Path) -> Prerequisite:
    key = provider.get("env_key")
    if not isinstance(key, str):
        return login_found(f"the provider {name}, in {config}, has its own login, which is not checked")
    if environment.get(key):
        return login_found(f"{key} is set, for the provider {name}")
    return login_missing(f"{key} is not set; the provider {name} needs it, according to {config}", f"export {key}=…")


def _config(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text())
    except (OSError, ValueError):
        return {}
