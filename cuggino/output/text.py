"""Foreign text on a terminal: made harmless, measured in columns, shortened.

What agents and tools write may hold escape sequences, carriage returns, bells and marks that turn the
direction of writing. None of it may reach the terminal as such: `visible` shows it instead.
"""

from __future__ import annotations

import re

import wcwidth

TAB = 4
"""Columns between tab stops in text that is shortened."""

_LONGEST = 16
"""Characters a column that are looked at; the longest emoji have 5. Bounds lines of megabytes and piled-up marks."""

# All but line feed and tab of C0, DEL, C1, line and paragraph separators, embeddings, overrides and isolates,
# and halves of surrogate pairs, which cannot be encoded.
_TRICKS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def visible(text: str) -> str:
    """`text` with a picture or an escape for each character that a terminal would obey: ␛ ␍ ␇ `\\u202e`.

    Line feeds and tabs stay; a carriage return before a line feed is a part of the line's end. The result
    can always be encoded.
    """
    if text.isprintable():
        return text
    if "\r\n" in text:
        text = text.replace("\r\n", "\n")
    return _TRICKS.sub(_picture, text)


def visible_name(name: str) -> str:
    """A file's name as one visible line: it may hold line feeds and tabs, which would look like cuggino's own lines."""
    return visible(name.replace("\n", "␊").replace("\t", "␉"))


def _picture(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x20:
        return chr(0x2400 + code)
    if code == 0x7F:
        return "␡"
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def columns(line: str) -> int:
    """How wide a visible line without tabs is."""
    return len(line) if line.isascii() else wcwidth.width(line)


def _columns_at_most(text: str) -> int:
    """How wide it may be: terminals that know no clusters show an emoji and its skin tone side by side."""
    if text.isascii():
        return len(text)
    return max(wcwidth.width(text), sum(max(wcwidth.wcwidth(char), 0) for char in text))


def shorten(text: str, width: int) -> str:
    """`text` as one visible line of at most `width` columns (at least 1) on any terminal; if it was cut, `…` ends it.

    A line feed in it is shown as ␊. The cost depends on `width`, not on the length of `text`.
    """
    head = text[: max(width, 1) * _LONGEST]
    if not head.isprintable():
        head = visible(head).replace("\n", "␊").expandtabs(TAB)
    whole = len(text) <= max(width, 1) * _LONGEST
    if whole and _columns_at_most(head) <= width:
        return head
    room = max(width, 1) - 1
    if head.isascii():
        return head[:room] + "…"
    kept: list[str] = []
    for grapheme in wcwidth.iter_graphemes(head):
        room -= max(_columns_at_most(grapheme), _columns_at_most(f"0{grapheme}") - 1)  # as behind a letter
        if room < 0:
            break
        kept.append(grapheme)
    else:
        del kept[-1:]  # what was not looked at may belong to it
    return "".join(kept) + "…"


def first_lines(text: str, limit: int) -> tuple[list[str], int]:
    """The first lines, and how many there are in all. A line feed at the end begins no further line."""
    if not text:
        return [], 0
    total = text.count("\n") + (not text.endswith("\n"))
    lines = text.split("\n", limit)[: min(limit, total)]
    return [line.removesuffix("\r") for line in lines], total


def last_lines(text: str, limit: int) -> tuple[list[str], int]:
    """The last lines, and how many there are in all. A line feed at the end begins no further line."""
    if not text:
        return [], 0
    text = text.removesuffix("\n")
    lines = text.rsplit("\n", limit)[-limit:]
    return [line.removesuffix("\r") for line in lines], text.count("\n") + 1


def duration(seconds: float) -> str:
    """`5s`, `1m 30s`, `2h 5m`, `3d 4h`: the two largest units, rounded down; `1m` where the second is nothing."""
    whole = max(int(seconds), 0)
    for size, unit, smaller, small_unit in ((86400, "d", 3600, "h"), (3600, "h", 60, "m"), (60, "m", 1, "s")):
        if whole >= size:
            rest = whole % size // smaller
            return f"{whole // size}{unit} {rest}{small_unit}" if rest else f"{whole // size}{unit}"
    return f"{whole}s"
