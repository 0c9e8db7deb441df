"""Trees and merges computed from the repository's objects alone, without touching a directory or anyone's index."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Collection, Iterable
from pathlib import Path

from cuggino.git.run import SAFE, git_output, refusal, run_git
from cuggino.integrate.conflicts import Merge, both_sides, marker_size, may_be_small, parse, unresolved


async def merge_trees(repository: Path, base: str, tip: str) -> Merge:
    """Merge two commits in memory. Raises GitError if git cannot, other than by conflicts."""
    style = ("-c", "merge.conflictStyle=merge", "-c", "merge.renames=true", "-c", "merge.directoryRenames=conflict")
    done = await run_git(repository, *SAFE, *style, "merge-tree", "--write-tree", "-z", base, tip)
    merged = parse(done.stdout) if done.returncode in (0, 1) else None
    if merged is None:
        raise refusal(done.returncode, done.stdout + done.stderr)
    return merged


async def small_resolution(repository: Path, merged: Merge) -> str | None:
    """Return the tree with both sides' lines wherever they differ, or None if a conflict is not small."""
    if not may_be_small(merged):
        return None
    listed = (await git_output(repository, *SAFE, "ls-tree", "-r", "-z", "--full-tree", merged.tree)).split(b"\0")
    modes = {os.fsdecode(entry.partition(b"\t")[2]): entry[:6].decode() for entry in listed if entry}
    lines = []
    for conflict in merged.conflicts:
        texts = [await blob(repository, conflict.sides[number].object) for number in (2, 1, 3)]
        size = marker_size(texts)
        text = both_sides(await _merged_text(repository, texts, size), size)
        if text is None:
            return None
        written = await git_output(repository, *SAFE, "hash-object", "-w", "--stdin", stdin=text)
        lines.append(f"{modes[conflict.path]} {written.decode().strip()}\t".encode() + os.fsencode(conflict.path))
    return await edited(repository, merged.tree, lines)


async def differing(repository: Path, old: str, new: str) -> dict[str, str]:
    """Return the paths in which two trees differ, each with A, D, M or T."""
    listed = await git_output(repository, *SAFE, "diff-tree", "-r", "-z", "--no-renames", "--name-status", old, new)
    fields = [os.fsdecode(field) for field in listed.split(b"\0")[:-1]]
    return dict(zip(fields[1::2], fields[::2], strict=True))


async def unfinished(repository: Path, base: str, tip: str, target: str | None) -> list[str]:
    """Return the files of `tip` with conflict markers that are new: neither in `base` nor, there, in `target`."""
    options = ("-r", "-z", "--no-renames", "--no-ext-diff", "--no-textconv", "--diff-filter=d", "--name-only")
    listed = await git_output(repository, *SAFE, "diff-tree", *options, "-G", "^<{7,}( |\r|$)", base, tip)
    names = [os.fsdecode(name) for name in listed.split(b"\0")[:-1]]
    before = await git_output(repository, *SAFE, "diff-tree", *options[:-2], "--name-only", "-G", "^<{7,}", tip, base)
    known: set[bytes] = set()
    for commit, paths in ((base, [os.fsdecode(name) for name in before.split(b"\0")[:-1]]), (target, names)):
        for path in paths if commit is not None else ():
            done = await run_git(repository, *SAFE, "cat-file", "blob", f"{commit}:{path}")
            known |= unresolved(done.stdout if done.returncode == 0 else b"")
    return [path for path in names if unresolved(await blob(repository, f"{tip}:{path}")) - known]


async def replaced(repository: Path, tree: str, paths: Collection[str], other: str) -> str:
    """Return `tree` with these paths as in `other`; a path that `other` lacks is removed."""
    if not paths:
        return tree
    entries = (await git_output(repository, *SAFE, "ls-tree", "-r", "-z", "--full-tree", other)).split(b"\0")[:-1]
    wanted = {os.fsencode(path) for path in paths}
    lines = [f"0 {'0' * len(tree)}\t".encode() + path for path in sorted(wanted)]
    lines += [entry for entry in entries if entry.partition(b"\t")[2] in wanted]
    return await edited(repository, tree, lines)


async def edited(repository: Path, tree: str, lines: Iterable[bytes]) -> str:
    """Return `tree` with these lines of `git update-index --index-info` applied in order."""
    with tempfile.TemporaryDirectory(prefix="cuggino-") as scratch:
        index = {"GIT_INDEX_FILE": str(Path(scratch, "index"))}
        await git_output(repository, *SAFE, "read-tree", tree, environment=index)
        data = b"".join(line + b"\0" for line in lines)
        await git_output(repository, *SAFE, "update-index", "-z", "--index-info", environment=index, stdin=data)
        return (await git_output(repository, *SAFE, "write-tree", environment=index)).decode().strip()


async def _merged_text(repository: Path, texts: list[bytes], size: int) -> bytes:
    """Merge base, common ancestor and branch, in temporary files, where no attribute applies."""
    with tempfile.TemporaryDirectory(prefix="cuggino-") as scratch:
        files = [Path(scratch, name) for name in ("base", "before", "branch")]
        for file, text in zip(files, texts, strict=True):
            file.write_bytes(text)
        arguments = ("merge-file", "-p", "-q", "--diff3", f"--marker-size={size}", *map(str, files))
        done = await run_git(repository, *SAFE, *arguments)
    if not 0 <= done.returncode < 128:
        raise refusal(done.returncode, done.stderr)
    return done.stdout


async def blob(repository: Path, name: str) -> bytes:
    return await git_output(repository, *SAFE, "cat-file", "blob", name)
