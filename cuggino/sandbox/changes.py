"""The changes of a branch, one line a file, for people."""

from __future__ import annotations

from pathlib import Path

import msgspec

from cuggino.git.run import SAFE, git_output

_LINK, _SUBMODULE, _EXECUTABLE, _PLAIN, _NONE = "120000", "160000", "100755", "100644", "000000"


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """A file and its numbers of added and removed lines: None for a binary file.

    `what` is the kind of change: "new", "deleted", "renamed from X", …
    """

    path: str
    added: int | None
    removed: int | None
    what: str


async def changes(repository: Path, base: str, tip: str) -> tuple[Change, ...]:
    """Return the files that differ between two commits, sorted by path."""
    options = ("-r", "-z", "-M", "--raw", "--numstat", "--no-ext-diff", "--no-textconv", "--ignore-submodules=none")
    return parse(await git_output(repository, *SAFE, "diff-tree", *options, base, tip))


def parse(output: bytes) -> tuple[Change, ...]:
    """Parse the output of `git diff-tree -r -z -M --raw --numstat`: first the kinds of all changes, then all counts."""
    fields = iter(output.split(b"\0")[:-1])
    kinds: dict[bytes, str] = {}
    found = []
    for field in fields:
        if field.startswith(b":"):
            old, new, _, _, status = field[1:].decode().split(" ")
            path = next(fields)
            if status[0] in "RC":
                source, path = path, next(fields)
                word = "renamed" if status[0] == "R" else "copied"
                kinds[path] = f"{word} from {_shown(source)}"
            else:
                kinds[path] = _what(old, new, status)
            continue
        added, removed, path = field.split(b"\t", 2)
        if not path:  # a rename: both names follow
            _, path = next(fields), next(fields)
        is_binary = added == b"-"
        found.append(
            Change(
                path=_shown(path),
                added=None if is_binary else int(added),
                removed=None if is_binary else int(removed),
                what=_with_binary(kinds.get(path, "changed")) if is_binary else kinds.get(path, "changed"),
            )
        )
    return tuple(sorted(found, key=lambda change: change.path))


def _what(old: str, new: str, status: str) -> str:
    kind = {_LINK: "link", _SUBMODULE: "submodule"}.get(old if new == _NONE else new, "")
    if _NONE in (old, new):
        word = "new" if old == _NONE else "deleted"
        return f"{word} {kind}" if kind else word
    if status[0] == "T":
        return f"now a {kind or 'file'}"
    if (old, new) == (_PLAIN, _EXECUTABLE):
        return "changed, now executable"
    if (old, new) == (_EXECUTABLE, _PLAIN):
        return "changed, no longer executable"
    return f"changed {kind}" if kind else "changed"


def _with_binary(what: str) -> str:
    return "binary" if what == "changed" else f"{what}, binary"


def _shown(path: bytes) -> str:
    return path.decode(errors="backslashreplace")
