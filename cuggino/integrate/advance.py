"""Moving a branch of the person's forward to a merge that is made and checked, and their tree with it if it is there.

Only from what it was when the merge was computed, and only as a fast-forward. What they have changed in the same files
prevents it, and then nothing is touched.
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
"""Seconds for a fast-forward, which is not broken off half way when cuggino is stopped."""

_AS_IT_IS = ("--no-autostash", "--no-verify-signatures", "--quiet")


class Advanced(Enum):
    """DONE: the branch has it. MOVED: somebody else has moved the branch meanwhile."""

    DONE = "done"
    MOVED = "moved"


async def branch_tip(repository: Path, branch: str) -> str | None:
    """The commit of a local branch; None: there is no such branch."""
    asked = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"refs/heads/{branch}^{{commit}}")
    done = await run_git(repository, *SAFE, *asked)
    return done.stdout.decode().strip() or None if done.returncode == 0 else None


async def advance(repository: Path, branch: str, old: str, new: str) -> Advanced | str:
    """Move the branch from `old` to its descendant `new`. A text: why that cannot be; nothing is touched then."""
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
    if done.returncode == 0:  # in the moment before, another branch was checked out there
        raise SandboxError(f"{folder} was switched to another branch, which has the merge {new} now.")
    words = " ".join((done.stderr + done.stdout).decode(errors="backslashreplace").split())
    return words or f"git ended with status {done.returncode} and said nothing."


async def _worktrees(repository: Path) -> list[tuple[Path, str | None, str | None]]:
    """Folders that are there, the branch that each has checked out, and the one that is being rebased in it."""
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
    """git, to its end even when cuggino is cancelled meanwhile: a tree half moved is no tree."""
    with trio.move_on_after(_LONGEST, shield=True):
        return await run_git(folder, *arguments)
    raise SandboxError(f"git has not ended within {_LONGEST:.0f} s in {folder}.", advice="Look at its tree.")
