"""Compare a sandbox's tree with a commit, from outside, with an index that the agent never had.

It uses only git's plumbing commands, which start nothing, do not enter submodules, and do not follow a link that has
replaced a directory.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from cuggino.errors import GitError
from cuggino.git.run import SAFE, git_output, run_git
from cuggino.sandbox.git import Filters, ask, filters_off, trusted
from cuggino.sandbox.sandbox import Sandbox


class Differences(msgspec.Struct, frozen=True):
    """Paths relative to the top of the tree, as git names them. `new` includes lent files that git does not track."""

    deleted: tuple[str, ...]
    changed: tuple[str, ...]
    new: tuple[str, ...]
    nested: tuple[str, ...]
    """Repositories that somebody has put into the tree. Each ends with a slash; their contents are not inspected."""


class Inspection:
    """A private index of a sandbox's tree. Created by `inspecting`."""

    def __init__(self, sandbox: Sandbox, index: Path, filters: Filters) -> None:
        self.sandbox = sandbox
        self.index = index
        self.filters = filters
        self._environment = {**filters.environment, "GIT_INDEX_FILE": str(index)}

    async def ask(self, *arguments: str, stdin: bytes = b"") -> bytes:
        return await ask(self.sandbox, *arguments, stdin=stdin, more=self._environment)

    async def differences(self, commit: str) -> Differences:
        """Load a commit into the index and return how the tree differs from it.

        Ignored files do not count, unless the agent has staged them.
        """
        await self.ask("read-tree", "--reset", "-i", commit)
        refreshing = ("update-index", "-q", "--refresh", "--ignore-submodules")
        environment = {**trusted(self.sandbox), **self._environment}
        await run_git(self.sandbox.folder, *SAFE, *refreshing, environment=environment)
        listed = await self.ask("diff-files", "-z", "--name-status", "--no-renames", "--ignore-submodules=dirty")
        fields = [os.fsdecode(field) for field in listed.split(b"\0")[:-1]]
        status = dict(zip(fields[1::2], fields[::2], strict=True))
        others = _names(await self.ask("ls-files", "-z", "--others", "--exclude-standard"))
        others += [path for path in await self._staged() if not {path, f"{path}/"} & set(others)]
        return Differences(
            deleted=tuple(path for path, letter in status.items() if letter == "D"),
            changed=tuple(path for path, letter in status.items() if letter != "D"),
            new=tuple(path for path in others if not path.endswith("/")),
            nested=tuple(path for path in others if path.endswith("/")),
        )

    async def _staged(self) -> list[str]:
        """Return ignored files that the agent has staged (`git add --force`) but not committed."""
        copy = self._theirs()
        if copy is None:
            return []
        try:
            staged = _names(await ask(self.sandbox, "ls-files", "-z", "--cached", more={"GIT_INDEX_FILE": str(copy)}))
        except GitError:  # not a valid index
            return []
        known = set(_names(await self.ask("ls-files", "-z", "--cached")))
        return [path for path in staged if path not in known and _is_there(self.sandbox.folder, path)]

    async def unmerged(self) -> tuple[str, ...]:
        """Return the files whose conflicts the agent has not resolved for git, in a merge or rebase of its own."""
        copy = self._theirs()
        if copy is None:
            return ()
        try:
            listed = await ask(self.sandbox, "ls-files", "-z", "--unmerged", more={"GIT_INDEX_FILE": str(copy)})
        except GitError:  # not a valid index
            return ()
        return tuple(sorted({name.partition("\t")[2] for name in _names(listed)}))

    def _theirs(self) -> Path | None:
        """Return a copy of the agent's own index; None if it has none."""
        theirs = self.sandbox.folder / ".git" / "index" if self.sandbox.cloned else self.sandbox.git_dir / "index"
        if theirs.is_symlink() or theirs.parent.is_symlink() or not theirs.is_file():
            return None
        copy = self.index.with_name("theirs")
        shutil.copyfile(theirs, copy)
        return copy

    async def add(self, paths: Sequence[str]) -> list[str]:
        """Add files of the tree to the index. Returns those that git cannot add, such as unreadable ones."""
        if not paths:
            return []
        try:
            await self.ask("update-index", "-z", "--add", "--replace", "--stdin", stdin=_joined(paths))
        except GitError:
            if len(paths) == 1:
                return list(paths)
            half = len(paths) // 2
            return [*await self.add(paths[:half]), *await self.add(paths[half:])]
        return []

    async def drop(self, paths: Sequence[str]) -> None:
        """Remove paths from the index."""
        if paths:
            await self.ask("update-index", "-z", "--force-remove", "--stdin", stdin=_joined(paths))

    async def filtered(self, paths: Sequence[str]) -> set[str]:
        """Return the paths whose content requires a filter that does not run."""
        if not (paths and self.filters.required):
            return set()
        attributes = _names(await self.ask("check-attr", "-z", "--stdin", "filter", stdin=_joined(paths)))
        return {
            path
            for path, value in zip(attributes[::3], attributes[2::3], strict=True)
            if value in self.filters.required
        }

    async def dirty_submodules(self) -> list[str]:
        """Return the submodules in the index with uncommitted changes, or with commits that only they have.

        Includes changes in nested submodules. Ignores submodules that the person does not have.
        """
        dirty = []
        for entry in (await self.ask("ls-files", "-z", "--stage")).split(b"\0")[:-1]:
            if entry.startswith(b"160000 "):
                kind, _, name = entry.partition(b"\t")
                path = os.fsdecode(name)
                if await self._is_dirty(path, kind.decode().split(" ")[1]):
                    dirty.append(path)
        return dirty

    async def _is_dirty(self, path: str, commit: str) -> bool:
        ours, theirs = self.sandbox.folder / path, self.sandbox.repository / path
        if not os.path.lexists(ours / ".git") or not os.path.lexists(theirs / ".git") or ours.is_symlink():
            return False
        if not await knows(theirs, commit):
            return True
        asked = ("rev-parse", "--absolute-git-dir")
        git_dir = Path(os.fsdecode((await git_output(theirs, *SAFE, *asked)).removesuffix(b"\n")))
        inner = msgspec.structs.replace(
            self.sandbox, repository=theirs, folder=ours, git_dir=git_dir, common_dir=git_dir, cloned=True
        )
        with _scratch(self.sandbox.git_dir) as folder:
            look = Inspection(inner, folder / "index", await filters_off(inner))
            found = await look.differences(commit)
            return any((found.deleted, found.changed, found.new, found.nested, await look.dirty_submodules()))


@contextmanager
def _scratch(git_dir: Path) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=git_dir, prefix="cuggino-") as folder:
        yield Path(folder)


@contextmanager
def inspecting(sandbox: Sandbox, filters: Filters) -> Iterator[Inspection]:
    """Inspect a sandbox for the length of the block, starting with the index that the sandbox had when it was made."""
    with _scratch(sandbox.git_dir) as folder:
        begin = sandbox.begin_index
        if begin.is_file():
            shutil.copy2(begin, folder / "index")  # with its time: git reads files that are younger than the index
        yield Inspection(sandbox, folder / "index", filters)


async def knows(repository: Path, commit: str) -> bool:
    """Whether a commit is in the repository whose top is this directory. It need not be one, nor exist."""
    if not os.path.lexists(repository / ".git"):
        return False
    done = await run_git(repository, *SAFE, "cat-file", "-e", f"{commit}^{{commit}}")
    return done.returncode == 0


def _names(listed: bytes) -> list[str]:
    return [os.fsdecode(name) for name in listed.split(b"\0")[:-1]]


def _joined(paths: Sequence[str]) -> bytes:
    return b"".join(os.fsencode(path) + b"\0" for path in paths)


def _is_there(folder: Path, path: str) -> bool:
    here = folder / path
    return os.path.lexists(here) and not any(
        parent.is_symlink() for parent in here.parents if parent != folder and parent.is_relative_to(folder)
    )
