"""Where things are in a project, and how files are written so that a crash leaves none half done.

Everything is synchronous and small: the files are, and the virtual clock of tests must not jump meanwhile.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from cuggino.errors import StorageError

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

LOGS_KEPT = 100
LOG_DAYS = 30


class Project(msgspec.Struct, frozen=True):
    """A project's root, absolute and without symbolic links, and the places below it."""

    root: Path

    @classmethod
    def find(cls, start: Path) -> Project:
        """The nearest folder upward from `start` that has a `.cuggino.json`, else `start`."""
        try:
            here = Path(os.path.realpath(start))
        except FileNotFoundError as error:
            raise StorageError("The current folder does not exist any more.", advice="Go to one that does.") from error
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
                        f"{folder} is no folder, but cuggino needs one there.", advice="Move it away."
                    ) from error
            except OSError as error:
                raise StorageError(f"{folder} cannot be made: {error.strerror}.") from error
            else:
                folder.chmod(0o700)  # whatever the umask
        ignore = self.state_dir / ".gitignore"
        if not os.path.lexists(ignore):
            write_whole(ignore, _IGNORE, mode=0o644)


SPOILED = (msgspec.DecodeError, ValueError, RecursionError)
"""What decoding a file raises that is not as it was written: invalid UTF-8 is a ValueError."""

# ---- files ------------------------------------------------------------------------------------


def write_whole(path: Path, data: bytes | str, *, mode: int = 0o600) -> None:
    """Replace the file at `path`: afterwards, and after any crash, it is the old one or all of `data`, with `mode`.

    Goes through a temporary file with a leading dot in the same folder; when it fails, however it fails,
    nothing is left of that. A symbolic link stays, and the file that it leads to is replaced. StorageError.
    """
    try:
        target = Path(os.path.realpath(path)) if path.is_symlink() else path
        temporary = target.with_name(f".{uuid7()}.tmp")
        try:
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            try:
                os.fchmod(descriptor, mode)
                _write_all(descriptor, data)
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            temporary.replace(target)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        sync_folder(target.parent)
    except OSError as error:
        raise StorageError(f"{path} cannot be written: {error.strerror}.") from error


def append(path: Path, data: bytes | str, *, mode: int = 0o600) -> None:
    """Append `data` in one write, which others' appends do not split; `mode` if the file is new. StorageError."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, mode)
        try:
            _write_all(descriptor, data)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise StorageError(f"{path} cannot be appended to: {error.strerror}.") from error


def sync_folder(folder: Path) -> None:
    """Make renames and removals in `folder` last. Nothing on file systems that cannot do it for folders."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(descriptor)


def _write_all(descriptor: int, data: bytes | str) -> None:
    """A disk that fills up writes a part first. Half surrogate pairs, which no file can hold, become escapes."""
    rest = memoryview(data.encode("utf-8", "backslashreplace") if isinstance(data, str) else data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


# ---- names ------------------------------------------------------------------------------------

_last_payload = 0


def uuid7() -> str:
    """A new UUIDv7. Later ones of this process sort after earlier ones, whatever the clock does. For one thread."""
    global _last_payload
    milliseconds = time.time_ns() // 1_000_000
    payload = milliseconds << 74 | int.from_bytes(os.urandom(10)) >> 6  # 48 bits of time, 74 of chance
    _last_payload = payload = max(payload, _last_payload + 1)
    value = payload >> 74 << 80 | 0x7 << 76 | (payload >> 62 & 0xFFF) << 64 | 0b10 << 62 | payload & (1 << 62) - 1
    text = f"{value:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


# ---- logs -------------------------------------------------------------------------------------


@contextmanager
def living_log(project: Project) -> Iterator[Path]:
    """A new log, `logs/<uuid7>.jsonl`, 0600, empty. `prune_logs` leaves it alone for the length of the block."""
    path = project.logs / f"{uuid7()}.jsonl"
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StorageError(f"{path} cannot be written: {error.strerror}.") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        yield path
    finally:
        os.close(descriptor)


def prune_logs(project: Project, now: float) -> None:
    """Remove the logs beyond the newest 100, and those last written more than 30 days before `now` (seconds, UNIX).

    The log of a living process stays; one that cannot be removed stays, too: that is no reason to stop work.
    """
    newest_first = sorted(project.logs.glob("*.jsonl"), reverse=True)
    for rank, path in enumerate(newest_first):
        with contextlib.suppress(OSError):
            if rank < LOGS_KEPT and path.stat().st_mtime >= now - LOG_DAYS * 86400:
                continue
            with path.open("rb") as log:
                fcntl.flock(log, fcntl.LOCK_EX | fcntl.LOCK_NB)
                path.unlink()
