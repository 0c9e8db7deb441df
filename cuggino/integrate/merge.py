"""Merge a base and a sandbox's branch: by git, by keeping both sides, or by an agent that repairs.

The merge is computed without a tree, then checked out in the sandbox's directory for the check command. Until the
caller finishes it, the branch stays as it was, also after a crash (see `cuggino.integrate.checkout`).
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from cuggino.events import ConflictsFound, Send
from cuggino.git.run import SAFE, git_output, run_git
from cuggino.integrate.checkout import Folder, looking_at, put, undo
from cuggino.integrate.conflicts import Conflict, Merge, markers_left
from cuggino.integrate.trees import blob, edited, merge_trees, replaced, small_resolution
from cuggino.manifest import Permits
from cuggino.sandbox.confine import Check
from cuggino.sandbox.sandbox import Sandbox
from cuggino.sandbox.settle import commit_tree, refusal

NOTES = "CONFLICTS.md"
"""In a sandbox's root during a repair: the conflicts without markers in a file. Never committed."""

How: TypeAlias = Literal["clean", "small", "repair"]


class RepairRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request to an agent: make the sandbox's tree a merge of the commits `base` and `ours`.

    `paths`, relative to the sandbox's directory, have conflict markers, the base's side first, except for those in
    `unmarked`. These are listed in the file `notes`, in the sandbox's root, between markers, which the agent must
    delete when it has decided. No paths mean that git has merged them, and the check command fails.
    """

    sandbox: Sandbox
    paths: tuple[str, ...]
    unmarked: tuple[str, ...]
    base: str
    ours: str
    attempt: int

    @property
    def notes(self) -> Path:
        return self.sandbox.root / NOTES


RepairFunction: TypeAlias = Callable[[RepairRequest], Awaitable[bool]]
"""Runs the agent. Returns False if it gave up or failed."""


class Merged(msgspec.Struct, frozen=True, kw_only=True):
    """The merge commit, whose tree is checked out. `left_out` are paths that a repair changed without permission."""

    commit: str
    how: How
    conflicts: tuple[Conflict, ...] = ()
    left_out: tuple[str, ...] = ()


class Unmerged(msgspec.Struct, frozen=True, kw_only=True):
    """The merge failed; branch and directory are as before."""

    reason: str
    conflicts: tuple[Conflict, ...] = ()


class MergeContext(msgspec.Struct, frozen=True, kw_only=True):
    """A sandbox whose work is merged, and who helps: the check command, and an agent that repairs."""

    sandbox: Sandbox
    permits: Permits
    check: Check | None = None
    repair: RepairFunction | None = None
    repair_attempts: int = 2


class MergeRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A merge to make, with its commit's message. The commit's first parent is the base, unless `onto_branch`."""

    context: MergeContext
    message: str
    onto_branch: bool = False


async def merge(request: MergeRequest, base: str, tip: str, send: Send) -> Merged | Unmerged:
    """Merge two commits, of which `tip` is checked out in the sandbox. Raises GitError if git cannot."""
    repository = request.context.sandbox.repository
    merged = await merge_trees(repository, base, tip)
    small = await small_resolution(repository, merged) if merged.conflicts else None
    if merged.conflicts:
        await send(ConflictsFound(paths=tuple(map(_shown, merged.conflicts)), small=small is not None))
    tree = merged.tree if not merged.conflicts else small
    if tree is not None:
        async with looking_at(request.context.sandbox) as folder:
            await put(folder, request.context.sandbox, tip, tree)
        if await _passes(request):
            how: How = "small" if merged.conflicts else "clean"
            return Merged(commit=await _commit(request, tree, base, tip), how=how, conflicts=merged.conflicts)
        await undo(request.context.sandbox)
    return await _repaired(request, merged, base, tip)


# ---- the steps --------------------------------------------------------------------------------


async def _repaired(request: MergeRequest, merged: Merge, base: str, tip: str) -> Merged | Unmerged:
    """Let an agent make the merge in the sandbox, and undo it if the agent could not."""
    sandbox, conflicts = request.context.sandbox, merged.conflicts
    unmarked = tuple(conflict for conflict in conflicts if not conflict.marked)
    why = "The check command fails after the merge."
    if conflicts:
        why = f"It conflicts with the base: {', '.join(map(str, map(_printable, conflicts)))}."
    if request.context.repair is None or request.context.repair_attempts == 0:
        return Unmerged(reason=why, conflicts=conflicts)
    notes = f"{sandbox.below}/{NOTES}".removeprefix("/")
    tree = await _with_notes(sandbox.repository, merged.tree, notes, unmarked) if unmarked else merged.tree
    async with looking_at(sandbox) as folder:
        kept = await put(folder, sandbox, tip, tree)
        before = await folder.changed()
        for attempt in range(1, request.context.repair_attempts + 1):
            task = RepairRequest(
                sandbox=sandbox,
                paths=tuple(conflict.path for conflict in conflicts),
                unmarked=tuple(conflict.path for conflict in unmarked),
                base=base,
                ours=tip,
                attempt=attempt,
            )
            if not await request.context.repair(task):
                continue
            found = await _recorded(request, folder, merged, kept | before, notes)
            if found is not None and await _passes(request):
                done, left_out = found
                commit = await _commit(request, done, base, tip)
                return Merged(commit=commit, how="repair", conflicts=conflicts, left_out=left_out)
    await undo(sandbox)
    return Unmerged(reason=f"{why} It could not be repaired.", conflicts=conflicts)


async def _recorded(
    request: MergeRequest, folder: Folder, merged: Merge, alien: frozenset[str], notes: str
) -> tuple[str, tuple[str, ...]] | None:
    """Return the tree that the agent has left, and the paths left out; None while a conflict remains.

    `alien` are paths that differed from the merge before the agent started: for them git's merge is kept.
    """
    repository = request.context.sandbox.repository
    paths = {conflict.path for conflict in merged.conflicts}
    changed = await folder.changed() - {notes} - alien
    refused = refusal(request.context.sandbox, request.context.permits)
    mine = {path for path in changed if path in paths or not refused(path)}
    mine -= await folder.look.filtered(sorted(mine))
    written = await folder.recorded(mine)
    if written is None:
        return None
    tree = await replaced(repository, written, {*alien, notes}, merged.tree)
    listed = request.context.sandbox.folder / notes
    if listed.is_file() and not listed.is_symlink() and markers_left(listed.read_bytes(), ()):
        return None
    for conflict in merged.conflicts:
        sides = [await blob(repository, side.object) for side in conflict.sides.values() if side.mode != "160000"]
        text = await run_git(repository, *SAFE, "cat-file", "blob", f"{tree}:{conflict.path}")
        if text.returncode == 0 and markers_left(text.stdout, sides):
            return None
    return tree, tuple(sorted(changed - mine))


async def _passes(request: MergeRequest) -> bool:
    return request.context.check is None or await request.context.check(request.context.sandbox.root)


async def _commit(request: MergeRequest, tree: str, base: str, tip: str) -> str:
    parents = (tip, base) if request.onto_branch else (base, tip)
    return await commit_tree(request.context.sandbox, tree, parents, request.message.replace("\0", ""))


async def _with_notes(repository: Path, tree: str, notes: str, unmarked: tuple[Conflict, ...]) -> str:
    lines = ["Conflicts without markers in a file. Decide each one, then delete its lines here:", ""]
    for conflict in unmarked:
        lines += [f"<<<<<<< {_printable(conflict)}", *_sides(conflict), f">>>>>>> {_shown(conflict)}", ""]
    text = "\n".join(lines).encode("utf-8", "backslashreplace")
    written = (await git_output(repository, *SAFE, "hash-object", "-w", "--stdin", stdin=text)).decode().strip()
    return await edited(repository, tree, [f"100644 {written}\t".encode() + os.fsencode(notes)])


def _sides(conflict: Conflict) -> list[str]:
    names = {1: "common ancestor", 2: "the base", 3: "the branch"}
    return [
        f"{name}: {f'git cat-file blob {conflict.sides[number].object}' if number in conflict.sides else 'not there'}"
        for number, name in names.items()
    ]


def _shown(conflict: Conflict) -> str:
    return os.fsencode(conflict.path).decode(errors="backslashreplace")


def _printable(conflict: Conflict) -> Conflict:
    return msgspec.structs.replace(conflict, path=_shown(conflict))
