"""The git operations of a loop, in a project that may be a directory of a larger repository.

Every operation is limited to what is below the project root. If git refuses, a GitError has git's own message. Reading
does not change the repository: index, objects and refs stay the same byte for byte.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from subprocess import CompletedProcess

import trio

from cuggino.clock import uuid7
from cuggino.errors import GitError
from cuggino.git.run import cannot_run, git_environment, git_output, refusal, run_git
from cuggino.process.children import Children, Command
from cuggino.project import STATE_NAME

DEFAULT_MESSAGE = "Work done with cuggino"

_NO_DAEMON = ("-c", "core.fsmonitor=false")
_FOR_COMMITS = ("-c", "gc.autoDetach=false", "-c", "maintenance.autoDetach=false", "-c", "i18n.commitEncoding=utf-8")
_FAST = ("-c", "core.looseCompression=0", "-c", "core.fsync=none", "-c", "core.splitIndex=false")


class Git:
    """git at `root`, a project's root. `scratch` is a directory for temporary files (0700) that no commit includes.

    `exclude` in the methods lists paths to leave out with everything below them, relative to the root or absolute.
    Commits run hooks, which may start anything; `children` ends that with them. None is for repositories whose hooks
    are harmless.
    """

    def __init__(self, root: Path, children: Children | None, scratch: Path) -> None:
        self._root = root
        self._children = children
        self._scratch = scratch

    async def is_repository(self) -> bool:
        """Check whether the root is in a working tree. False if git is missing or refuses to answer."""
        try:
            return await self._read("rev-parse", "--is-inside-work-tree") == b"true\n"
        except GitError:
            return False

    async def head(self) -> str | None:
        """Return the full hash of the current commit, or None if there is none."""
        try:
            return (await self._read("rev-parse", "--verify", "--quiet", "HEAD^{commit}")).decode().strip()
        except GitError:
            return None

    async def is_dirty(self, exclude: Sequence[Path]) -> bool:
        """Check whether a commit would include changes or untracked files. False without a repository."""
        if not await self.is_repository():
            return False
        arguments = ("--porcelain", "-z", "--untracked-files=normal", "--ignore-submodules=dirty")
        return await self._read("status", *arguments, *self._paths(exclude)) != b""

    async def commit(self, message: str, *, exclude: Sequence[Path]) -> str | None:
        """Stage and commit all changes. Return the new commit's full hash, or None if there is nothing to commit.

        Changes that are staged elsewhere, or in excluded paths, stay staged and are not committed. Raise GitError
        (a hook, no identity, a lock, no repository, an unfinished merge); changes may be staged then.
        """
        paths = self._paths(exclude)
        if unmerged := await self._read("ls-files", "--unmerged", "-z"):
            # staging would mark the conflict as resolved
            names = sorted({entry.partition(b"\t")[2] for entry in unmerged.split(b"\0")[:-1]})
            raise GitError(f"There are unmerged files: {b', '.join(names).decode(errors='backslashreplace')}.")
        await self._checked(("add", "--all", *paths))
        arguments = ("diff", "--cached", "--quiet", "--no-ext-diff", "--ignore-submodules=none", *paths)
        compared = await self._run(arguments)
        if compared.returncode == 0:
            return None
        if compared.returncode != 1:
            raise refusal(compared.returncode, compared.stdout + compared.stderr)
        text = message.replace("\0", "")
        text = text if text.strip() else DEFAULT_MESSAGE
        await self._commit_staged(text.encode("utf-8", "backslashreplace"), paths)
        return await self.head()

    async def tree_fingerprint(self, exclude: Sequence[Path]) -> str:
        """Return a hash of the names, modes and contents of the files in the working tree that git does not ignore.

        A commit alone does not change it. In a submodule only its current commit counts. If git fails, use every
        file's name, size and modification time instead.
        """
        try:
            return await self._index_fingerprint(self._paths(exclude))
        except GitError:
            left_out = {*self._below_root(exclude), STATE_NAME}
            return await trio.to_thread.run_sync(_walk_fingerprint, self._root, left_out, abandon_on_cancel=True)

    async def _index_fingerprint(self, paths: Sequence[str]) -> str:
        """Stage everything in a copy of the index, with a separate directory for new objects, and hash the result.

        The copy keeps the index's time, since git takes a file for unchanged only if it is older than the index.
        """
        places = (await self._read("rev-parse", "--git-path", "index", "--git-path", "objects")).partition(b"index\n")
        index = self._root / os.fsdecode(places[0] + b"index")
        objects = self._root / os.fsdecode(places[2].removesuffix(b"\n"))
        self._scratch.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=self._scratch, prefix=".git-") as folder:
            copy = Path(folder, "index")
            if index.exists():
                shutil.copy2(index, copy)
            quoted = str(objects).replace("\\", "\\\\").replace('"', '\\"')
            environment = {
                "GIT_INDEX_FILE": str(copy),
                "GIT_OBJECT_DIRECTORY": folder,
                "GIT_ALTERNATE_OBJECT_DIRECTORIES": f'"{quoted}"',
            }
            added = await self._run((*_NO_DAEMON, *_FAST, "add", "--all", "--ignore-errors", *paths), environment)
            if added.returncode not in (0, 1):  # 1: unreadable files, which stay as they were
                raise refusal(added.returncode, added.stderr)
            entries = await self._read("ls-files", "--stage", "-z", *paths, environment=environment)
        return hashlib.sha256(entries).hexdigest()

    async def _commit_staged(self, message: bytes, paths: Sequence[str]) -> None:
        options = ("--quiet", "--cleanup=whitespace", "--allow-empty-message", "--file=-")
        arguments = (*_FOR_COMMITS, "commit", *options, *paths)
        if self._children is None:
            await self._checked(arguments, stdin=message)
            return
        self._scratch.mkdir(mode=0o700, parents=True, exist_ok=True)
        output = self._scratch / f".{uuid7()}.out"
        try:
            command = Command(
                argv=("git", *arguments), cwd=self._root, environment=git_environment(), stdin=message, stdout=output
            )
            async with self._children.start(command) as child:
                status = await child.wait()
            if status != 0:
                raise refusal(status, output.read_bytes())
        except OSError as error:
            raise cannot_run(error, self._root) from error
        finally:
            output.unlink(missing_ok=True)

    async def _read(self, *arguments: str, environment: Mapping[str, str] | None = None) -> bytes:
        """Return the output of a command that only reads. Raise GitError if it fails."""
        return await self._checked((*_NO_DAEMON, *arguments), {"GIT_OPTIONAL_LOCKS": "0", **(environment or {})})

    async def _checked(
        self, arguments: Sequence[str], environment: Mapping[str, str] | None = None, stdin: bytes = b""
    ) -> bytes:
        return await git_output(self._root, *arguments, environment=environment, stdin=stdin)

    async def _run(
        self, arguments: Sequence[str], environment: Mapping[str, str] | None = None
    ) -> CompletedProcess[bytes]:
        return await run_git(self._root, *arguments, environment=environment)

    def _paths(self, exclude: Sequence[Path]) -> list[str]:
        """Return arguments that limit a command to what is below the root and not excluded.

        The names are patterns that start with a bracket: `git add` refuses plain names of ignored files, even as
        exclusions.
        """
        patterns = []
        for path in self._below_root(exclude):
            name = os.fsencode(path)
            rest = re.sub(rb"([*?\[\\])", rb"\\\1", name[1:])
            pattern = os.fsdecode(b":(exclude,glob)[\\" + name[:1] + b"]" + rest)
            patterns += [pattern, f"{pattern}/**"]
        return ["--", ".", *patterns]

    def _below_root(self, exclude: Sequence[Path]) -> list[str]:
        """Return excluded paths, their link targets and the scratch directory, where below the root, relative to it."""
        found = set()
        for path in (*exclude, self._scratch):
            here = self._root / path
            for root, target in ((self._root, os.path.normpath(here)), (self._root.resolve(), os.path.realpath(here))):
                relative = os.path.relpath(target, root)
                if relative.split("/")[0] not in (".", ".."):
                    found.add(relative)
        return sorted(found)


def _walk_fingerprint(root: Path, left_out: set[str]) -> str:
    """Hash names, modes, sizes, times. What cannot be read, or disappears meanwhile, does not count."""
    digest = hashlib.sha256()
    folders = [""]
    while folders:
        folder = folders.pop()
        with contextlib.suppress(OSError), os.scandir(root / folder) as entries:
            for entry in sorted(entries, key=lambda entry: entry.name):
                path = folder + entry.name
                if entry.name == ".git" or path in left_out:
                    continue
                if entry.is_dir(follow_symlinks=False):
                    folders.append(f"{path}/")
                    continue
                with contextlib.suppress(OSError):
                    status = entry.stat(follow_symlinks=False)
                    line = f"{path}\0{status.st_mode} {status.st_size} {status.st_mtime_ns}\0"
                    digest.update(os.fsencode(line))
    return digest.hexdigest()
