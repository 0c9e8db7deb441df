"""Whether opencode would find a login."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cuggino.agents.opencode import OpencodeBackend
from cuggino.agents.opencode.login import login
from cuggino.agents.prerequisites import Prerequisite

CONFIG = '{\n  // mine\n  "provider": { "local": {"npm": "x"} },\n}\n'


def look(home: Path, **environment: str) -> Prerequisite:
    return login({"HOME": str(home), **environment}, home / "project")


def test_the_backend_can_be_asked(tmp_path: Path) -> None:
    backend = OpencodeBackend()
    [found] = backend.prerequisites({"HOME": str(tmp_path)}, tmp_path)
    assert not found.met
    assert "opencode auth login" in found.fix


@pytest.mark.parametrize("name", ["ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OPENCODE_AUTH_CONTENT"])
def test_a_key_in_the_environment(tmp_path: Path, name: str) -> None:
    assert look(tmp_path, **{name: "secret"}) == Prerequisite(name="login", met=True, text=f"{name} is set")
    assert not look(tmp_path, **{name: ""}).met


@pytest.mark.parametrize("variable", ["", "XDG_DATA_HOME"])
def test_a_login_in_its_file(tmp_path: Path, variable: str) -> None:
    data = tmp_path / "data" if variable else tmp_path / ".local" / "share"
    path = data / "opencode" / "auth.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"openai": {"type": "oauth"}, "anthropic": {"type": "api", "key": "secret"}}))
    found = look(tmp_path, **({variable: str(data)} if variable else {}))
    assert found.text == f"logged in to anthropic, openai, by {path}"
    path.write_text("{}")
    assert not look(tmp_path, **({variable: str(data)} if variable else {})).met


@pytest.mark.parametrize("place", [".config/opencode/opencode.jsonc", "project/opencode.json", "given.json"])
def test_a_provider_in_a_configuration(tmp_path: Path, place: str) -> None:
    (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / place).write_text(CONFIG)
    found = look(tmp_path, OPENCODE_CONFIG=str(tmp_path / "given.json"))
    assert found.text == f"the provider local, in {tmp_path / place}"


def test_a_provider_in_the_environment(tmp_path: Path) -> None:
    assert look(tmp_path, OPENCODE_CONFIG_CONTENT=CONFIG).text == "the provider local, in OPENCODE_CONFIG_CONTENT"


@pytest.mark.parametrize("content", [b"", b"[]", b"\xff", b'{"model": "x/y"}'])
def test_files_without_a_login(tmp_path: Path, content: bytes) -> None:
    for place in (".config/opencode/opencode.json", ".local/share/opencode/auth.json"):
        (tmp_path / place).parent.mkdir(parents=True)
        (tmp_path / place).write_bytes(content if "config" in place or content != b'{"model": "x/y"}' else b"")
    assert not look(tmp_path).met
