"""Whether gemini would find a login."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cuggino.agents.gemini import GeminiBackend


def fit(home: Path, **environment: str) -> bool:
    [found] = GeminiBackend().prerequisites({"HOME": str(home), **environment}, home / "project")
    assert found.name == "login"
    assert found.met or found.fix
    return found.met


def choose(home: Path, way: str) -> None:
    (home / ".gemini").mkdir()
    (home / ".gemini" / "settings.json").write_text(json.dumps({"security": {"auth": {"selectedType": way}}}))


@pytest.mark.parametrize(
    ("environment", "is_fit"),
    [
        ({}, False),
        ({"GEMINI_API_KEY": ""}, False),
        ({"GEMINI_API_KEY": "k"}, True),
        ({"GEMINI_API_KEY": "k", "GOOGLE_GEMINI_BASE_URL": "http://127.0.0.1:1"}, False),
        ({"GOOGLE_GENAI_USE_VERTEXAI": "true"}, False),
        ({"GOOGLE_GENAI_USE_VERTEXAI": "true", "GOOGLE_API_KEY": "k"}, True),
        ({"GOOGLE_GENAI_USE_VERTEXAI": "true", "GOOGLE_CLOUD_PROJECT": "p", "GOOGLE_CLOUD_LOCATION": "l"}, True),
        ({"GOOGLE_GENAI_USE_GCA": "true"}, False),
        ({"CLOUD_SHELL": "true"}, True),
    ],
)
def test_the_environment_alone(tmp_path: Path, environment: dict[str, str], is_fit: bool) -> None:
    assert fit(tmp_path, **environment) is is_fit


def test_a_login_with_google_has_a_file(tmp_path: Path) -> None:
    choose(tmp_path, "oauth-personal")
    assert not fit(tmp_path, GEMINI_API_KEY="not asked for")
    (tmp_path / ".gemini" / "oauth_creds.json").write_text("{}")
    assert fit(tmp_path)


def test_what_the_settings_choose_holds(tmp_path: Path) -> None:
    choose(tmp_path, "gemini-api-key")
    assert not fit(tmp_path)
    assert fit(tmp_path, GEMINI_API_KEY="k", GOOGLE_GEMINI_BASE_URL="http://127.0.0.1:1")


def test_a_key_may_stand_in_an_env_file(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text('export GEMINI_API_KEY="k"\n')
    assert fit(tmp_path)


def test_settings_that_are_not_json_are_ignored(tmp_path: Path) -> None:
    (tmp_path / ".gemini").mkdir()
    (tmp_path / ".gemini" / "settings.json").write_bytes(b"\xff{")
    assert not fit(tmp_path)
