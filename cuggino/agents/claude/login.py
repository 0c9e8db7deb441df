"""Whether claude would find a login and may work, from its environment and its files alone.

It does not ask claude itself (`claude auth status`): that takes a second, writes to the person's home, and may run
the program that the settings name for a key. That a login is there does not say that the provider takes it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TypeVar

import msgspec

from cuggino.agents.diagnosis import Symptom

_KEYS = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN")
_PROVIDERS = {
    "CLAUDE_CODE_USE_BEDROCK": "Amazon Bedrock",
    "CLAUDE_CODE_USE_VERTEX": "Google Vertex AI",
    "CLAUDE_CODE_USE_FOUNDRY": "Microsoft Foundry",
    "CLAUDE_CODE_USE_ANTHROPIC_AWS": "AWS",
    "CLAUDE_CODE_USE_MANTLE": "Mantle",
}
_TRUE = ("1", "true", "yes", "on")
_MANAGED = {
    "linux": Path("/etc/claude-code/managed-settings.json"),
    "darwin": Path("/Library/Application Support/ClaudeCode/managed-settings.json"),
}
_MEND = "claude auth login    (or set ANTHROPIC_API_KEY)"

_Struct = TypeVar("_Struct", bound=msgspec.Struct)


class _Tokens(msgspec.Struct, rename="camel"):
    access_token: str = ""
    refresh_token: str | None = None
    expires_at: float | None = None
    """Milliseconds since the epoch."""


class _Credentials(msgspec.Struct, rename="camel"):
    claude_ai_oauth: _Tokens | None = None


class _Account(msgspec.Struct, rename="camel"):
    email_address: str | None = None


class _State(msgspec.Struct, rename="camel"):
    primary_api_key: str | None = None
    oauth_account: _Account | None = None


class _Settings(msgspec.Struct, rename="camel"):
    api_key_helper: str | None = None
    env: dict[str, str] = {}


def login(
    environment: Mapping[str, str], root: Path, *, platform: str = sys.platform, now: float | None = None
) -> Symptom:
    """Where claude would take its login from. `now` is in seconds since the epoch."""
    return _login(_Place(environment, root, platform), time.time() if now is None else now)


def permissions(environment: Mapping[str, str], uid: int) -> Symptom | None:
    """claude does not skip permissions for root, unless it is told that root is harmless here; None for others."""
    if uid != 0:
        return None
    if environment.get("IS_SANDBOX") == "1" or environment.get("CLAUDE_CODE_BUBBLEWRAP"):
        return Symptom(what="permissions", fit=True, text="this is root, in a sandbox as the environment says")
    return Symptom(
        what="permissions",
        fit=False,
        text="claude refuses to work without asking for permissions as root",
        mend="Work as another user; in a container that is made for this: export IS_SANDBOX=1",
    )


class _Place:
    """Where claude looks."""

    def __init__(self, environment: Mapping[str, str], root: Path, platform: str) -> None:
        self.environment = environment
        self.platform = platform
        self._root = root
        self._home = Path(environment.get("HOME") or Path.home())

    @property
    def folder(self) -> Path:
        return Path(self.environment.get("CLAUDE_CONFIG_DIR") or self._home / ".claude")

    @property
    def credentials(self) -> Path:
        return Path(self.environment.get("CLAUDE_SECURESTORAGE_CONFIG_DIR") or self.folder) / ".credentials.json"

    @property
    def state(self) -> Path:
        return Path(self.environment.get("CLAUDE_CONFIG_DIR") or self._home) / ".claude.json"

    @property
    def settings(self) -> Iterator[Path]:
        if self.platform in _MANAGED:
            yield _MANAGED[self.platform]
        yield self._root / ".claude" / "settings.local.json"
        yield self._root / ".claude" / "settings.json"
        yield self.folder / "settings.json"


def _login(place: _Place, now: float) -> Symptom:
    if (found := _from_environment(place.environment)) is not None:
        return _fit(found)
    for path in place.settings:
        settings = _read(path, _Settings)
        if settings is not None:
            if (found := _from_environment(settings.env)) is not None:
                return _fit(f"{found}, in {path}")
            if settings.api_key_helper:
                return _fit(f"the program that {path} names gives a key")
    credentials = _read(place.credentials, _Credentials)
    tokens = credentials.claude_ai_oauth if credentials is not None else None
    if tokens is not None and tokens.access_token:
        if not tokens.refresh_token and tokens.expires_at is not None and tokens.expires_at / 1000 < now:
            return _unfit(f"the login in {place.credentials} has expired")
        return _fit(f"logged in, by {place.credentials}")
    state = _read(place.state, _State)
    if state is not None:
        if state.primary_api_key:
            return _fit(f"a key, in {place.state}")
        if state.oauth_account is not None and place.platform == "darwin":  # its tokens are in the keychain
            return _fit(f"logged in as {state.oauth_account.email_address or 'somebody'}, by {place.state}")
    return _unfit("claude is not logged in, as far as its files and the environment tell")


def _from_environment(environment: Mapping[str, str]) -> str | None:
    for name, provider in _PROVIDERS.items():
        if environment.get(name, "").lower() in _TRUE:
            return f"{name} is set: {provider} has a login of its own, which is not looked at"
    return next((f"{name} is set" for name in _KEYS if environment.get(name)), None)


def _read(path: Path, kind: type[_Struct]) -> _Struct | None:
    """What is of interest in one of claude's files; None if there is none, or one that cannot be read."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return None


def _fit(text: str) -> Symptom:
    return Symptom(what="login", fit=True, text=text)


def _unfit(text: str) -> Symptom:
    return Symptom(what="login", fit=False, text=text, mend=_MEND)
