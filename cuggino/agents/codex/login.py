"""Whether codex would find a login, from its environment and its files alone.

It does not ask codex itself (`codex login status`). That a login is there does not say that the provider takes it.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from cuggino.agents.diagnosis import Symptom

_KEYS = ("CODEX_API_KEY", "CODEX_ACCESS_TOKEN")


class _Login(msgspec.Struct):
    api_key: str | None = msgspec.field(default=None, name="OPENAI_API_KEY")
    tokens: dict[str, Any] | None = None


def login(environment: Mapping[str, str]) -> Symptom:
    """Where codex would take its login from: a provider of the person's own has a key of its own, or none."""
    home = Path(environment.get("CODEX_HOME") or Path(environment.get("HOME") or Path.home()) / ".codex")
    config = _config(home / "config.toml")
    name = config.get("model_provider", "openai")
    providers = config.get("model_providers")
    provider = providers.get(name) if isinstance(providers, dict) else None
    if isinstance(provider, dict) and not provider.get("requires_openai_auth"):
        return _provider(environment, str(name), provider, home / "config.toml")
    if (key := next((key for key in _KEYS if environment.get(key)), None)) is not None:
        return _fit(f"{key} is set")
    found = _read(home / "auth.json")
    if found is not None and found.tokens:
        return _fit(f"logged in, by {home / 'auth.json'}")
    if found is not None and found.api_key:
        return _fit(f"a key, in {home / 'auth.json'}")
    if config.get("cli_auth_credentials_store") in ("keyring", "auto"):
        return _fit(f"in the system's keyring, as {home / 'config.toml'} says; it is not looked at")
    return _unfit("codex is not logged in, as far as its files and the environment tell")


def _provider(environment: Mapping[str, str], name: str, provider: Mapping[str, Any], config: Path) -> Symptom:
    key = provider.get("env_key")
    if not isinstance(key, str):
        return _fit(f"the provider {name}, in {config}, has a login of its own, which is not looked at")
    if environment.get(key):
        return _fit(f"{key} is set, for the provider {name}")
    return Symptom(
        what="login",
        fit=False,
        text=f"{key} is not set, which the provider {name} needs, as {config} says",
        mend=f"export {key}=…",
    )


def _config(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text())
    except (OSError, ValueError):
        return {}


def _read(path: Path) -> _Login | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=_Login)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return None


def _fit(text: str) -> Symptom:
    return Symptom(what="login", fit=True, text=text)


def _unfit(text: str) -> Symptom:
    return Symptom(what="login", fit=False, text=text, mend="codex login    (or set CODEX_API_KEY)")
