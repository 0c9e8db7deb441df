"""Whether gemini would find a login, from its environment and its files alone. That one is there does not say that the
provider takes it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import msgspec

from cuggino.agents.diagnosis import Symptom

_MEND = "gemini, then /auth    (or set GEMINI_API_KEY)"

_OAUTH = "oauth-personal"


class _Auth(msgspec.Struct):
    selectedType: str | None = None  # noqa: N815 - the file's name


class _Security(msgspec.Struct):
    auth: _Auth = msgspec.field(default_factory=_Auth)


class _Settings(msgspec.Struct):
    security: _Security = msgspec.field(default_factory=_Security)


def login(environment: Mapping[str, str], root: Path) -> Symptom:
    """By which way gemini would log in, as it decides it itself: its settings first, then the environment."""
    home = Path(environment.get("GEMINI_CLI_HOME") or environment.get("HOME") or Path.home())
    settings = home / ".gemini" / "settings.json"
    variables = {**_env_file(root, home), **{name: value for name, value in environment.items() if value}}
    selected = _selected(settings)
    way = selected or _by_environment(variables)
    match way:
        case None:
            return _unfit("gemini is not logged in, as far as its files and the environment tell")
        case "gateway":
            return _unfit(
                f"GOOGLE_GEMINI_BASE_URL is set, and {settings} does not say how to log in: gemini refuses to start",
                f'put {{"security": {{"auth": {{"selectedType": "gemini-api-key"}}}}}} into {settings}',
            )
        case "oauth-personal":
            return _google(home / ".gemini")
        case "gemini-api-key" if variables.get("GEMINI_API_KEY"):
            return _fit("GEMINI_API_KEY is set")
        case "gemini-api-key":  # gemini keeps one in the keychain, if there is any
            return _unfit(f"{settings} wants a key, and GEMINI_API_KEY is not set (a keychain is not looked at)")
        case "vertex-ai" if variables.get("GOOGLE_API_KEY"):
            return _fit("GOOGLE_API_KEY is set, for Vertex AI")
        case "vertex-ai" if variables.get("GOOGLE_CLOUD_PROJECT") and variables.get("GOOGLE_CLOUD_LOCATION"):
            return _fit("Vertex AI has a login of its own, which is not looked at")
        case "vertex-ai":
            return _unfit("for Vertex AI neither GOOGLE_API_KEY nor GOOGLE_CLOUD_PROJECT with a location is set")
    return _fit(f"`{way}` is a login of its own, which is not looked at")


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


def _google(folder: Path) -> Symptom:
    for name in ("oauth_creds.json", "gemini-credentials.json"):
        if (folder / name).is_file():
            return _fit(f"logged in with Google, by {folder / name}")
    return _unfit(f"a login with Google is wanted, and {folder} has none")


def _selected(settings: Path) -> str | None:
    try:
        return msgspec.json.decode(settings.read_bytes(), type=_Settings).security.auth.selectedType or None
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return None


def _env_file(root: Path, home: Path) -> dict[str, str]:
    """What the one `.env` that gemini would read sets."""
    folders = (*(root.absolute() / "x").parents, home)
    for path in (path for folder in folders for path in (folder / ".gemini" / ".env", folder / ".env")):
        try:
            text = path.read_text(errors="replace")
        except OSError:
            continue
        return dict(re.findall(r"^\s*(?:export\s+)?(\w+)\s*=\s*[\"']?([^\s\"']*)", text, re.MULTILINE))
    return {}


def _fit(text: str) -> Symptom:
    return Symptom(what="login", fit=True, text=text)


def _unfit(text: str, mend: str = _MEND) -> Symptom:
    return Symptom(what="login", fit=False, text=text, mend=mend)
