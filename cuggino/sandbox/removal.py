"""Remove a sandbox; unless forced, never uncommitted work, and never a commit that exists nowhere else.

The decision is stored before the first step, so that a later command finishes a removal that was killed. Commits that
reached the branch since then stay.
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
from cuggino.project import Project
from cuggino.sandbox import copies
from cuggino.sandbox.git import filters_off, resolve
from cuggino.sandbox.inspect import inspecting
from cuggino.sandbox.records import SandboxRecord, SandboxStage, find, save
from cuggino.sandbox.sandbox import Sandbox

_SHOWN = 10


async def remove(project: Project, sandbox: Sandbox, *, force: bool) -> None:
    """Remove folder, worktree and branch; the record stays, as removed.

    Unless `force` is set, raise SandboxError before anything is removed if work is uncommitted, or is neither pushed
    nor on another branch, or if git cannot say whether that is so. What is left of a sandbox that was partly made,
    partly removed, or whose folder was deleted by hand, is removed.
    """
    record = find(project, sandbox.id)
    if record is not None and record.stage is SandboxStage.REMOVING:
        record = await finish_removal(project, sandbox, tip=record.tip)
        if record.stage is SandboxStage.REMOVED:
            return
    tip = await _branch_tip(sandbox)
    if not force and not (record is not None and record.stage is SandboxStage.MAKING):
        head = await _head(sandbox)
        if head is None and _has_files(sandbox.folder):
            raise SandboxError(
                f"What the sandbox {sandbox.id} has cannot be compared: its git directory {sandbox.git_dir} is missing "
                "or damaged. Was the repository moved?",
                advice=f"Its files are in {sandbox.folder}; --force removes them.",
            )
        if changes := await uncommitted(sandbox):
            names = ", ".join(changes[:_SHOWN]) + (f" and {len(changes) - _SHOWN} more" if changes[_SHOWN:] else "")
            raise SandboxError(
                f"The sandbox {sandbox.id} has changes that are not committed: {names}.",
                advice=f"They are in {sandbox.folder}; --force removes them.",
            )
        for commit in {tip, head} - {None}:
            if not await is_elsewhere(sandbox, str(commit)):
                raise SandboxError(
                    f"The work of the sandbox {sandbox.id} is neither pushed nor merged: {sandbox.branch or commit}.",
                    advice="Push or merge it; --force removes it.",
                )
    await finish_removal(project, sandbox, tip=tip)


async def finish_removal(project: Project, sandbox: Sandbox, *, tip: str | None) -> SandboxRecord:
    """Remove the sandbox without further checks, and its branch if that is at `tip`; with None the branch stays.

    Return the new record. Can be repeated: the decision is stored first.
    """
    save(project, sandbox, SandboxStage.REMOVING, tip=tip)
    await remove_tree(sandbox, tip=tip)
    stays = tip is None and await _branch_tip(sandbox) is not None
    return save(project, sandbox, SandboxStage.INTEGRATED if stays else SandboxStage.REMOVED)


async def uncommitted(sandbox: Sandbox) -> list[str]:
    """Return the paths of all changes in the sandbox that are not committed, relative to the top of its tree."""
    head = await _head(sandbox)
    if not sandbox.folder.is_dir() or head is None:
        return []
    with inspecting(sandbox, await filters_off(sandbox)) as look:
        found = await look.differences(head)
        submodules = await look.dirty_submodules()
    paths = (*found.deleted, *found.changed, *found.new, *found.nested, *submodules)
    own = {copies.printable(path) for path in paths if not copies.lent(sandbox, path)}
    return sorted(own | set(copies.touched(sandbox)))


async def is_elsewhere(sandbox: Sandbox, commit: str) -> bool:
    """Return whether a commit is reachable from another branch, a remote's branch or a tag."""
    if commit == sandbox.base:
        return True
    listed = await git_output(sandbox.common_dir, *SAFE, "for-each-ref", "--format=%(refname)", "--contains", commit)
    own = {f"refs/heads/{sandbox.branch}"}
    refs = {os.fsdecode(line) for line in listed.splitlines()} - own
    return any(ref.startswith(("refs/heads/", "refs/remotes/", "refs/tags/")) for ref in refs)


async def _branch_tip(sandbox: Sandbox) -> str | None:
    if sandbox.branch is None:
        return None
    try:
        asked = ("rev-parse", "--verify", "--quiet", f"refs/heads/{sandbox.branch}^{{commit}}")
        return (await git_output(sandbox.common_dir, *SAFE, *asked)).decode().strip()
    except GitError:
        return None


async def _head(sandbox: Sandbox) -> str | None:
    """Return the commit that is checked out in the sandbox: an agent may have left the branch."""
    if not sandbox.git_dir.is_dir() or not sandbox.folder.is_dir():
        return None
    return await resolve(sandbox, "HEAD")


def _has_files(folder: Path) -> bool:
    """Whether anything but git's own file is in a sandbox's directory."""
    return folder.is_dir() and bool(set(folder.iterdir()) - {folder / ".git"})


# ---- the steps ---------------------------------------------------------------------------------


async def remove_tree(sandbox: Sandbox, *, tip: str | None) -> None:
    """Remove the folder, git's worktree entry, and the branch if it is still at `tip` and not checked out elsewhere.

    Checks nothing first. Can be repeated: git's entry, by which the rest is found, is removed after the folder.
    Raise SandboxError if something cannot be removed.
    """
    for folder in (sandbox.folder, sandbox.jail_home):
        await trio.to_thread.run_sync(_delete_folder, folder, abandon_on_cancel=False)
    with contextlib.suppress(OSError):
        sandbox.folder.parent.rmdir()  # if it is empty now
    if not sandbox.common_dir.is_dir():  # the repository was moved: it forgets the worktree by itself
        return
    async with repository_lock(sandbox.common_dir):
        if sandbox.git_dir.is_dir():
            await _remove_worktree(sandbox)
        if sandbox.branch is not None and tip is not None and not await _checked_out(sandbox):
            ref = f"refs/heads/{sandbox.branch}"
            known = await run_git(sandbox.common_dir, *SAFE, "rev-parse", "--verify", "--quiet", ref)
            if known.stdout.decode().strip() == tip:
                await git_output(sandbox.common_dir, *SAFE, "update-ref", "-d", ref, tip)


async def _remove_worktree(sandbox: Sandbox) -> None:
    """Remove git's worktree entry by its unique name, since the folder does not exist any more."""
    if sandbox.git_dir.parent.name != "worktrees" or sandbox.git_dir.name != sandbox.id:
        raise SandboxError(f"{sandbox.git_dir} is not this sandbox's own git directory.")
    try:
        await git_output(sandbox.common_dir, *SAFE, "worktree", "remove", "--force", "--force", sandbox.id)
    except GitError:
        await trio.to_thread.run_sync(
            _delete_folder, sandbox.git_dir, abandon_on_cancel=False
        )  # it was only partly made


async def _checked_out(sandbox: Sandbox) -> bool:
    listed = await git_output(sandbox.common_dir, *SAFE, "worktree", "list", "--porcelain", "-z")
    return f"branch refs/heads/{sandbox.branch}".encode() in listed.split(b"\0")


def _delete_folder(folder: Path) -> None:
    """Delete a folder tree without following links. Read-only folders, as in caches, are made writable first."""
    if folder.is_symlink():
        folder.unlink()
        return

    def unlock(function: Callable[[str], Any], path: str, error: BaseException) -> None:
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
            shutil.rmtree(folder, onexc=unlock)
        else:
            shutil.rmtree(folder, onerror=lambda function, path, info: unlock(function, path, info[1]))
    except OSError as error:
        raise SandboxError(f"{error.filename or folder} cannot be removed: {error.strerror}.") from error
