"""Move the person's branch forward to a checked merge, together with the tree in which it is checked out.

The branch must be where it was when the merge was computed, and the move must be a fast-forward. If the person has
changed the same files, or has files of their own where the merge has others, nothing is touched: git alone would
overwrite those that it ignores.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from enum import Enum
from pathlib import Path
from subprocess import CompletedProcess

import trio

from cuggino.errors import SandboxError
from cuggino.git.run import SAFE, git_output, run_git

_LONGEST = 120.0
"""Seconds for a fast-forward, which continues when cuggino is stopped."""

_AS_IT_IS = ("--no-autostash", "--no-verify-signatures", "--quiet")
_SHOWN = 10
_LINK, _SUBMODULE, _NONE = "120000", "160000", "000000"


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
        if names := await _in_the_way(folder, old, new):
            more = f" and {len(names) - _SHOWN} more" if names[_SHOWN:] else ""
            return f"in the way, and not in git, in {folder}: {', '.join(names[:_SHOWN])}{more}."
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
    asked = ("rev-parse", "--path-format=absolute", "--git-dir", "--git-common-dir", "--show-toplevel")
    own = (await git_output(repository, *SAFE, *asked)).removesuffix(b"\n").split(b"\n", 2)
    # git guesses the main tree from the git directory's path, which may be elsewhere (--separate-git-dir, a link)
    main = Path(os.fsdecode(own[2])) if own[0] == own[1] else None
    found = []
    for number, entry in enumerate(listed.split(b"\0\0")):
        fields = dict(line.partition(b" ")[::2] for line in entry.strip(b"\0").split(b"\0"))
        folder = main if main is not None and number == 0 else Path(os.fsdecode(fields.get(b"worktree", b"")))
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


async def _in_the_way(folder: Path, old: str, new: str) -> list[str]:
    """Return the files that git does not track, ignored ones included, and that `new` would replace by something else.

    Submodules are not files: git leaves a directory in their place alone.
    """
    raw = ("diff-tree", "-r", "-z", "--no-renames", "--no-abbrev", "--raw", old, new)
    fields = (await git_output(folder, *SAFE, *raw)).split(b"\0")[:-1]
    tracked = set(os.fsdecode(await git_output(folder, *SAFE, "ls-files", "-z")).split("\0"))
    found: set[str] = set()
    for kind, name in zip(fields[::2], fields[1::2], strict=True):
        path, mode, blob = os.fsdecode(name), *kind.decode().split(" ")[1:4:2]
        if mode == _NONE or path in tracked:
            continue
        parts = path.split("/")
        for parent in ("/".join(parts[:end]) for end in range(1, len(parts))):
            if parent not in tracked and os.path.lexists(folder / parent) and not _is_folder(folder / parent):
                found.add(parent)
                break
        else:
            if _is_folder(folder / path):
                found.update(() if mode == _SUBMODULE else _untracked(folder, path, tracked))
            elif os.path.lexists(folder / path) and not await _is_equal(folder, path, mode, blob):
                found.add(path)
    return sorted(path.encode("utf-8", "surrogateescape").decode(errors="backslashreplace") for path in found)


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _untracked(folder: Path, below: str, tracked: Collection[str]) -> Iterator[str]:
    """Yield the files below a directory that git does not track; of a directory full of them only its own name."""
    for entry in list(os.scandir(folder / below)):
        path = f"{below}/{entry.name}"
        if not entry.is_dir(follow_symlinks=False):
            yield from () if path in tracked else (path,)
        elif any(name.startswith(f"{path}/") for name in tracked):
            yield from _untracked(folder, path, tracked)
        elif any(names for _, _, names in os.walk(entry.path)):
            yield f"{path}/"


async def _is_equal(folder: Path, path: str, mode: str, blob: str) -> bool:
    """Whether the file or link at a path is exactly what the commit has there."""
    here = folder / path
    if mode == _SUBMODULE or here.is_symlink() != (mode == _LINK) or not (here.is_symlink() or here.is_file()):
        return False
    try:
        text = os.fsencode(here.readlink()) if here.is_symlink() else here.read_bytes()
    except OSError:
        return False
    return text == await git_output(folder, *SAFE, "cat-file", "blob", blob)


async def _unstoppable(folder: Path, *arguments: str) -> CompletedProcess[bytes]:
    """Run git to its end even if cancelled: a tree that is moved only in part is broken."""
    with trio.move_on_after(_LONGEST, shield=True):
        return await run_git(folder, *arguments)
    raise SandboxError(f"git did not end within {_LONGEST:.0f} s in {folder}.", advice="Check the state of its tree.")
