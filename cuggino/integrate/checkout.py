"""Putting another tree into a sandbox's folder, and taking it back, while all else that lies there stays.

What the agent was not allowed to change, and the copied specs, differ from the branch: they are left as they are.
git does the writing and the removing, with an index of its own.
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
from cuggino.sandbox.settle import commit_tree, move

PLACED = "refs/worktree/cuggino/placed"
"""A ref of the sandbox's own git directory while its folder has another tree than the branch: a commit of that tree,
whose parent is what the folder had before."""

_QUIET = ("-c", "submodule.recurse=false", "-c", "core.safecrlf=false", "-c", "core.sparseCheckout=false")


class Folder:
    """The sandbox's folder, through this look at it."""

    def __init__(self, look: Inspection) -> None:
        self.look = look
        self._sandbox = look.sandbox

    async def git(self, *arguments: str, stdin: bytes = b"") -> bytes:
        return await self.look.ask(*_QUIET, *arguments, stdin=stdin)

    async def load(self, tree: str) -> None:
        """Let the index be this tree, and know which files are as it has them."""
        await self.git("read-tree", "--reset", "-i", tree)
        listed = (await self.git("ls-files", "-t", "-z")).split(b"\0")  # S: files that are to count as unchanged
        hidden = b"".join(entry[2:] + b"\0" for entry in listed if entry.startswith(b"S "))
        await self.git("update-index", "-z", "--no-skip-worktree", "--stdin", stdin=hidden)
        await self._refresh()

    async def placeable(self, old: str, new: str) -> tuple[str, frozenset[str]]:
        """A tree like `new`, to which the files can be brought from `old`, and the paths in which it is as `old`.

        These differ from `old` in the folder, and in `new`, too: nothing of them is touched.
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
        """Bring the files from `old`, which is loaded, to `new`. GitError, and nothing is touched, if it cannot be."""
        await self.git("read-tree", "-m", "-u", old, new)

    async def take_back(self, placed: str, old: str) -> None:
        """Bring the files back from `placed` to `old`, whatever was written to those that differ meanwhile."""
        await self.load(placed)
        await self.git("read-tree", "--reset", "-u", placed, old)

    async def changed(self) -> frozenset[str]:
        """The paths that are not as the index has them, new ones too, but not what git ignores."""
        await self._refresh()
        differ = await self.git("diff-files", "-z", "--name-only", "--ignore-submodules=dirty")
        new = await self.git("ls-files", "-z", "--others", "--exclude-standard")
        return frozenset(path for path in _names(differ + new) if not path.endswith("/"))

    async def recorded(self, paths: Collection[str]) -> str | None:
        """The index's tree with these paths as they are in the folder; None where git cannot take one of them: it lies
        behind a link, say, or nobody may read it."""
        gone = [path for path in paths if not os.path.lexists(self._sandbox.folder / path)]
        await self.look.drop(gone)
        if await self.look.add(sorted(set(paths) - set(gone))):
            return None
        return (await self.git("write-tree")).decode().strip()

    async def _refresh(self) -> None:
        with contextlib.suppress(GitError):  # it says that some differ
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
    """The sandbox's folder, for the length of the block."""
    with inspecting(sandbox, await filters_off(sandbox)) as look:
        yield Folder(look)


async def put(folder: Folder, sandbox: Sandbox, tip: str, tree: str) -> frozenset[str]:
    """Put a tree in the place of the one of `tip`. It is on record before. Paths that stay as they are are returned."""
    old = await git_output(sandbox.repository, *SAFE, "rev-parse", f"{tip}^{{tree}}")
    placed, kept = await folder.placeable(old.decode().strip(), tree)
    commit = await commit_tree(sandbox, placed, (tip,), "A merge that is not finished")
    await ask(sandbox, "update-ref", PLACED, commit)
    await folder.place(old.decode().strip(), placed)
    return kept


async def finish(sandbox: Sandbox, commit: str) -> None:
    """Let the branch be this commit, whose tree was put into the folder."""
    await _branch_is(sandbox, commit)
    await ask(sandbox, "update-ref", "-d", PLACED)


async def undo(sandbox: Sandbox) -> None:
    """Put folder and branch back to what they were before `put`; nothing where nothing was put, or it was finished.

    To be done before anything else is made of a sandbox's folder: what lies there then is no work of the branch's.
    """
    placed, tip = await resolve(sandbox, PLACED), await resolve(sandbox, f"{PLACED}^1")
    if placed is None or tip is None:
        return
    async with looking_at(sandbox) as folder:
        await folder.take_back(f"{placed}^{{tree}}", f"{tip}^{{tree}}")
    await _branch_is(sandbox, tip)
    await ask(sandbox, "update-ref", "-d", PLACED)


async def _branch_is(sandbox: Sandbox, commit: str) -> None:
    """Wherever an agent has left branch, HEAD and index."""
    with inspecting(sandbox, await filters_off(sandbox)) as look:
        await look.differences(commit)
        await move(sandbox, commit, look.index)


def _names(listed: bytes) -> list[str]:
    return [os.fsdecode(name) for name in listed.split(b"\0")[:-1]]


def _is_occupied(folder: Path, path: str) -> bool:
    """Whether something lies where a new file is to be: at the path, or a file or link where it has a folder."""
    parents = [folder.joinpath(*path.split("/")[:length]) for length in range(1, path.count("/") + 1)]
    return os.path.lexists(folder / path) or any(
        os.path.lexists(parent) and (parent.is_symlink() or not parent.is_dir()) for parent in parents
    )
