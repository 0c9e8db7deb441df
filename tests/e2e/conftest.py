"""The real claude, with a home of its own: nothing of a person's is read, used or changed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_PLACES = (
    "node_modules/@anthropic-ai/claude-code-linux-*/claude",
    "node_modules/@anthropic-ai/claude-code-darwin-*/claude",
    "node_modules/.bin/claude",
)


def _find_claude() -> Path | None:
    if given := os.environ.get("CUGGINO_E2E_CLAUDE"):
        return Path(given)
    found = (path for place in _PLACES for path in sorted((ROOT / ".tools").glob(place)))
    return next(found, None)


@pytest.fixture(scope="session")
def claude() -> Path:
    """The program. Without it these tests are skipped, unless CUGGINO_E2E=1 says that they must run."""
    program = _find_claude()
    if program is not None and program.is_file():
        return program
    missing = "the real claude is not here: `just e2e` installs it and runs these tests"
    if os.environ.get("CUGGINO_E2E") == "1":
        pytest.fail(missing)
    pytest.skip(missing)


@pytest.fixture
def claude_path(claude: Path, tmp_path: Path) -> Path:
    """A folder for the front of PATH in which `claude` is this program."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "claude").symlink_to(claude)
    return folder


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
