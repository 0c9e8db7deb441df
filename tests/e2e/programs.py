"""The real programs below .tools, where `just e2e` installs them. A person's own ones are not used."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

TOOLS = Path(__file__).parents[2] / ".tools" / "node_modules"

_PLACES: Mapping[str, Sequence[str]] = {
    "claude": ("@anthropic-ai/claude-code-linux-*/claude", "@anthropic-ai/claude-code-darwin-*/claude", ".bin/claude"),
    "codex": (".bin/codex",),
    "gemini": (".bin/gemini",),
    "opencode": ("opencode-*-baseline/bin/opencode", "opencode-*/bin/opencode"),
}
"""claude and opencode are installed without their scripts, so that the binaries are where npm has put them, in a
package for this platform; opencode's `baseline` also runs on a processor without AVX2."""


def find_program(name: str) -> Path | None:
    if given := os.environ.get(f"CUGGINO_E2E_{name.upper()}"):
        return Path(given)
    found = (path for place in _PLACES[name] for path in sorted(TOOLS.glob(place)))
    return next((path for path in found if path.is_file()), None)


def program(name: str) -> Path:
    """Return the program. Without it the test is skipped, or fails with CUGGINO_E2E=1."""
    found = find_program(name)
    if found is not None:
        return found
    missing = f"the real {name} is not here: `just e2e` installs it and runs these tests"
    if os.environ.get("CUGGINO_E2E") == "1":
        pytest.fail(missing)
    pytest.skip(missing)


def programs_folder(folder: Path, *names: str) -> Path:
    """Return a directory, for the front of PATH, in which the names are these programs."""
    folder.mkdir(exist_ok=True)
    for name in names:
        (folder / name).symlink_to(program(name))
    return folder
