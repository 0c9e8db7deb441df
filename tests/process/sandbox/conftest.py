"""Fixtures for tests with sandboxes: an empty git configuration, repositories, and a plain worktree as a sandbox."""

from __future__ import annotations

from pathlib import Path

import pytest

from cuggino.sandbox.sandbox import Sandbox
from tests.process.sandbox.merge_house import lines, new_repository, new_sandbox, nobodys_configuration
from tests.process.sandbox.person import Person


@pytest.fixture(autouse=True)
def _nobodys_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nobodys_configuration(tmp_path, monkeypatch)


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
