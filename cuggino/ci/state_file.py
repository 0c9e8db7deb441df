"""The state file on disk. No copy is kept while something is awaited: a person may edit the file at any time."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

from cuggino.ci.state import CiState
from cuggino.ci.state_format import parse, render
from cuggino.errors import StorageError
from cuggino.files import write_atomic
from cuggino.git.run import SAFE, git_output
from cuggino.project import Project

FOLDER = "tmp"


class StateFile:
    """The file of one pull request, `tmp/ci-watch-<number>.md` in the project."""

    def __init__(self, project: Project, number: int) -> None:
        self.path = project.root / FOLDER / f"ci-watch-{number}.md"
        self._number = number
        self._last: CiState | None = None

    def load(self) -> CiState | None:
        """Return its content, or None if there is no file. Raise StorageError if it cannot be read or parsed."""
        try:
            text = self.path.read_bytes().decode("utf-8-sig")
        except FileNotFoundError:
            return None
        except UnicodeDecodeError as error:
            line = error.object[: error.start].count(b"\n") + 1
            raise StorageError(
                f"{self.path}, line {line}: not valid UTF-8.", advice="Fix or delete the file."
            ) from error
        except OSError as error:
            raise StorageError(f"{self.path} cannot be read: {error.strerror}.") from error
        self._last = parse(text, self._number, str(self.path))
        return self._last

    def save(self, state: CiState) -> CiState:
        """Replace the file atomically. Raise StorageError."""
        try:
            self.path.parent.mkdir(exist_ok=True)
        except OSError as error:
            raise StorageError(f"{self.path.parent} cannot be created: {error.strerror}.") from error
        write_atomic(self.path, render(state))
        self._last = state
        return state

    def read(self) -> CiState:
        """Return its content, or the last known content if the file was deleted in the meantime. Raise StorageError."""
        state = self.load() or self._last
        if state is None:
            raise StorageError(f"{self.path} does not exist.")
        return state

    def update(self, change: Callable[[CiState], CiState]) -> CiState:
        """Apply `change` to the current content, without an await in between: edits by a person are kept."""
        return self.save(change(self.read()))


async def exclude_from_git(project: Project, common_dir: Path) -> None:
    """Keep all state files out of `git status` and thus out of commits. Raise GitError or StorageError."""
    exclude = common_dir / "info" / "exclude"
    top = (await git_output(project.root, *SAFE, "rev-parse", "--show-toplevel")).decode(errors="surrogateescape")
    below = os.path.relpath(project.root, top.removesuffix("\n"))
    folder = "/".join(re.sub(r"([\\*?\[ ])", r"\\\1", part) for part in ("", *below.split("/"), FOLDER) if part != ".")
    wanted = [f"{folder}/ci-watch-*.md", f"{folder}/.*.tmp"]
    try:
        existing = exclude.read_text(errors="surrogateescape") if exclude.exists() else ""
        missing = [line for line in wanted if line not in existing.split("\n")]
        if missing:
            exclude.parent.mkdir(exist_ok=True)
            gap = "" if existing.endswith("\n") or not existing else "\n"
            with exclude.open("a", errors="surrogateescape") as file:
                file.write(gap + "".join(f"{line}\n" for line in missing))
    except OSError as error:
        raise StorageError(f"{exclude} cannot be written: {error.strerror}.") from error
