"""Move the person's branch forward to a checked merge, together with the tree in which it is checked out.

The branch must be where it was when the merge was computed, and the move must be a fast-forward. If the person has
changed the same files, nothing is touched.
"""

from __future__ import annotations

import os
from enum import Enum
from pathlib import Path
from subprocess import CompletedProcess

import trio

from cuggino.errors import SandboxError
from cuggino.git.run import SAFE, git_output, run_git

_LONGEST = 120.0
"""Seconds for a fast-forward, which continues when cuggino is stopped."""

_AS_IT_IS = ("--no-autostash", "--no-verify-signatures", "--quiet")


class Advanced(Enum):
    """DONE: the branch has the merge. MOVED: somebody else has moved the branch meanwhile."""

    DONE = "done"
    MOVED = "moved"


async def branch_tip(repository: Path, branch: str) -> str | None:
    """Return the commit of a local branch, or None if it does not exist."""
    asked = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"refs/heads/{branch}^{{commit}}")
    done = await run_git(repository, *SAFE, *asked)
    return done.stdout.decode().strip() or None if done.returncode == 0 else None


async def advance(repository: Path, branch: str, old: str, new: str) -> Advanced | str:
    """Move the branch from `old` to its descendant `new`. If it cannot, return why, and touch nothing."""
    places = await _worktrees(repository)
    if any(rebased == branch for _, _, rebased in places):
        return f"{branch} is being rebased."
    folder = next((folder for folder, checked_out, _ in places if checked_out == branch), None)
    if folder is None:
        arguments = ("update-ref", "-m", "cuggino: merge", f"refs/heads/{branch}", new, old)
        done = await _unstoppable(repository, *SAFE, *arguments)
    else:
        own = ("-c", "submodule.recurse=false")
        done = await _unstoppable(folder, *SAFE, *own, "merge", "--ff-only", *_AS_IT_IS, new)
    tip = await branch_tip(repository, branch)
    if tip == new:
        return Advanced.DONE
    if tip != old:
        return Advanced.MOVED
    if done.returncode == 0:  # another branch was checked out there a moment before
        raise SandboxError(f"{folder} was switched to another branch, which now has the merge {new}.")
    words = " ".join((done.stderr + done.stdout).decode(errors="backslashreplace").split())
    return words or f"git ended with status {done.returncode} and no output."


async def _worktrees(repository: Path) -> list[tuple[Path, str | None, str | None]]:
    """Return the existing worktrees, each with its checked-out branch and the branch that is being rebased in it."""
    listed = await git_output(repository, *SAFE, "worktree", "list", "--porcelain", "-z")
    found = []
    for entry in listed.split(b"\0\0"):
        fields = dict(line.partition(b" ")[::2] for line in entry.strip(b"\0").split(b"\0"))
        folder = Path(os.fsdecode(fields.get(b"worktree", b"")))
        if b"worktree" not in fields or b"bare" in fields or b"prunable" in fields or not folder.is_dir():
            continue
        branch = fields.get(b"branch")
        rebased = None if branch else await _rebased(folder)
        found.append((folder, _short(branch) if branch else None, rebased))
    return found


async def _rebased(folder: Path) -> str | None:
    asked = ("rev-parse", "--path-format=absolute", "--git-path", "rebase-merge", "--git-path", "rebase-apply")
    done = await run_git(folder, *SAFE, *asked)
    for place in done.stdout.splitlines() if done.returncode == 0 else ():
        name = Path(os.fsdecode(place)) / "head-name"
        if name.is_file():
            return _short(name.read_bytes().strip())
    return None


def _short(ref: bytes) -> str:
    return os.fsdecode(ref.removeprefix(b"refs/heads/"))


async def _unstoppable(folder: Path, *arguments: str) -> CompletedProcess[bytes]:
    """Run git to its end even if cancelled: a tree that is moved only in part is broken."""
    with trio.move_on_after(_LONGEST, shield=True):
        return await run_git(folder, *arguments)
    raise SandboxError(f"git did not end within {_LONGEST:.0f} s in {folder}.", advice="Check the state of its tree.")
