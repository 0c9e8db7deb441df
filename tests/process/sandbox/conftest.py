"""What tests with sandboxes have in common: nobody's git configuration, and a person's repository."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.process.sandbox.person import Person


@pytest.fixture(autouse=True)
def _nobodys_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith(("GIT_", "EMAIL", "XDG_"))]:
        monkeypatch.delenv(name)
    home = tmp_path / "home"
    home.mkdir()
    (home / ".gitconfig").write_text("[user]\nname = Ada\nemail = ada@example.org\n[init]\ndefaultBranch = main\n")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")


@pytest.fixture
def person(tmp_path: Path) -> Person:
    return Person(tmp_path / "project")
