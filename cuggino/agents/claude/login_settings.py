"""What of the person's own claude settings is still needed where none of them are used: the way to log in, the model.

In a sandbox claude is told to use no settings files, since what they allow would be added to what the sandbox allows.
But for some people the login, or the provider, is in `settings.json`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import msgspec

LOGIN_ENVIRONMENT = (
    *("ANTHROPIC_*", "CLAUDE_CODE_OAUTH_TOKEN", "CLAUDE_CONFIG_DIR", "CLAUDE_SECURESTORAGE_CONFIG_DIR"),
    *("CLAUDE_CODE_USE_*", "CLAUDE_CODE_SKIP_*_AUTH", "CLAUDE_CODE_CLIENT_*", "IS_SANDBOX"),
    *("CLAUDE_CODE_API_KEY_HELPER_TTL_MS", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy"),
    *("no_proxy", "NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE"),
    *("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "DISABLE_TELEMETRY", "DISABLE_ERROR_REPORTING", "DO_NOT_TRACK"),
)
"""Patterns of the variables by which claude finds its login and its provider, and by which people have it tell nobody
else of its work."""

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
    """`environment` may hold keys: it goes by the environment, and never by an argument."""

    settings: Mapping[str, Any] = {}
    environment: Mapping[str, str] = {}


def login_patterns(environment: Mapping[str, str]) -> tuple[str, ...]:
    """`LOGIN_ENVIRONMENT`, and what a cloud provider's own login needs, where that provider is chosen."""
    chosen = [more for name, more in _OF_A_PROVIDER.items() if environment.get(name, "").lower() in _TRUE]
    return tuple(dict.fromkeys((*LOGIN_ENVIRONMENT, *(pattern for more in chosen for pattern in more))))


def login_settings(environment: Mapping[str, str] | None) -> LoginSettings:
    """From the settings of the person whose HOME this is; nothing if there are none that can be read."""
    environment = os.environ if environment is None else environment
    home = environment.get("CLAUDE_CONFIG_DIR") or Path(environment.get("HOME") or Path.home()) / ".claude"
    try:
        found = msgspec.json.decode((Path(home) / "settings.json").read_bytes())
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return LoginSettings()
    if not isinstance(found, dict):
        return LoginSettings()
    named = found.get("env")
    variables = named.items() if isinstance(named, dict) else ()
    texts = {name: value for name, value in variables if isinstance(value, str)}
    patterns = login_patterns({**environment, **texts})
    return LoginSettings(
        settings={key: value for key, value in found.items() if key in _KEPT},
        environment={name: text for name, text in texts.items() if any(fnmatchcase(name, each) for each in patterns)},
    )
