"""Removing a sandbox: never what is not committed, never what is in no other place, unless it is forced.

The looking is done before the first step, and what it found is written down: a removal that broke off is finished as it
was decided, and what came to the branch since then stays.
"""

from __future__ import annotations

import os

from cuggino.errors import GitError, SandboxError
from cuggino.git.run import SAFE, git_output
from cuggino.project import Project
from cuggino.sandbox import copies
from cuggino.sandbox.discard import discard
from cuggino.sandbox.git import filters_off, resolve
from cuggino.sandbox.inspect import inspecting
from cuggino.sandbox.records import Record, SandboxStage, every, save
from cuggino.sandbox.sandbox import Sandbox

_SHOWN = 10


async def remove(project: Project, sandbox: Sandbox, *, force: bool) -> None:
    """Remove folder, worktree and branch; the record stays, as removed.

    SandboxError, and nothing is removed, where something is not committed, or in no branch but the sandbox's, nor
    pushed; with `force` that is lost. A sandbox whose folder was deleted by hand, or that was half made or half
    removed, is removed as far as it is there.
    """
    record = next((record for record in every(project) if record.sandbox.id == sandbox.id), None)
    if record is not None and record.stage is SandboxStage.REMOVING:
        record = await take_away(project, sandbox, tip=record.tip)
        if record.stage is SandboxStage.REMOVED:
            return
    tip = await _branch_tip(sandbox)
    if not force and not (record is not None and record.stage is SandboxStage.MAKING):
        if changes := await uncommitted(sandbox):
            names = ", ".join(changes[:_SHOWN]) + (f" and {len(changes) - _SHOWN} more" if changes[_SHOWN:] else "")
            raise SandboxError(
                f"The sandbox {sandbox.id} has changes that are not committed: {names}.",
                advice=f"They are in {sandbox.folder}; --force removes them.",
            )
        for commit in {tip, await _head(sandbox)} - {None}:
            if not await is_elsewhere(sandbox, str(commit)):
                raise SandboxError(
                    f"The work of the sandbox {sandbox.id} is neither pushed nor merged: {sandbox.branch or commit}.",
                    advice="Push or merge it; --force removes it.",
                )
    await take_away(project, sandbox, tip=tip)


async def take_away(project: Project, sandbox: Sandbox, *, tip: str | None) -> Record:
    """Remove the sandbox, whose work is in safety, with its branch if that is at `tip`; with None the branch stays, and
    the sandbox is home. What is to go is written down first; from there it can be done again."""
    save(project, sandbox, SandboxStage.REMOVING, tip=tip)
    await discard(sandbox, tip=tip)
    stays = tip is None and await _branch_tip(sandbox) is not None
    return save(project, sandbox, SandboxStage.HOME if stays else SandboxStage.REMOVED)


async def uncommitted(sandbox: Sandbox) -> list[str]:
    """What is in the sandbox's tree and not on its branch, relative to the top of the tree."""
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
    """Whether a commit is reached from something that stays: another branch, a remote's branch, a tag."""
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
    """What is checked out in the sandbox: an agent may have left the branch."""
    if not sandbox.git_dir.is_dir() or not sandbox.folder.is_dir():
        return None
    return await resolve(sandbox, "HEAD")
