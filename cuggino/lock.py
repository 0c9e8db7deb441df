"""One loop works in a project at a time, and a crashed one's record is found by the next.

The lock is the kernel's (flock): it ends with its process, however that ends. The file's content is for
people and for the next start only: whose lock it is, and under which marker its children can be found.
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
from cuggino.process.owner import start_time
from cuggino.project import Project


class Owner(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Who holds, or left, the lock. `start_time` tells its process from a later one with the same pid."""

    pid: int
    start_time: str
    marker: str
    command: str
    since: datetime

    def lives(self) -> bool:
        return start_time(self.pid) == self.start_time


@contextmanager
def lock(project: Project, command: str, marker: str, *, file: Path | None = None) -> Iterator[Owner | None]:
    """Hold the project's lock for the block. Never waits: LockedError names the one that works here.

    `file` is another lock of the project than the one for its working tree: that of a sandbox, say.

    Yields the former owner if it died without leaving the block: what carries its marker is to be swept.
    The file is never removed or renamed, so that two processes cannot hold locks of two files with one name.
    """
    path = project.lock_file if file is None else file
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
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
    """Who holds the lock, or left it behind (`Owner.lives` tells). Only reads; None while it is being written."""
    path = project.lock_file if file is None else file
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
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
        return LockedError(f"Another cuggino works in {project.root}.", advice="Wait for its end, or stop it.")
    since = owner.since.astimezone()
    return LockedError(
        f"`{owner.command}` (process {owner.pid}) works in {project.root} since {since:%Y-%m-%d %H:%M}.",
        advice=f"Wait for its end, or stop it: Ctrl+C in its terminal, or `kill {owner.pid}`.",
    )
