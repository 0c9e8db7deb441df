"""A lock on a repository, for operations that git itself does not queue: worktrees, fetches, configuration, branches.

Of eight concurrent `git worktree add` some fail, and so do concurrent fetches and writes of the configuration. The lock
is a kernel lock (flock) on a file in the git directory that all worktrees share, so it holds between processes and is
released when its process ends, however that happens.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import trio

from cuggino.errors import GitError

LOCK_NAME = "cuggino.lock"
_FIRST_WAIT, _LONGEST_WAIT = 0.005, 0.05

_queues: trio.lowlevel.RunVar[dict[str, trio.Lock]] = trio.lowlevel.RunVar("queues of repositories")


@asynccontextmanager
async def repository_lock(common_dir: Path) -> AsyncIterator[None]:
    """Hold the repository's lock in the block. Wait for it without a limit; the wait can be cancelled.

    The lock is not reentrant. Tasks of one process get it in the order in which they ask.
    """
    async with _queue(common_dir):
        path = common_dir / LOCK_NAME
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise GitError(f"{path} cannot be opened: {error.strerror}.") from error
        try:
            await _flock(descriptor, path)
            yield
        finally:
            os.close(descriptor)


async def _flock(descriptor: int, path: Path) -> None:
    """Poll for the lock, since a thread that waits in flock cannot be cancelled."""
    wait = _FIRST_WAIT
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            await trio.sleep(wait)
            wait = min(2 * wait, _LONGEST_WAIT)
        except OSError as error:
            raise GitError(f"{path} cannot be locked: {error.strerror}.") from error
        else:
            return


def _queue(common_dir: Path) -> trio.Lock:
    """Return the queue of this event loop, since a program may run several in several threads."""
    try:
        queues = _queues.get()
    except LookupError:
        queues = {}
        _queues.set(queues)
    return queues.setdefault(os.path.realpath(common_dir), trio.Lock())
