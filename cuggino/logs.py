"""A project's log files: a new one for each command, and the old ones deleted."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from cuggino.clock import uuid7
from cuggino.errors import StorageError
from cuggino.project import Project

LOGS_KEPT = 100
DAYS_KEPT = 30


@contextmanager
def open_log(project: Project) -> Iterator[Path]:
    """Create an empty log, `logs/<uuid7>.jsonl`, mode 0600. `prune_logs` keeps it while the block runs."""
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
    """Delete all logs except the newest 100, and those last written more than 30 days before `now` (UNIX seconds).

    Keeps the logs of living processes, and any that cannot be deleted: those are not a reason to stop.
    """
    newest_first = sorted(project.logs.glob("*.jsonl"), reverse=True)
    for rank, path in enumerate(newest_first):
        with suppress(OSError):
            if rank < LOGS_KEPT and path.lstat().st_mtime >= now - DAYS_KEPT * 86400:
                continue
            log = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
            try:
                fcntl.flock(log, fcntl.LOCK_EX | fcntl.LOCK_NB)
                path.unlink()
            finally:
                os.close(log)
