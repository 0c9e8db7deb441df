"""Submodules in a sandbox: those that the person has, at the commits of the base, from the person's own copies.

Nothing is fetched: this needs neither network nor login, and the person's configuration stays as it is. A sandbox's
submodule is a separate repository with the objects of the person's.
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from cuggino.errors import GitError, SandboxError
from cuggino.git.run import SAFE, git_output, run_git
from cuggino.sandbox.sandbox import Sandbox


class Submodule(msgspec.Struct, frozen=True):
    """`path` is relative to the top of the outermost tree; `commit` is the one that its tree records."""

    path: str
    commit: str


async def gitlinks(repository: Path, commit: str) -> list[Submodule]:
    """Return a commit's submodules, checked out or not, without nested ones."""
    listed = await git_output(repository, *SAFE, "ls-tree", "-r", "-z", "--full-tree", commit)
    found = []
    for entry in listed.split(b"\0")[:-1]:
        kind, _, path = entry.partition(b"\t")
        mode, _, name = kind.decode().split(" ")
        if mode == "160000":
            found.append(Submodule(os.fsdecode(path), name))
    return found


async def populate(sandbox: Sandbox) -> None:
    """Fill the directories of the submodules that the person has. Raise SandboxError if theirs lacks a commit."""
    if (sandbox.folder / ".gitmodules").is_file():
        await _populate(sandbox.repository, sandbox.folder, sandbox.base, whole=sandbox.cloned)


async def _populate(source: Path, target: Path, commit: str, *, whole: bool) -> None:
    for submodule in await gitlinks(source, commit):
        theirs, ours = source / submodule.path, target / submodule.path
        if not os.path.lexists(theirs / ".git"):
            continue
        has = await run_git(theirs, *SAFE, "cat-file", "-e", f"{submodule.commit}^{{commit}}")
        if has.returncode != 0:
            raise SandboxError(
                f"The submodule {submodule.path} has no commit {submodule.commit[:12]} here.",
                advice="Run `git submodule update --init --recursive` to fetch what the current branch needs.",
            )
        await _copy(theirs, ours, submodule.commit, whole=whole)
        await _populate(theirs, ours, submodule.commit, whole=whole)


async def _copy(source: Path, target: Path, commit: str, *, whole: bool) -> None:
    """With `whole`, copy the objects too, for a jail that does not see the person's."""
    ours = os.fsdecode((await git_output(source, *SAFE, "rev-parse", "--absolute-git-dir")).removesuffix(b"\n"))
    objects = ("--no-hardlinks",) if whole else ("--shared",)
    await git_output(
        target.parent,
        *(*SAFE, "-c", "protocol.file.allow=always", "-c", "core.hooksPath=/dev/null"),
        *("clone", "--quiet", "--no-checkout", "--template=", *objects, "--", ours, target.name),
    )
    await git_output(target, *SAFE, "checkout", "--quiet", "--detach", commit)
    try:
        url = await git_output(source, *SAFE, "config", "--get", "remote.origin.url")
    except GitError:
        return
    await git_output(target, *SAFE, "config", "remote.origin.url", os.fsdecode(url.removesuffix(b"\n")))
