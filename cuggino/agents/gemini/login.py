"""Whether gemini would find a login, from its environment and its files alone."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import msgspec

from cuggino.agents.prerequisites import Prerequisite, find_home, login_found, login_missing, read_json

_FIX = "gemini, then /auth    (or set GEMINI_API_KEY)"

_OAUTH = "oauth-personal"


class _GeminiAuth(msgspec.Struct):
    selectedType: str | None = None  # noqa: N815 - the file's name


class _GeminiSecurity(msgspec.Struct):
    auth: _GeminiAuth = msgspec.field(default_factory=_GeminiAuth)


class _GeminiSettings(msgspec.Struct):
    security: _GeminiSecurity = msgspec.field(default_factory=_GeminiSecurity)


def login(environment: Mapping[str, str], root: Path) -> Prerequisite:
    """Return how gemini would log in, decided like gemini itself does: its settings first, then the environment."""
    home = Path(environment.get("GEMINI_CLI_HOME") or find_home(environment))
    settings = home / ".gemini" / "settings.json"
    variables = {**_env_file(root, home), **{name: value for name, value in environment.items() if value}}
    way = _selected(settings) or _by_environment(variables)
    match way:
        case None:
            return login_missing("gemini is not logged in, according to its files and the environment", _FIX)
        case "gateway":
            return login_missing(
                f"GOOGLE_GEMINI_BASE_URL is set, and {settings} does not choose a login: gemini refuses to start",
                f'put {{"security": {{"auth": {{"selectedType": "gemini-api-key"}}}}}} into {settings}',
            )
        case "oauth-personal":
            return _google(home / ".gemini")
        case "gemini-api-key" if variables.get("GEMINI_API_KEY"):
            return login_found("GEMINI_API_KEY is set")
        case "gemini-api-key":  # gemini may have one in a keychain
            return login_missing(
                f"{settings} wants a key, but GEMINI_API_KEY is not set (no keychain is checked)", _FIX
            )
        case "vertex-ai" if variables.get("GOOGLE_API_KEY"):
            return login_found("GOOGLE_API_KEY is set, for Vertex AI")
        case "vertex-ai" if variables.get("GOOGLE_CLOUD_PROJECT") and variables.get("GOOGLE_CLOUD_LOCATION"):
            return login_found("Vertex AI has its own login, which is not checked")
        case "vertex-ai":
            return login_missing("Vertex AI needs GOOGLE_API_KEY, or GOOGLE_CLOUD_PROJECT with a location", _FIX)
    return login_found(f"`{way}` has its own login, which is not checked")


def _by_environment(variables: Mapping[str, str]) -> str | None:
    if variables.get("GOOGLE_GENAI_USE_GCA") == "true":
        return _OAUTH
    if variables.get("GOOGLE_GENAI_USE_VERTEXAI") == "true":
        return "vertex-ai"
    if variables.get("GOOGLE_GEMINI_BASE_URL"):
        return "gateway"
    if variables.get("GEMINI_API_KEY"):
        return "gemini-api-key"
    if variables.get("CLOUD_SHELL") == "true" or variables.get("GEMINI_CLI_USE_COMPUTE_ADC") == "true":
        return "compute-default-credentials"
    return None


def _google(folder: Path) -> Prerequisite:
    for name in ("oauth_creds.json", "gemini-credentials.json"):
        if (folder / name).is_file():
            return login_found(f"logged in with Google, by {folder / name}")
    return login_missing(f"the settings choose a login with Google, and {folder} has none", _FIX)


def _selected(settings: Path) -> str | None:
    found = read_json(settings, _GeminiSettings)
    return found.security.auth.selectedType if found is not None else None


def _env_file(root: Path, home: Path) -> dict[str, str]:
    """Return the variables of the one `.env` that gemini would read."""
    folders = (*(root.absolute() / "x").parents, home)
    for path in (path for folder in folders for path in (folder / ".gemini" / ".env", folder / ".env")):
        try:
            text = path.read_text(errors="replace")
        except OSError:
            continue
        return dict(re.findall(r"^\s*(?:export\s+)?(\w+)\s*=\s*[\"']?([^\s\"']*)", text, re.MULTILINE))
    return {}
