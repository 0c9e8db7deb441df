"""The real programs, with a home of their own: nothing of a person's is read, used or changed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.programs import program, programs_folder


@pytest.fixture(scope="session")
def claude() -> Path:
    """The program. Without it these tests are skipped, unless CUGGINO_E2E=1 says that they must run."""
    return program("claude")


@pytest.fixture
def claude_path(claude: Path, tmp_path: Path) -> Path:
    """A folder for the front of PATH in which `claude` is this program."""
    return programs_folder(tmp_path / "bin", "claude")


@pytest.fixture
def path_with(tmp_path: Path) -> Callable[..., Path]:
    """`path_with("codex", "gemini")`: a folder for the front of PATH in which these are the real programs."""
    return lambda *names: programs_folder(tmp_path / "bin", *names)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """An empty HOME."""
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """An empty folder to work in."""
    folder = tmp_path / "project"
    folder.mkdir()
    return folder
