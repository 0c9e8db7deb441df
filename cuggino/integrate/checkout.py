"""Check out another tree in a sandbox's directory, and undo that, without touching anything else in it.

Changes that the agent was not allowed to make, and the copied specs, differ from the branch and stay as they are. git
writes and deletes the files, with a separate index.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from pathlib import Path

from cuggino.errors import GitError
from cuggino.git.run import SAFE, git_output
from cuggino.integrate.trees import differing, replaced
from cuggino.sandbox.git import ask, filters_off, resolve
from cuggino.sandbox.inspect import Inspection, inspecting
from cuggino.sandbox.sandbox import Sandbox
from cuggino.sandbox.settle import commit_tree, delete_locks, move

PLACED = "refs/worktree/cuggino/placed"
"""A ref in the sandbox's own git directory while its directory has another tree than the branch: a commit of that tree,
whose parent is the commit that was checked out before."""

_QUIET = ("-c", "submodule.recurse=false", "-c", "core.safecrlf=false", "-c", "core.sparseCheckout=false")


class Folder:
    """A sandbox's directory, seen through an inspection."""

    def __init__(self, look: Inspection) -> None:
        self.look = look
        self._sandbox = look.sandbox

    async def git(self, *arguments: str, stdin: bytes = b"") -> bytes:
        return await self.look.ask(*_QUIET, *arguments, stdin=stdin)

    async def load(self, tree: str) -> None:
        """Load this tree into the index and find out which files match it."""
        await self.git("read-tree", "--reset", "-i", tree)
        listed = (await self.git("ls-files", "-t", "-z")).split(b"\0")  # S: files marked to count as unchanged
        hidden = b"".join(entry[2:] + b"\0" for entry in listed if entry.startswith(b"S "))
        await self.git("update-index", "-z", "--no-skip-worktree", "--stdin", stdin=hidden)
        await self._refresh()

    async def placeable(self, old: str, new: str) -> tuple[str, frozenset[str]]:
        """Return a tree like `new` that can be checked out over `old`, and the paths in which it equals `old` instead.

        These paths have local changes that `new` would overwrite: they are not touched.
        """
        await self.load(old)
        try:
            await self.git("read-tree", "--dry-run", "-m", "-u", old, new)
        except GitError:
            kept = await self._in_the_way(old, new)
        else:
            return new, frozenset()
        return await replaced(self._sandbox.repository, new, kept, old), kept

    async def place(self, old: str, new: str) -> None:
        """Update the files from `old`, which must be loaded, to `new`. Touches nothing if it raises GitError."""
        await self.git("read-tree", "-m", "-u", old, new)

    async def take_back(self, placed: str, old: str) -> None:
        """Reset the files in which `placed` and `old` differ to `old`, whatever was written to them meanwhile."""
        await self.load(placed)
        await self.git("read-tree", "--reset", "-u", placed, old)

    async def changed(self) -> frozenset[str]:
        """Return the paths that differ from the index, including new files, excluding ignored ones."""
        await self._refresh()
        differ = await self.git("diff-files", "-z", "--name-only", "--ignore-submodules=dirty")
        new = await self.git("ls-files", "-z", "--others", "--exclude-standard")
        return frozenset(path for path in _names(differ + new) if not path.endswith("/"))

    async def recorded(self, paths: Collection[str]) -> str | None:
        """Return the index's tree with these paths as they are in the directory.

        None if git cannot add one of them: it is behind a link, for example, or not readable.
        """
        gone = [path for path in paths if not os.path.lexists(self._sandbox.folder / path)]
        await self.look.drop(gone)
        if await self.look.add(sorted(set(paths) - set(gone))):
            return None
        return (await self.git("write-tree")).decode().strip()

    async def _refresh(self) -> None:
        with contextlib.suppress(GitError):  # it fails if some differ
            await self.git("update-index", "-q", "--really-refresh", "--ignore-submodules")

    async def _in_the_way(self, old: str, new: str) -> frozenset[str]:
        dirty = set(_names(await self.git("diff-files", "-z", "--name-only", "--ignore-submodules=dirty")))
        kept = set()
        for path, status in (await differing(self._sandbox.repository, old, new)).items():
            if path in dirty or (status == "A" and _is_occupied(self._sandbox.folder, path)):
                kept.add(path)
        return frozenset(kept)


@asynccontextmanager
async def looking_at(sandbox: Sandbox) -> AsyncIterator[Folder]:
    """Open the sandbox's directory for the length of the block."""
    with inspecting(sandbox, await filters_off(sandbox)) as look:
        yield Folder(look)


async def put(folder: Folder, sandbox: Sandbox, tip: str, tree: str) -> frozenset[str]:
    """Replace the checked-out tree of `tip` by `tree`, after recording it. Returns the paths that were left alone."""
    old = await git_output(sandbox.repository, *SAFE, "rev-parse", f"{tip}^{{tree}}")
    placed, kept = await folder.placeable(old.decode().strip(), tree)
    commit = await commit_tree(sandbox, placed, (tip,), "Unfinished merge")
    await ask(sandbox, "update-ref", PLACED, commit)
    await folder.place(old.decode().strip(), placed)
    return kept


async def finish(sandbox: Sandbox, commit: str) -> None:
    """Move the branch to this commit, whose tree is checked out in the directory."""
    await _branch_is(sandbox, commit)
    await ask(sandbox, "update-ref", "-d", PLACED)


async def undo(sandbox: Sandbox) -> None:
    """Restore directory and branch to their state before `put`. Does nothing if there was none, or it was finished.

    Call this before anything else uses the sandbox's directory: until then its files are not the branch's work.
    """
    placed, tip = await resolve(sandbox, PLACED), await resolve(sandbox, f"{PLACED}^1")
    if placed is None or tip is None:
        return
    delete_locks(sandbox)
    async with looking_at(sandbox) as folder:
        await folder.take_back(f"{placed}^{{tree}}", f"{tip}^{{tree}}")
    await _branch_is(sandbox, tip)
    await ask(sandbox, "update-ref", "-d", PLACED)


async def _branch_is(sandbox: Sandbox, commit: str) -> None:
    """Reset branch, HEAD and index to `commit`, wherever the agent left them."""
    with inspecting(sandbox, await filters_off(sandbox)) as look:
        await look.differences(commit)
        await move(sandbox, commit, look.index)


def _names(listed: bytes) -> list[str]:
    return [os.fsdecode(name) for name in listed.split(b"\0")[:-1]]


def _is_occupied(folder: Path, path: str) -> bool:
    """Whether something blocks a new file: a file at its path, or a file or link in place of a parent directory."""
    parents = [folder.joinpath(*path.split("/")[:length]) for length in range(1, path.count("/") + 1)]
    return os.path.lexists(folder / path) or any(
        os.path.lexists(parent) and (parent.is_symlink() or not parent.is_dir()) for parent in parents
    )
