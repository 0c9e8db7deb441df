"""A sandbox behind a launcher has its own repository: the agent's git never touches the person's.

Its directory is created as a worktree, and stays one for cuggino: the person's repository keeps a git directory for it,
with a HEAD and an index that the agent cannot reach. Only `.git` in the sandbox's directory is different: for the agent
it is a repository with the history of the base and nothing else. Its commits are fetched object by object; no git runs
with that repository's configuration or hooks.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

import trio

from cuggino.errors import GitError
from cuggino.git.run import SAFE, git_environment, git_output, refusal, run_git
from cuggino.sandbox.git import ask
from cuggino.sandbox.sandbox import Sandbox

_TREE_SETTINGS = r"^core\.(autocrlf|eol|filemode|symlinks|ignorecase|precomposeunicode)$"
"""Settings for how files look in the tree. Without them the agent's git would take untouched files for changed."""
_HASH = re.compile(rb"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_LARGEST_REF_FILE = 50_000_000


async def make_clone(sandbox: Sandbox, exclude: bytes) -> None:
    """Replace the worktree's `.git` file by a repository, which is created beside it and then renamed."""
    sandbox.jail_home.mkdir(mode=0o700, exist_ok=True)
    made = sandbox.folder / ".git.cuggino"
    hash_format = await git_output(sandbox.repository, *SAFE, "rev-parse", "--show-object-format")
    where = {"GIT_DIR": str(made), "GIT_WORK_TREE": str(sandbox.folder)}
    quiet = ("init", "--quiet", "--template=", f"--object-format={hash_format.decode().strip()}")
    await git_output(sandbox.folder, *SAFE, *quiet, environment=where)
    await ask(
        sandbox,
        *("pack-objects", "--quiet", "--revs", "--delta-base-offset", "--threads=1", str(made / "objects/pack/pack")),
        stdin=f"{sandbox.base}\n".encode(),
    )
    shallow = sandbox.common_dir / "shallow"
    if shallow.is_file():
        shutil.copy(shallow, made / "shallow")
    settings = await run_git(sandbox.repository, *SAFE, "config", "-z", "--get-regexp", _TREE_SETTINGS)
    for entry in settings.stdout.split(b"\0")[:-1]:
        key, _, value = os.fsdecode(entry).partition("\n")
        await git_output(sandbox.folder, *SAFE, "config", key, value or "true", environment=where)
    await git_output(sandbox.folder, *SAFE, "config", "--unset", "core.worktree", environment=where)
    (made / "info").mkdir(exist_ok=True)
    (made / "info" / "exclude").write_bytes(exclude)
    if sandbox.branch is None:
        await git_output(sandbox.folder, *SAFE, "update-ref", "--no-deref", "HEAD", sandbox.base, environment=where)
    else:
        ref = f"refs/heads/{sandbox.branch}"
        await git_output(sandbox.folder, *SAFE, "symbolic-ref", "HEAD", ref, environment=where)
        await git_output(sandbox.folder, *SAFE, "update-ref", ref, sandbox.base, environment=where)
    shutil.copy2(sandbox.git_dir / "index", made / "index")
    (sandbox.folder / ".git").unlink()
    made.rename(sandbox.folder / ".git")


async def fetch_back(sandbox: Sandbox) -> str | None:
    """Fetch the commit of the clone's HEAD, with everything it needs, into the person's repository. Creates no ref.

    Returns None if the clone's repository is not in git's own format, or incomplete: then only the tree counts.
    """
    clone = sandbox.folder / ".git"
    tip = await trio.to_thread.run_sync(_head, clone, abandon_on_cancel=True)
    if tip is None or tip == sandbox.base:
        return tip
    known = await run_git(sandbox.repository, *SAFE, "cat-file", "-e", f"{tip}^{{commit}}")
    if known.returncode != 0:
        if not await trio.to_thread.run_sync(_is_plain, clone / "objects", abandon_on_cancel=True):
            return None
        try:
            await _transfer(sandbox, clone / "objects", tip)
        except GitError:
            return None
    whole = ("rev-list", "--objects", "--quiet", tip, f"^{sandbox.base}")
    done = await run_git(sandbox.repository, *SAFE, *whole, environment={"GIT_NO_REPLACE_OBJECTS": "1"})
    return tip if done.returncode == 0 else None


async def _transfer(sandbox: Sandbox, objects: Path, tip: str) -> None:
    """Copy the objects with index-pack, which computes each name from the content: the clone cannot forge one."""
    quoted = str(objects).replace("\\", "\\\\").replace('"', '\\"')
    ours = {**git_environment(), "GIT_DIR": str(sandbox.common_dir), "GIT_NO_REPLACE_OBJECTS": "1"}
    with_theirs = {**ours, "GIT_ALTERNATE_OBJECT_DIRECTORIES": f'"{quoted}"'}
    with tempfile.TemporaryFile(dir=sandbox.git_dir) as pack:
        packing = ("pack-objects", "--quiet", "--revs", "--stdout", "--threads=1")
        await _run(packing, with_theirs, f"{tip}\n^{sandbox.base}\n".encode(), pack)
        pack.seek(0)
        await _run(("index-pack", "--stdin", "--strict"), ours, pack, subprocess.DEVNULL)


async def _run(
    arguments: Sequence[str], environment: Mapping[str, str], stdin: bytes | IO[bytes], stdout: int | IO[bytes]
) -> None:
    done = await trio.run_process(
        ["git", *SAFE, *arguments],
        stdin=stdin,
        stdout=stdout,
        capture_stderr=True,
        check=False,
        env=environment,
        cwd="/",
        start_new_session=True,
    )
    if done.returncode != 0:
        raise refusal(done.returncode, done.stderr)


def _head(git_dir: Path) -> str | None:
    """Return the commit of HEAD, read from files: git itself would read the configuration beside them."""
    content = _read(git_dir, "HEAD")
    for _ in range(5):
        if content is None or not content.startswith(b"ref: refs/"):
            break
        ref = os.fsdecode(content.removeprefix(b"ref: ").strip())
        content = None if ".." in ref.split("/") else _read(git_dir, ref) or _packed(git_dir, ref)
    found = _HASH.fullmatch(content.strip()) if content is not None else None
    return found[0].decode() if found is not None else None


def _packed(git_dir: Path, ref: str) -> bytes | None:
    for line in (_read(git_dir, "packed-refs") or b"").split(b"\n"):
        name, _, of = line.partition(b" ")
        if of == os.fsencode(ref):
            return name
    return None


def _read(git_dir: Path, name: str) -> bytes | None:
    """Return a regular file's content; None for a link, a pipe, or anything behind a link."""
    path = git_dir / name
    if any(parent.is_symlink() for parent in (path, *path.parents) if parent.is_relative_to(git_dir)):
        return None
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size > _LARGEST_REF_FILE:
            return None
        return file.read()


def _is_plain(objects: Path) -> bool:
    """Whether the objects contain neither links nor alternates, which could lead to files the agent must not read."""
    if objects.is_symlink() or objects.parent.is_symlink() or os.path.lexists(objects / "info" / "alternates"):
        return False
    return not any(
        Path(folder, name).is_symlink() for folder, folders, files in os.walk(objects) for name in (*folders, *files)
    )
