"""Conflicts, from what git has printed; the small ones resolved."""

from __future__ import annotations

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


def test_a_clean_merge_is_a_tree() -> None:
    assert parse(records(_T)) == Merge(_T)


@pytest.mark.parametrize("output", [b"", b"\0", b"merge-tree: not something we can merge\n", b"abc\0"])
def test_what_is_no_merge(output: bytes) -> None:
    assert parse(output) is None


def test_conflicts_have_their_paths_kinds_and_sides() -> None:
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
    assert merged.conflicts[0].sides == {
        1: Side("100644", _A),
        2: Side("100644", _B),
        3: Side("100644", _C),
    }
    assert [conflict.marked for conflict in merged.conflicts] == [True, False, False, False, False]


@pytest.mark.parametrize(
    ("conflict", "small"),
    [
        (Conflict(path="p", kinds=("contents",), sides={n: Side("100644", _A) for n in (1, 2, 3)}), True),
        (Conflict(path="p", kinds=("contents",), sides={n: Side("100644", _A) for n in (2, 3)}), False),
        (Conflict(path="p", kinds=("contents",), sides={n: Side("120000", _A) for n in (1, 2, 3)}), False),
        (Conflict(path="p", kinds=("contents",), sides={n: Side("160000", _A) for n in (1, 2, 3)}), False),
        (Conflict(path="p", kinds=("binary",), sides={n: Side("100644", _A) for n in (1, 2, 3)}), False),
        (Conflict(path="p", kinds=("contents", "rename/rename"), sides={1: Side("100644", _A)}), False),
        (Conflict(path="p", kinds=("modify/delete",), sides={n: Side("100644", _A) for n in (1, 2)}), False),
    ],
)
def test_which_conflicts_may_be_small(conflict: Conflict, small: bool) -> None:
    fine = Conflict(path="q", kinds=("contents",), sides={n: Side("100755", _A) for n in (1, 2, 3)})
    assert may_be_small(Merge(_T, (fine, conflict))) == small


def hunk(base: list[str], before: list[str], branch: list[str], size: int = 7) -> str:
    return "".join(
        [
            f"{'<' * size} base\n",
            *(f"{line}\n" for line in base),
            f"{'|' * size} before\n",
            *(f"{line}\n" for line in before),
            f"{'=' * size}\n",
            *(f"{line}\n" for line in branch),
            f"{'>' * size} branch\n",
        ]
    )


_line = st.text(st.characters(exclude_characters="\n\0", exclude_categories=["Cs"]), max_size=12)
_few = st.lists(_line, min_size=1, max_size=MOST_LINES // 2)


@given(st.lists(st.tuples(_few, _few, st.lists(_line)), min_size=1, max_size=MOST_HUNKS), st.lists(_line))
def test_all_lines_of_both_sides_are_kept_the_bases_first(
    hunks: list[tuple[list[str], list[str], list[str]]], first: list[str]
) -> None:
    every = [line for part in hunks for lines in part for line in lines] + first
    size = marker_size(f"{line}\n".encode() for line in every)
    merged = "".join(f"{line}\n" for line in first)
    wanted = merged
    for base, branch, between in hunks:
        between_text = "".join(f"{line}\n" for line in between)
        merged += hunk(base, [], branch, size) + between_text
        wanted += "".join(f"{line}\n" for line in (*base, *branch)) + between_text
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
def test_all_else_is_not_small(merged: str) -> None:
    assert both_sides(merged.encode(), 7) is None


def test_exactly_as_much_as_is_allowed() -> None:
    half = [str(number) for number in range(MOST_LINES // 2)]
    assert both_sides((hunk(half, [], half) * MOST_HUNKS).encode(), 7) == ("\n".join([*half, *half, ""]) * 3).encode()


def test_carriage_returns_and_no_line_feed_at_the_end() -> None:
    merged = hunk(["a\r"], [], ["b\r"]).replace("base\n", "base\r\n") + "end"
    assert both_sides(merged.encode(), 7) == b"a\r\nb\r\nend"


@given(st.lists(st.binary(max_size=40)))
def test_no_line_is_taken_for_a_marker(texts: list[bytes]) -> None:
    size = marker_size(texts)
    assert size >= 7
    assert not any(
        line.startswith(mark * size) for text in texts for line in text.split(b"\n") for mark in (b"<", b"=")
    )


@pytest.mark.parametrize(
    ("text", "sides", "left"),
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
def test_markers_that_are_left(text: str, sides: list[str], left: bool) -> None:
    assert markers_left(text.encode(), [side.encode() for side in sides]) == left
