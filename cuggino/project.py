"""Where a project's files are."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import msgspec

from cuggino.errors import StorageError
from cuggino.files import expect_directory, expect_file, write_atomic

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
        """The nearest folder upward from `start` that has a `.cuggino.json`, else `start`.

        The search ends at a git repository's root, at HOME, at another file system, and below a folder in which
        everyone may create files, such as /tmp.
        """
        try:
            here = Path(os.path.realpath(start))
        except FileNotFoundError as error:
            raise StorageError(
                "The current directory does not exist any more.", advice="Change to one that does."
            ) from error
        home = os.path.realpath(os.path.expanduser("~"))  # noqa: PTH111 - Path.home raises where there is none
        device = here.stat().st_dev
        for folder in (here, *here.parents):
            status = folder.stat()
            if status.st_dev != device or (folder != here and status.st_mode & stat.S_IWOTH):
                break
            if os.path.lexists(folder / CONFIG_NAME):
                return cls(folder)
            if str(folder) == home or os.path.lexists(folder / ".git"):
                break
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

        What exists keeps its mode and content. Raise what `check` raises, before anything is made.
        """
        self.check()
        for folder in (self.state_dir, *self._folders()):
            try:
                folder.mkdir(0o700)
            except FileExistsError:
                continue
            except OSError as error:
                raise StorageError(f"{folder} cannot be made: {error.strerror}.") from error
            folder.chmod(0o700)  # whatever the umask
        ignore = self.state_dir / ".gitignore"
        if not os.path.lexists(ignore):
            write_atomic(ignore, _IGNORE, mode=0o644)

    def check(self) -> None:
        """Raise StorageError if anything but a directory or a file of cuggino's is in the place of one.

        Whoever writes the tree could make it a link to anywhere. Only `.cuggino` itself may be one, if it belongs to
        the person. Nothing is opened, made or changed.
        """
        if self.state_dir.is_symlink():
            if self.state_dir.lstat().st_uid != os.geteuid():
                raise StorageError(
                    f"{self.state_dir} is a symbolic link that belongs to another user.", advice="Delete it."
                )
            expect_directory(Path(os.path.realpath(self.state_dir)))
        elif not expect_directory(self.state_dir):
            return
        for folder in self._folders():
            expect_directory(folder)
        for file in (self.lock_file, self.state_file, self.state_dir / ".gitignore"):
            expect_file(file)

    def _folders(self) -> tuple[Path, ...]:
        return (self.backlog, self.spec_issues, self.tbd, self.archive, self.wip, self.logs, self.spawns)
