"""The project's lock: one command works in a project at a time, and finds out whether the one before it crashed.

The kernel holds the lock (flock), so it ends with its process. The file's content is only for people and for the next
command: who holds the lock, and the marker by which the holder's child processes can be found.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from cuggino.errors import LockedError, StorageError
from cuggino.files import DECODE_ERRORS
from cuggino.process.leftovers import start_time
from cuggino.project import Project

_PLAIN = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
"""A link is an error, and a named pipe does not block."""


class Owner(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Who holds or held the lock. `start_time` distinguishes its process from a later one with the same PID."""

    pid: int
    start_time: str
    marker: str
    command: str
    since: datetime

    def lives(self) -> bool:
        return start_time(self.pid) == self.start_time


@contextmanager
def lock(project: Project, command: str, marker: str, *, file: Path | None = None) -> Iterator[Owner | None]:
    """Hold the project's lock while the block runs. Raise LockedError, which names the holder, instead of waiting.

    `file` is another lock than the one of the working tree, such as that of a sandbox. Yields the former owner if it
    died inside the block: processes with its marker may be left.
    """
    path = project.lock_file if file is None else file  # never deleted: two processes could lock two files of one name
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | _PLAIN, 0o600)
    except OSError as error:
        raise StorageError(f"{path} cannot be opened: {error.strerror}.") from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise _locked(project, _read(descriptor)) from error
        except OSError as error:
            raise StorageError(f"{path} cannot be locked: {error.strerror}.") from error
        former = _read(descriptor)
        try:
            _write_ours(descriptor, command, marker)
        except OSError as error:
            raise StorageError(f"{path} cannot be written: {error.strerror}.") from error
        try:
            yield former
        finally:
            os.ftruncate(descriptor, 0)
    finally:
        os.close(descriptor)


def read_owner(project: Project, *, file: Path | None = None) -> Owner | None:
    """Return who holds the lock or died with it (see `Owner.lives`); None while it is free or being written."""
    path = project.lock_file if file is None else file
    try:
        descriptor = os.open(path, os.O_RDONLY | _PLAIN)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error.strerror}.") from error
    try:
        return _read(descriptor)
    finally:
        os.close(descriptor)


def _read(descriptor: int) -> Owner | None:
    try:
        return msgspec.json.decode(os.pread(descriptor, 65536, 0), type=Owner)
    except DECODE_ERRORS:
        return None


def _write_ours(descriptor: int, command: str, marker: str) -> None:
    pid = os.getpid()
    now = datetime.now(UTC).replace(microsecond=0)
    owner = Owner(pid=pid, start_time=start_time(pid) or "", marker=marker, command=command, since=now)
    record = msgspec.json.encode(owner)
    os.pwrite(descriptor, record, 0)
    os.ftruncate(descriptor, len(record))


def _locked(project: Project, owner: Owner | None) -> LockedError:
    if owner is None or not owner.lives():  # the holder has not written its record yet
        return LockedError(f"Another cuggino works in {project.root}.", advice="Wait for it to end, or stop it.")
    since = owner.since.astimezone()
    return LockedError(
        f"`{owner.command}` (process {owner.pid}) has been working in {project.root} since {since:%Y-%m-%d %H:%M}.",
        advice=f"Wait for it to end, or stop it: Ctrl+C in its terminal, or `kill {owner.pid}`.",
    )
