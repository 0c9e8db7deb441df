"""The state file on disk. Nothing of it is held in memory while something is waited for: a person may edit it."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

from cuggino.ci.state import State, parse, render
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
        self._last: State | None = None

    def load(self) -> State | None:
        """What it holds; None: there is none. StorageError if it cannot be understood."""
        try:
            text = self.path.read_bytes().decode("utf-8-sig")
        except FileNotFoundError:
            return None
        except UnicodeDecodeError as error:
            line = error.object[: error.start].count(b"\n") + 1
            raise StorageError(f"{self.path}, line {line}: it is no UTF-8.", advice="Mend or remove it.") from error
        except OSError as error:
            raise StorageError(f"{self.path} cannot be read: {error.strerror}.") from error
        self._last = parse(text, self._number, str(self.path))
        return self._last

    def save(self, state: State) -> State:
        """Replace it, whole or not at all."""
        try:
            self.path.parent.mkdir(exist_ok=True)
        except OSError as error:
            raise StorageError(f"{self.path.parent} cannot be made: {error.strerror}.") from error
        write_atomic(self.path, render(state))
        self._last = state
        return state

    def read(self) -> State:
        """What it holds now; what it held, if it was removed meanwhile."""
        state = self.load() or self._last
        if state is None:
            raise StorageError(f"{self.path} is not there.")
        return state

    def update(self, change: Callable[[State], State]) -> State:
        """Change what it holds now. No await is in between: an edit by hand is kept."""
        return self.save(change(self.read()))


async def hide(project: Project, common_dir: Path) -> None:
    """Keep the files of all watches out of `git status`, and so out of commits. GitError, StorageError."""
    exclude = common_dir / "info" / "exclude"
    top = (await git_output(project.root, *SAFE, "rev-parse", "--show-toplevel")).decode(errors="surrogateescape")
    below = os.path.relpath(project.root, top.removesuffix("\n"))
    folder = "/".join(re.sub(r"([\\*?\[ ])", r"\\\1", part) for part in ("", *below.split("/"), FOLDER) if part != ".")
    wanted = [f"{folder}/ci-watch-*.md", f"{folder}/.*.tmp"]
    try:
        there = exclude.read_text(errors="surrogateescape") if exclude.exists() else ""
        missing = [line for line in wanted if line not in there.split("\n")]
        if missing:
            exclude.parent.mkdir(exist_ok=True)
            gap = "" if there.endswith("\n") or not there else "\n"
            with exclude.open("a", errors="surrogateescape") as file:
                file.write(gap + "".join(f"{line}\n" for line in missing))
    except OSError as error:
        raise StorageError(f"{exclude} cannot be written: {error.strerror}.") from error
