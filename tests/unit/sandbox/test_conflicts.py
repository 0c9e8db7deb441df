"""Conflicts are parsed from git's output, and small ones resolved."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cuggino.integrate.conflicts import (
    MOST_HUNKS,
    MOST_LINES,
    Conflict,
    Merge,
    Side,
    both_sides,
    marker_size,
    markers_left,
    may_be_small,
    parse,
)

_A, _B, _C, _T = (letter * 40 for letter in "abcd")


def records(*fields: str) -> bytes:
    return "".join(f"{field}\0" for field in fields).encode("utf-8", "surrogateescape")


def stages(path: str, *numbers: int, mode: str = "100644") -> list[str]:
    return [f"{mode} {(_A, _B, _C)[number - 1]} {number}\t{path}" for number in numbers]


@pytest.mark.parametrize("output", [b"", b"\0", b"merge-tree: not something we can merge\n", b"abc\0"])
def test_only_output_with_a_tree_is_a_merge(output: bytes) -> None:
    assert parse(output) is None
    assert parse(records(_T)) == Merge(_T)


def test_conflicts_have_paths_kinds_and_sides() -> None:
    merged = parse(
        records(
            _T,
            *stages("a b\n\udcff", 1, 2, 3),
            *stages("gone", 1, 2),
            *stages("picture", 1, 2, 3),
            "",
            *("1", "a b\n\udcff", "Auto-merging", "Auto-merging a b\n"),
            *("1", "a b\n\udcff", "CONFLICT (contents)", "CONFLICT (content): Merge conflict in a b\n"),
            *("1", "gone", "CONFLICT (modify/delete)", "CONFLICT (modify/delete): gone deleted\n"),
            *("1", "picture", "CONFLICT (binary)", "warning: Cannot merge binary files: picture\n"),
            *("1", "picture", "CONFLICT (contents)", "CONFLICT (content): Merge conflict in picture\n"),
            *("2", "lib/new", "src/new", "CONFLICT (directory rename suggested)", "CONFLICT (file location): 1\n"),
            *("1", "clean", "Auto-merging", "Auto-merging clean\n"),
        )
    )
    assert merged is not None
    assert {conflict.path: conflict.kinds for conflict in merged.conflicts} == {
        "a b\n\udcff": ("contents",),
        "gone": ("modify/delete",),
        "picture": ("binary",),
        "lib/new": ("directory rename suggested",),
        "src/new": ("directory rename suggested",),
    }
    assert merged.conflicts[0].sides == {1: Side("100644", _A), 2: Side("100644", _B), 3: Side("100644", _C)}
    assert [conflict.marked for conflict in merged.conflicts] == [True, False, False, False, False]


@pytest.mark.parametrize(
    ("kinds", "mode", "sides", "small"),
    [
        (("contents",), "100644", (1, 2, 3), True),
        (("contents",), "100644", (2, 3), False),
        (("contents",), "120000", (1, 2, 3), False),
        (("contents",), "160000", (1, 2, 3), False),
        (("binary",), "100644", (1, 2, 3), False),
        (("contents", "rename/rename"), "100644", (1,), False),
        (("modify/delete",), "100644", (1, 2), False),
    ],
)
def test_only_conflicts_between_the_lines_of_regular_files_may_be_small(
    kinds: tuple[str, ...], mode: str, sides: tuple[int, ...], small: bool
) -> None:
    fine = Conflict(path="q", kinds=("contents",), sides={n: Side("100755", _A) for n in (1, 2, 3)})
    conflict = Conflict(path="p", kinds=kinds, sides={n: Side(mode, _A) for n in sides})
    assert may_be_small(Merge(_T, (fine, conflict))) == small


def hunk(base: list[str], before: list[str], branch: list[str], size: int = 7) -> str:
    marks = [f"{'<' * size} base", f"{'|' * size} before", "=" * size, f"{'>' * size} branch"]
    return text([marks[0], *base, marks[1], *before, marks[2], *branch, marks[3]])


def text(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


_line = st.text(st.characters(exclude_characters="\n\0", exclude_categories=["Cs"]), max_size=12)
_few = st.lists(_line, min_size=1, max_size=MOST_LINES // 2)


@given(st.lists(st.tuples(_few, _few, st.lists(_line)), min_size=1, max_size=MOST_HUNKS), st.lists(_line))
def test_all_lines_of_both_sides_are_kept_the_base_s_first(
    hunks: list[tuple[list[str], list[str], list[str]]], first: list[str]
) -> None:
    size = marker_size(text(lines).encode() for lines in (first, *chain.from_iterable(hunks)))
    merged = wanted = text(first)
    for base, branch, between in hunks:
        merged += hunk(base, [], branch, size) + text(between)
        wanted += text([*base, *branch, *between])
    assert both_sides(merged.encode(), size) == wanted.encode()


@pytest.mark.parametrize(
    "merged",
    [
        hunk(["a"], ["x"], ["b"]),
        hunk(["a"] * MOST_LINES, [], ["b"]),
        hunk(["a"], [], ["b"]) * (MOST_HUNKS + 1),
        hunk(["a\0"], [], ["b"]),
        "no hunk\n",
        hunk(["a"], [], ["b"])[:-20],
        "",
    ],
)
def test_other_texts_are_not_small(merged: str) -> None:
    assert both_sides(merged.encode(), 7) is None


def test_the_largest_small_conflicts_are_resolved() -> None:
    half = [str(number) for number in range(MOST_LINES // 2)]
    assert both_sides((hunk(half, [], half) * MOST_HUNKS).encode(), 7) == (text([*half, *half]) * MOST_HUNKS).encode()


def test_carriage_returns_and_a_missing_last_line_feed_are_kept() -> None:
    merged = hunk(["a\r"], [], ["b\r"]).replace("base\n", "base\r\n") + "end"
    assert both_sides(merged.encode(), 7) == b"a\r\nb\r\nend"


@given(st.lists(st.binary(max_size=40)))
def test_markers_are_longer_than_any_line_like_them(texts: list[bytes]) -> None:
    size = marker_size(texts)
    assert size >= 7
    assert not any(
        line.startswith(mark * size) for text in texts for line in text.split(b"\n") for mark in (b"<", b"=")
    )


@pytest.mark.parametrize(
    ("merged", "sides", "left"),
    [
        ("a\nb\n", [], False),
        ("a\n<<<<<<< 1234 (base)\nb\n", [], True),
        ("a\n>>>>>>> x", [], True),
        ("a\n||||||| x\n", [], True),
        ("a\n=======\n", [], True),
        ("a\r\n=======\r\n", [], True),
        ("<<<<<<<<<<<< longer markers\n", [], True),
        ("a\n<<<<<< six\n<<<<<<<tight\n=======x\n", [], False),
        ("Title\n=======\n", ["Title\n=======\n"], False),
        ("Title\n=======\n<<<<<<< x\n", ["Title\n=======\n"], True),
    ],
)
def test_lines_like_markers_are_left_unless_a_side_has_them(merged: str, sides: list[str], left: bool) -> None:
    assert markers_left(merged.encode(), [side.encode() for side in sides]) == left
