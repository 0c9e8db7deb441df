"""Foreign text on a terminal: escaped, measured in columns, shortened.

Agents' and tools' output may contain escape sequences, carriage returns, bells and bidirectional overrides. None of
them may reach the terminal: `visible` replaces them with visible characters.
"""

from __future__ import annotations

import re

import wcwidth

TAB = 4
"""Columns between tab stops in text that is shortened."""

_LONGEST = 16
"""Characters examined per column; the longest emoji have 5. Bounds the cost of huge lines and stacked marks."""

# C0 except line feed and tab, DEL, C1, line and paragraph separators, bidirectional embeddings, overrides and isolates,
# and lone surrogates, which cannot be encoded.
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def visible(text: str) -> str:
    """Return `text` with control characters replaced by visible ones: ␛ ␍ ␇ `\\u202e`.

    Keeps line feeds and tabs; turns CRLF into a line feed. The result can always be encoded.
    """
    if text.isprintable():
        return text
    if "\r\n" in text:
        text = text.replace("\r\n", "\n")
    return _UNSAFE.sub(_picture, text)


def visible_name(name: str) -> str:
    """Return a file's name as one visible line, so that a line feed in it cannot imitate a line of cuggino's."""
    return visible(name.replace("\n", "␊").replace("\t", "␉"))


def _picture(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x20:
        return chr(0x2400 + code)
    if code == 0x7F:
        return "␡"
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def columns(line: str) -> int:
    """Return the width of a visible line without tabs."""
    return len(line) if line.isascii() else wcwidth.width(line)


def _columns_at_most(text: str) -> int:
    """Return the largest possible width: some terminals show an emoji and its skin tone side by side."""
    if text.isascii():
        return len(text)
    return max(wcwidth.width(text), sum(max(wcwidth.wcwidth(char), 0) for char in text))


def shorten(text: str, width: int) -> str:
    """Return `text` as one visible line of at most `width` columns (at least 1) on any terminal; `…` ends a cut one.

    Shows a line feed as ␊. The cost depends on `width`, not on the length of `text`.
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
        room -= max(_columns_at_most(grapheme), _columns_at_most(f"0{grapheme}") - 1)  # as after a letter
        if room < 0:
            break
        kept.append(grapheme)
    else:
        del kept[-1:]  # the rest of `text` may belong to this grapheme
    return "".join(kept) + "…"


def first_lines(text: str, limit: int) -> tuple[list[str], int]:
    """Return the first `limit` lines and the number of all lines. A final line feed does not start another line."""
    if not text:
        return [], 0
    total = text.count("\n") + (not text.endswith("\n"))
    lines = text.split("\n", limit)[: min(limit, total)]
    return [line.removesuffix("\r") for line in lines], total


def last_lines(text: str, limit: int) -> tuple[list[str], int]:
    """Return the last `limit` lines and the number of all lines. A final line feed does not start another line."""
    if not text:
        return [], 0
    text = text.removesuffix("\n")
    lines = text.rsplit("\n", limit)[-limit:]
    return [line.removesuffix("\r") for line in lines], text.count("\n") + 1


def duration(seconds: float) -> str:
    """Format as the two largest units, rounded down: `5s`, `1m 30s`, `2h 5m`, `3d 4h`; `1m` if the second is 0."""
    whole = max(int(seconds), 0)
    for size, unit, smaller, small_unit in ((86400, "d", 3600, "h"), (3600, "h", 60, "m"), (60, "m", 1, "s")):
        if whole >= size:
            rest = whole % size // smaller
            return f"{whole // size}{unit} {rest}{small_unit}" if rest else f"{whole // size}{unit}"
    return f"{whole}s"
