"""Whether claude would find a login and may work, from its environment and its files alone.

`claude auth status` is not used: it takes a second, writes to the person's home, and may run the program that the
settings name for a key.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from cuggino.agents.prerequisites import Prerequisite, find_home, login_found, login_missing, read_json

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
_FIX = "claude auth login    (or set ANTHROPIC_API_KEY)"


class _ClaudeTokens(msgspec.Struct, rename="camel"):
    access_token: str = ""
    refresh_token: str | None = None
    expires_at: float | None = None
    """Milliseconds since the epoch."""


class _ClaudeCredentials(msgspec.Struct, rename="camel"):
    claude_ai_oauth: _ClaudeTokens | None = None


class _ClaudeAccount(msgspec.Struct, rename="camel"):
    email_address: str | None = None


class _ClaudeState(msgspec.Struct, rename="camel"):
    primary_api_key: str | None = None
    oauth_account: _ClaudeAccount | None = None


class _ClaudeSettings(msgspec.Struct, rename="camel"):
    api_key_helper: str | None = None
    env: dict[str, str] = {}


def login(
    environment: Mapping[str, str], root: Path, *, platform: str = sys.platform, now: float | None = None
) -> Prerequisite:
    """Return where claude would take its login from. `now` is in seconds since the epoch."""
    return _find_login(_ClaudeFiles(environment, root, platform), time.time() if now is None else now)


def permissions(environment: Mapping[str, str], uid: int) -> Prerequisite | None:
    """Return whether claude skips permissions for root, which it does only in a sandbox; None for other users."""
    if uid != 0:
        return None
    if environment.get("IS_SANDBOX") == "1" or environment.get("CLAUDE_CODE_BUBBLEWRAP"):
        return Prerequisite(name="permissions", met=True, text="root, in a sandbox according to the environment")
    return Prerequisite(
        name="permissions",
        met=False,
        text="claude refuses to work without asking for permissions as root",
        fix="Work as another user; in a container made for this: export IS_SANDBOX=1",
    )


class _ClaudeFiles:
    """Where claude looks for a login."""

    def __init__(self, environment: Mapping[str, str], root: Path, platform: str) -> None:
        self.environment = environment
        self.platform = platform
        self._root = root
        self._home = find_home(environment)

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


def _find_login(place: _ClaudeFiles, now: float) -> Prerequisite:
    if (found := _from_environment(place.environment)) is not None:
        return login_found(found)
    for path in place.settings:
        settings = read_json(path, _ClaudeSettings)
        if settings is not None:
            if (found := _from_environment(settings.env)) is not None:
                return login_found(f"{found}, in {path}")
            if settings.api_key_helper:
                return login_found(f"the program that {path} names provides a key")
    credentials = read_json(place.credentials, _ClaudeCredentials)
    tokens = credentials.claude_ai_oauth if credentials is not None else None
    if tokens is not None and tokens.access_token:
        if not tokens.refresh_token and tokens.expires_at is not None and tokens.expires_at / 1000 < now:
            return login_missing(f"the login in {place.credentials} has expired", _FIX)
        return login_found(f"logged in, by {place.credentials}")
    state = read_json(place.state, _ClaudeState)
    if state is not None:
        if state.primary_api_key:
            return login_found(f"a key, in {place.state}")
        if state.oauth_account is not None and place.platform == "darwin":  # with its tokens in the keychain
            return login_found(f"logged in as {state.oauth_account.email_address or 'somebody'}, by {place.state}")
    return login_missing("claude is not logged in, according to its files and the environment", _FIX)


def _from_environment(environment: Mapping[str, str]) -> str | None:
    for name, provider in _PROVIDERS.items():
        if environment.get(name, "").lower() in _TRUE:
            return f"{name} is set: {provider} has its own login, which is not checked"
    return next((f"{name} is set" for name in _KEYS if environment.get(name)), None)
