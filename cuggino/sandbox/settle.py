"""Put an agent's permitted changes onto the sandbox's branch, and leave all others in its tree.

The current state of the tree counts. The agent's own commits are kept if none of them contains a refused change, not
even one that a later commit took back; otherwise one new commit replaces them. The branch only moves forward from one
settling to the next, so it can be pushed after each.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec

from cuggino.errors import SandboxError
from cuggino.git import DEFAULT_MESSAGE
from cuggino.git.run import SAFE, run_git
from cuggino.manifest import Permits
from cuggino.project import STATE_NAME
from cuggino.sandbox import copies
from cuggino.sandbox.clone import fetch_back
from cuggino.sandbox.git import NOBODY, SETTLED, ask, filters_off, is_ancestor, resolve, settled
from cuggino.sandbox.inspect import Inspection, inspecting, knows
from cuggino.sandbox.sandbox import Sandbox

_UNFINISHED = ("MERGE_HEAD", "MERGE_MSG", "MERGE_MODE", "AUTO_MERGE", "CHERRY_PICK_HEAD", "REVERT_HEAD", "REBASE_HEAD")
_UNFINISHED_FOLDERS = ("rebase-merge", "rebase-apply", "sequencer")


class Settled(msgspec.Struct, frozen=True):
    """`tip` is the commit of the branch, or of the detached HEAD; None if nothing has changed at all.

    `left_out` are the changed paths, relative to the top of the tree, that are not in it: they stay in the tree.
    """

    tip: str | None
    left_out: tuple[str, ...]
    unmerged: tuple[str, ...] = ()
    """Files in which the agent left a merge of its own unfinished. Known only once: `tip` has them as they are."""


async def settle(sandbox: Sandbox, permits: Permits, message: str) -> Settled:
    """Put the work onto the sandbox's branch. Nothing else may run in the sandbox meanwhile.

    Can be repeated, also after more work. Raises GitError or SandboxError, and leaves tree and branch as they were.
    """
    if not sandbox.folder.is_dir() or not (sandbox.git_dir / "HEAD").is_file():
        raise SandboxError(f"The sandbox {sandbox.id} no longer exists: {sandbox.folder}.")
    delete_locks(sandbox)
    start = await resolve(sandbox, SETTLED) or sandbox.base
    agents = await fetch_back(sandbox) if sandbox.cloned else await resolve(sandbox, "HEAD")
    tip = agents if agents is not None and await is_ancestor(sandbox, start, agents) else start
    with inspecting(sandbox, await filters_off(sandbox)) as look:
        refused = refusal(sandbox, permits)
        left_out = await _take(look, agents or tip, refused)
        left_out |= {copies.printable(path) for path in await _restore(look, start, refused)}
        tree = (await look.ask("write-tree")).decode().strip()
        left_out |= {copies.printable(path) for path in await look.dirty_submodules()}
        parent = tip if tip == start or await _is_clean(sandbox, start, tip, refused) else start
        commit = parent if await _tree(sandbox, parent) == tree else await _commit(sandbox, tree, parent, message)
        if start == sandbox.base and await _tree(sandbox, start) == tree:
            commit = start  # the work was undone again, or all of it is refused
        unmerged = await look.unmerged()
        await move(sandbox, commit, look.index)
    left_out.update(copies.touched(sandbox))
    return Settled(commit if commit != sandbox.base else None, tuple(sorted(left_out)), unmerged)


def delete_locks(sandbox: Sandbox) -> None:
    """Delete the lock files that a killed git left in the sandbox's git directory, and its branch's.

    Nobody works there any more. Locks of the repository that all worktrees share stay.
    """
    locks = list(sandbox.git_dir.rglob("*.lock"))
    if sandbox.branch is not None:
        locks.append(sandbox.common_dir / "refs" / "heads" / f"{sandbox.branch}.lock")
    for lock in locks:
        if lock.is_symlink() or lock.is_file():
            lock.unlink(missing_ok=True)


def refusal(sandbox: Sandbox, permits: Permits) -> Callable[[str], bool]:
    """Return a predicate: whether a change of a path, relative to the top of the tree, must not be integrated."""

    def refused(path: str) -> bool:
        if copies.lent(sandbox, path):
            return True
        below = os.path.relpath(path, sandbox.below or ".") if sandbox.below else path
        parts = below.split("/")
        return parts[0] in ("..", STATE_NAME) or not permits.may_write(below)

    return refused


async def _take(look: Inspection, tip: str, refused: Callable[[str], bool]) -> set[str]:
    """Add the tree to the index, except for refused changes, and return these."""
    found = await look.differences(tip)
    changed = [*found.changed, *found.new]
    kept_back = {path for path in (*changed, *found.deleted) if refused(path)} | await look.filtered(changed)
    # a file cannot replace a directory while the deletion of something in it is refused, nor the other way round
    above = {parent for path in kept_back for parent in _above(path)}
    blocked = {path for path in changed if path in above or any(parent in kept_back for parent in _above(path))}
    kept_back |= blocked
    await look.drop([path for path in found.deleted if path not in kept_back])
    failed = await look.add([path for path in changed if path not in kept_back])
    reported = (path for path in (*kept_back, *failed) if not copies.lent(look.sandbox, path))
    return {copies.printable(path) for path in (*reported, *found.nested)}


def _above(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:end]) for end in range(1, len(parts))]


async def _restore(look: Inspection, start: str, refused: Callable[[str], bool]) -> list[str]:
    """Reset refused changes in the agent's commits to their state at `start`, in the index.

    Returns their paths, except for lent files.
    """
    index = (await look.ask("diff-index", "--cached", "-z", "--no-renames", start)).split(b"\0")[:-1]
    lines, paths = [], []
    for kind, name in zip(index[::2], index[1::2], strict=True):
        mode, new_mode, commit, new_commit, _ = kind.decode().removeprefix(":").split(" ")
        path = os.fsdecode(name)
        if not refused(path) and (new_mode != "160000" or await knows(look.sandbox.repository / path, new_commit)):
            continue
        lines.append(f"{mode} {commit}\t".encode() + name)
        paths.append(path)
    if lines:
        lines.sort(key=lambda line: not line.startswith(b"000000"))  # deletions first: they make room for additions
        await look.ask("update-index", "-z", "--index-info", stdin=b"\0".join(lines) + b"\0")
    return [path for path in paths if not copies.lent(look.sandbox, path)]


async def _is_clean(sandbox: Sandbox, start: str, tip: str, refused: Callable[[str], bool]) -> bool:
    """Whether no commit of start..tip contains a refused change, not even one that a later commit took back."""
    commits = await ask(sandbox, "rev-list", tip, f"^{start}")
    options = ("--stdin", "-r", "-m", "-z", "--root", "--no-renames", "--raw", "--no-commit-id", "--no-abbrev")
    listed = (await ask(sandbox, "diff-tree", *options, stdin=commits)).split(b"\0")[:-1]
    for kind, name in zip(listed[::2], listed[1::2], strict=True):
        path, mode, commit = os.fsdecode(name), *kind.decode().split(" ")[1:4:2]
        if refused(path) or (mode == "160000" and not await knows(sandbox.repository / path, commit)):
            return False
    return True


async def _tree(sandbox: Sandbox, commit: str) -> str:
    return (await ask(sandbox, "rev-parse", "--verify", f"{commit}^{{tree}}")).decode().strip()


async def _commit(sandbox: Sandbox, tree: str, parent: str, message: str) -> str:
    text = message.replace("\0", "").strip() or DEFAULT_MESSAGE
    return await commit_tree(sandbox, tree, (parent,), text)


async def commit_tree(sandbox: Sandbox, tree: str, parents: tuple[str, ...], message: str) -> str:
    """Create a commit of a tree, with the person as author, on no branch yet. Runs no hooks and does not sign."""
    options = [word for parent in parents for word in ("-p", parent)]
    command = ("-c", "i18n.commitEncoding=utf-8", "commit-tree", *options, "-F", "-", tree)
    data = f"{message}\n".encode("utf-8", "backslashreplace")
    return (await ask(sandbox, *command, stdin=data, more=await author(sandbox.repository))).decode().strip()


async def author(repository: Path) -> dict[str, str]:
    """Return the identity for commits as variables if the person has configured none, else an empty dict."""
    known = await run_git(repository, *SAFE, "var", "GIT_COMMITTER_IDENT")
    if known.returncode == 0:
        return {}
    name, email = NOBODY
    return {f"GIT_{who}_{what}": v for who in ("AUTHOR", "COMMITTER") for what, v in (("NAME", name), ("EMAIL", email))}


async def move(sandbox: Sandbox, commit: str, index: Path) -> None:
    """Set branch, HEAD and index to the commit, and abandon any unfinished merge or rebase."""
    reason = ("-m", "cuggino: settled")
    if sandbox.branch is None:
        await ask(sandbox, "update-ref", *reason, "--no-deref", "HEAD", commit)
    else:
        await ask(sandbox, "update-ref", *reason, f"refs/heads/{sandbox.branch}", commit)
        await ask(sandbox, "symbolic-ref", *reason, "HEAD", f"refs/heads/{sandbox.branch}")
    if commit != sandbox.base:
        await settled(sandbox, commit)
    sandbox.keep_index(index)
    index.replace(sandbox.git_dir / "index")
    for name in _UNFINISHED:
        (sandbox.git_dir / name).unlink(missing_ok=True)
    for name in _UNFINISHED_FOLDERS:
        shutil.rmtree(sandbox.git_dir / name, ignore_errors=True)
