"""The part of the person's own claude settings that a sandbox still needs: the way to log in, and the model.

In a sandbox claude uses no settings files, since what they allow would be added to what the sandbox allows. But some
people have their login, or their provider, in `settings.json`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import msgspec

from cuggino.agents.prerequisites import find_home, read_json

LOGIN_ENVIRONMENT = (
    *("ANTHROPIC_*", "CLAUDE_CODE_OAUTH_TOKEN", "CLAUDE_CONFIG_DIR", "CLAUDE_SECURESTORAGE_CONFIG_DIR"),
    *("CLAUDE_CODE_USE_*", "CLAUDE_CODE_SKIP_*_AUTH", "CLAUDE_CODE_CLIENT_*", "IS_SANDBOX"),
    *("CLAUDE_CODE_API_KEY_HELPER_TTL_MS", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy"),
    *("no_proxy", "NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE"),
    *("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "DISABLE_TELEMETRY", "DISABLE_ERROR_REPORTING", "DO_NOT_TRACK"),
)
"""Patterns of the variables that give claude its login and its provider, and that turn off its telemetry."""

_OF_A_PROVIDER: Mapping[str, tuple[str, ...]] = {
    "CLAUDE_CODE_USE_BEDROCK": ("AWS_*",),
    "CLAUDE_CODE_USE_MANTLE": ("AWS_*",),
    "CLAUDE_CODE_USE_ANTHROPIC_AWS": ("AWS_*",),
    "CLAUDE_CODE_USE_VERTEX": ("GOOGLE_*", "GCLOUD_*", "CLOUD_ML_REGION", "VERTEX_*", "CLOUDSDK_*"),
    "CLAUDE_CODE_USE_FOUNDRY": ("AZURE_*",),
}
_TRUE = ("1", "true", "yes", "on")

_KEPT = frozenset(
    {"apiKeyHelper", "awsAuthRefresh", "awsCredentialExport", "gcpAuthRefresh", "forceLoginMethod"}
    | {"forceLoginOrgUUID", "model"}
)


class LoginSettings(msgspec.Struct, frozen=True):
    """`environment` may hold keys, so it is passed only as environment and never as an argument."""

    settings: Mapping[str, Any] = {}
    environment: Mapping[str, str] = {}


def login_patterns(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return `LOGIN_ENVIRONMENT`, and what a cloud provider's own login needs if that provider is chosen."""
    chosen = [more for name, more in _OF_A_PROVIDER.items() if environment.get(name, "").lower() in _TRUE]
    return tuple(dict.fromkeys((*LOGIN_ENVIRONMENT, *(pattern for more in chosen for pattern in more))))


def login_settings(environment: Mapping[str, str] | None) -> LoginSettings:
    """Return these settings of the person whose HOME this is; nothing if there are none, or they are unreadable."""
    environment = os.environ if environment is None else environment
    home = Path(environment.get("CLAUDE_CONFIG_DIR") or find_home(environment) / ".claude")
    found = read_json(home / "settings.json", dict[str, Any]) or {}
    named = found.get("env")
    variables = named.items() if isinstance(named, dict) else ()
    texts = {name: value for name, value in variables if isinstance(value, str)}
    patterns = login_patterns({**environment, **texts})
    return LoginSettings(
        settings={key: value for key, value in found.items() if key in _KEPT},
        environment={name: text for name, text in texts.items() if any(fnmatchcase(name, each) for each in patterns)},
    )
