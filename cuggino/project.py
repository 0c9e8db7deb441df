"""Where a project's files are."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from cuggino.errors import StorageError
from cuggino.files import write_atomic

CONFIG_NAME = ".cuggino.json"
STATE_NAME = ".cuggino"

_IGNORE = """\
# Written once by cuggino: what people share is shown to git, all else is not.
/*
!/backlog/
!/spec-issues/
!/tbd/
.*.tmp
"""


class Project(msgspec.Struct, frozen=True):
    """A project's root, absolute and without symbolic links, and the places below it."""

    root: Path

    @classmethod
    def find(cls, start: Path) -> Project:
        """The nearest folder upward from `start` that has a `.cuggino.json`, else `start`."""
        try:
            here = Path(os.path.realpath(start))
        except FileNotFoundError as error:
            raise StorageError(
                "The current directory does not exist any more.", advice="Change to one that does."
            ) from error
        for folder in (here, *here.parents):
            if os.path.lexists(folder / CONFIG_NAME):
                return cls(folder)
        return cls(here)

    @property
    def config_file(self) -> Path:
        return self.root / CONFIG_NAME

    @property
    def state_dir(self) -> Path:
        return self.root / STATE_NAME

    @property
    def backlog(self) -> Path:
        return self.state_dir / "backlog"

    @property
    def spec_issues(self) -> Path:
        return self.state_dir / "spec-issues"

    @property
    def tbd(self) -> Path:
        return self.state_dir / "tbd"

    @property
    def archive(self) -> Path:
        return self.state_dir / "archive"

    @property
    def wip(self) -> Path:
        return self.state_dir / "wip"

    @property
    def logs(self) -> Path:
        return self.state_dir / "logs"

    @property
    def spawns(self) -> Path:
        return self.state_dir / "spawns"

    @property
    def lock_file(self) -> Path:
        return self.state_dir / "lock"

    @property
    def state_file(self) -> Path:
        return self.state_dir / "state.json"

    def prepare(self) -> None:
        """Make the folders that are missing, for the person alone (0700), and `.cuggino/.gitignore` if there is none.

        What exists keeps its mode and content.
        """
        places = (self.backlog, self.spec_issues, self.tbd, self.archive, self.wip, self.logs, self.spawns)
        for folder in (self.state_dir, *places):
            try:
                folder.mkdir(0o700)
            except FileExistsError as error:
                if not folder.is_dir():
                    raise StorageError(
                        f"{folder} is not a directory, but cuggino needs one there.", advice="Move it away."
                    ) from error
            except OSError as error:
                raise StorageError(f"{folder} cannot be made: {error.strerror}.") from error
            else:
                folder.chmod(0o700)  # whatever the umask
        ignore = self.state_dir / ".gitignore"
        if not os.path.lexists(ignore):
            write_atomic(ignore, _IGNORE, mode=0o644)
