"""Conflicts between a base and a branch: parse them, and resolve small ones. Pure.

A conflict is small if every file is text and both sides only add lines in every place. Then both can stay, the base's
first. The check command decides whether they work together.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping

import msgspec

MOST_HUNKS = 3
MOST_LINES = 20

_REGULAR = ("100644", "100755")
_OBJECT_ID = re.compile(rb"[0-9a-f]{40,64}")
_ENTRY = re.compile(rb"(\d{6}) ([0-9a-f]{40,64}) ([123])\t(.+)", re.DOTALL)
_MARKER = re.compile(rb"(?:<{7,}|\|{7,}|={7,}|>{7,})(?: .*)?\r?\Z", re.DOTALL)
_MARKER_SIZE = 7


class Side(msgspec.Struct, frozen=True):
    """A path's state on one of three sides: the common ancestor (1), the base (2), the branch (3)."""

    mode: str
    object: str


class Conflict(msgspec.Struct, frozen=True, kw_only=True):
    """A path that cannot be merged. `kinds` are git's: "contents", "binary", "modify/delete", "rename/rename", …"""

    path: str
    kinds: tuple[str, ...]
    sides: Mapping[int, Side] = {}

    @property
    def marked(self) -> bool:
        """Whether the merged file shows the conflict between markers."""
        return self.kinds == ("contents",) and all(
            number in self.sides and self.sides[number].mode in _REGULAR for number in (2, 3)
        )

    def __str__(self) -> str:
        return f"{self.path} ({', '.join(self.kinds)})"


class Merge(msgspec.Struct, frozen=True):
    """The merge of two commits: a tree, with markers where they conflict."""

    tree: str
    conflicts: tuple[Conflict, ...] = ()


def parse(output: bytes) -> Merge | None:
    """Parse the output of `git merge-tree --write-tree -z`. None if there was no merge: a bad commit, for example."""
    records = output.split(b"\0")
    if not _OBJECT_ID.fullmatch(records[0]):
        return None
    sides: dict[str, dict[int, Side]] = {}
    place = 1
    while place < len(records) and (found := _ENTRY.fullmatch(records[place])):
        mode, name, stage, path = found.groups()
        sides.setdefault(os.fsdecode(path), {})[int(stage)] = Side(mode.decode(), name.decode())
        place += 1
    kinds: dict[str, list[str]] = {path: [] for path in sides}
    place += 1
    while place < len(records) and records[place].isdigit():  # a message: number of paths, these, type, text
        count = int(records[place])
        paths, kind = records[place + 1 : place + 1 + count], records[place + 1 + count].decode()
        place += count + 3
        if kind.startswith("CONFLICT ("):
            for path in map(os.fsdecode, paths):
                kinds.setdefault(path, []).append(kind.removeprefix("CONFLICT (").removesuffix(")"))
    return Merge(
        records[0].decode(),
        tuple(
            Conflict(path=path, kinds=_kinds(names), sides=sides.get(path, {})) for path, names in sorted(kinds.items())
        ),
    )


def _kinds(kinds: list[str]) -> tuple[str, ...]:
    """Leave out "contents", which git also reports, for a binary file."""
    return tuple(dict.fromkeys(kind for kind in kinds if kind != "contents" or "binary" not in kinds)) or ("unmerged",)


# ---- small ones -------------------------------------------------------------------------------


def may_be_small(merge: Merge) -> bool:
    """Whether every conflict is one of text in a file that was there before, and is a plain file on both sides."""
    return all(
        conflict.kinds == ("contents",)
        and set(conflict.sides) == {1, 2, 3}
        and all(side.mode in _REGULAR for side in conflict.sides.values())
        for conflict in merge.conflicts
    )


def marker_size(texts: Iterable[bytes]) -> int:
    """Return a length of markers at which no line of these texts can be mistaken for one."""
    longest = max((len(run) for text in texts for run in re.findall(rb"(?m)^[<|=>]{7,}", text)), default=0)
    return max(_MARKER_SIZE, longest + 1)


def both_sides(merged: bytes, size: int) -> bytes | None:
    """Return the text with both sides' lines where they differ, the base's first, or None if that is not small.

    `merged` is the output of `git merge-file --diff3`, with markers of this size, which no other line starts with.
    """
    if b"\0" in merged:
        return None
    kept: list[bytes] = []
    hunk: dict[bytes, list[bytes]] | None = None
    part = b""
    hunks = 0
    for line in re.findall(rb"[^\n]*\n|[^\n]+", merged):
        mark = line[:1] if line[:size] == line[:1] * size and line[:1] in (b"<", b"|", b"=", b">") else b""
        if mark == b"<":
            hunk, part, hunks = {b"<": [], b"|": [], b"=": []}, mark, hunks + 1
        elif mark == b">" and hunk is not None:
            if hunk[b"|"] or len(hunk[b"<"]) + len(hunk[b"="]) > MOST_LINES:
                return None
            kept += hunk[b"<"] + hunk[b"="]
            hunk = None
        elif mark and hunk is not None:
            part = mark
        else:
            (kept if hunk is None else hunk[part]).append(line)
    return None if hunk is not None or not 0 < hunks <= MOST_HUNKS else b"".join(kept)


# ---- after a repair ---------------------------------------------------------------------------


def markers_left(text: bytes, sides: Iterable[bytes]) -> bool:
    """Whether any line looks like a conflict marker and is in none of the sides."""
    marks = {line for line in text.split(b"\n") if _MARKER.match(line)}
    return bool(marks) and bool(marks - {line for side in sides for line in side.split(b"\n")})


def unresolved(text: bytes) -> set[bytes]:
    """Return the complete conflicts in a text, from `<<<<<<<` over `=======` to `>>>>>>>`.

    A single such line is not one: it may underline a heading, or quote a mail.
    """
    found: set[bytes] = set()
    hunk: list[bytes] = []
    size, divided = 0, False
    for line in text.split(b"\n"):
        mark = line[:1] if _MARKER.match(line) else b""
        length = len(line) - len(line.lstrip(mark)) if mark else 0
        if mark == b"<":
            hunk, size, divided = [], length, False
        hunk.append(line)
        if mark == b"=" and length == size:
            divided = True
        elif mark == b">" and length == size and divided:
            found.add(b"\n".join(hunk))
            size, divided = 0, False
    return found
