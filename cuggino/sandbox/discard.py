"""Taking a sandbox away, whatever is in it, and whatever of it is left: who calls this has looked.

Every step can be done again, and the last thing to go is what the others are found by.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import trio

from cuggino.errors import GitError, SandboxError
from cuggino.git.locked import repository_lock
from cuggino.git.run import SAFE, git_output, run_git
from cuggino.sandbox.sandbox import Sandbox


async def discard(sandbox: Sandbox, *, tip: str | None) -> None:
    """Remove the folder, git's knowledge of it, and the branch if it still is at `tip` and nobody else has it checked
    out. SandboxError if something cannot be removed; it can be tried again."""
    for folder in (sandbox.folder, sandbox.jail_home):
        await trio.to_thread.run_sync(_delete, folder, abandon_on_cancel=False)
    with contextlib.suppress(OSError):
        sandbox.folder.parent.rmdir()  # if it was the last one
    async with repository_lock(sandbox.common_dir):
        if sandbox.git_dir.is_dir():
            await _forget(sandbox)
        if sandbox.branch is not None and tip is not None and not await _checked_out(sandbox):
            ref = f"refs/heads/{sandbox.branch}"
            known = await run_git(sandbox.common_dir, *SAFE, "rev-parse", "--verify", "--quiet", ref)
            if known.stdout.decode().strip() == tip:
                await git_output(sandbox.common_dir, *SAFE, "update-ref", "-d", ref, tip)


async def _forget(sandbox: Sandbox) -> None:
    """By its name, which is unique: its folder is gone, and may have been for long."""
    if sandbox.git_dir.parent.name != "worktrees" or sandbox.git_dir.name != sandbox.id:
        raise SandboxError(f"{sandbox.git_dir} is not this sandbox's own git directory.")
    try:
        await git_output(sandbox.common_dir, *SAFE, "worktree", "remove", "--force", "--force", sandbox.id)
    except GitError:
        await trio.to_thread.run_sync(_delete, sandbox.git_dir, abandon_on_cancel=False)  # it was half made


async def _checked_out(sandbox: Sandbox) -> bool:
    listed = await git_output(sandbox.common_dir, *SAFE, "worktree", "list", "--porcelain", "-z")
    return f"branch refs/heads/{sandbox.branch}".encode() in listed.split(b"\0")


def _delete(folder: Path) -> None:
    """With all below; no link is followed. Folders that nobody may write to, as caches have them, are made writable."""
    if folder.is_symlink():
        folder.unlink()
        return

    def again(function: Callable[[str], Any], path: str, error: BaseException) -> None:
        if isinstance(error, FileNotFoundError):
            return
        for place in (Path(path).parent, Path(path)):
            if place.is_dir() and not place.is_symlink() and place.is_relative_to(folder):
                place.chmod(stat.S_IRWXU)
        if function in (os.unlink, os.rmdir):
            function(path)
        else:
            shutil.rmtree(path)

    try:
        if sys.version_info >= (3, 12):
            shutil.rmtree(folder, onexc=again)
        else:
            shutil.rmtree(folder, onerror=lambda function, path, info: again(function, path, info[1]))
    except OSError as error:
        raise SandboxError(f"{error.filename or folder} cannot be removed: {error.strerror}.") from error
