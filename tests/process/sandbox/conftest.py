"""Fixtures for tests with sandboxes: an empty git configuration, repositories, and a plain worktree as a sandbox."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cuggino.sandbox.sandbox import Sandbox
from tests.process.sandbox.merge_house import lines, new_repository, new_sandbox
from tests.process.sandbox.person import Person


@pytest.fixture(autouse=True)
def _nobodys_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith(("GIT_", "EMAIL", "XDG_", "GH_"))]:
        monkeypatch.delenv(name)
    home = tmp_path / "home"
    home.mkdir()
    (home / ".gitconfig").write_text("[user]\nname = Ada\nemail = ada@example.org\n[init]\ndefaultBranch = main\n")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")


@pytest.fixture
def person(tmp_path: Path) -> Person:
    return Person(tmp_path / "project")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    files = {
        "list": lines(),
        "other": lines(),
        "d/f": "a\n",
        "gone": "x\n",
        "sp äce\n": "x\n",
        "secret/kept": "as it was\n",
    }
    return new_repository(tmp_path / "a project", {**files, "picture": b"\0one"})


@pytest.fixture
def sandbox(repository: Path, tmp_path: Path) -> Sandbox:
    return new_sandbox(repository, tmp_path / "sand boxes")
