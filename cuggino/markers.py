"""Markers in an agent's text: the signals that it gives, as opposed to tags that it only quotes.

A false signal ends a loop with work left undone, and a missed one makes an agent repeat it. So the rules are strict,
and do not depend on the pieces in which a text arrives:

- A tag is exact: `<NAME>` or `</NAME>`, with a name that the role has and nothing else in the brackets.
- A tag in code is a quotation. Code is a fenced block or an inline code span, as in CommonMark, except that a fence may
  have any indentation, and may follow `>` and list bullets. An unclosed fence extends to the end of the message. The
  backticks of an unclosed span are text. A span does not cross the end of its paragraph: a blank line, a fence, a list
  item or a heading. If code and a marker overlap, the one that begins first contains the other.
- An opening tag without a following closing tag of its name is text, and so is a closing tag on its own.
- A marker's content ends at the first closing tag of its name, whatever other tags it contains. If that closing tag is
  in code that began in the content, it is skipped if another one follows the code without an opening tag between them.
  So a content may quote its own closing tag, and a stray backtick or fence in it loses neither the marker nor one after
  the code.
- Contents, and the text between markers, are stripped of white space at both ends. Empty text gives no event.

Lines end with a line feed, optionally after a carriage return.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from heapq import heappop, heappush
from typing import TypeAlias

from cuggino.events import AgentMessage, LlmMarkerEvent

Found: TypeAlias = AgentMessage | LlmMarkerEvent


def tag_name(marker: type[LlmMarkerEvent]) -> str:
    """Return the name in the tag: `REQUEST_CHANGES` for RequestChanges."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", marker.__name__).upper()


class MarkerParser:
    """Takes the text of one message after another, in pieces of any size.

    Nothing is certain before a message ends: the next piece may close a code span or a tag, and so turn a signal before
    it into a quotation, or a quotation into a signal. So the pieces are kept, and `end` returns everything.
    """

    def __init__(self, markers: Sequence[type[LlmMarkerEvent]]) -> None:
        self._markers = tuple(markers)
        self._pieces: list[str] = []

    def feed(self, text: str) -> list[Found]:
        """Take the next piece of the message; return what is certain so far, which is nothing."""
        self._pieces.append(text)
        return []

    def end(self) -> list[Found]:
        """End the message; return its markers and text in order. The next piece begins another message."""
        text = "".join(self._pieces)
        self._pieces.clear()
        return find_markers(text, self._markers)


def find_markers(text: str, markers: Sequence[type[LlmMarkerEvent]]) -> list[Found]:
    """Return the markers of a whole message and the text around them, in order, in linear time."""
    found: list[Found] = []
    kept = 0  # the text before this is in `found`

    def keep_text(end: int) -> None:
        if stretch := text[kept:end].strip():
            found.append(AgentMessage(text=stretch))

    tags = _Tags(text, markers)
    if tags.openings:
        code = _Code(text)
        position = 0  # outside of code and markers; nothing before it matters
        index = 0
        while index < len(tags.openings):
            opening = tags.openings[index]
            code_end = code.end_around(opening, position)
            if code_end is not None:
                position = code_end
            else:
                content, closing = tags.content(index, code)
                keep_text(opening)
                marker = markers[tags.kinds[opening]]
                found.append(marker(content=text[content:closing].strip()))
                kept = position = closing + content - opening + 1  # a closing tag is longer by its slash
            index = tags.first_opening(position, index)
    keep_text(len(text))
    return found


class _Tags:
    """The positions of tags in a text: opening tags with a closing tag of their name after them, and closing tags.

    `openings` has the positions of opening tags in order; `kinds` maps each to the index of its marker.
    """

    def __init__(self, text: str, markers: Sequence[type[LlmMarkerEvent]]) -> None:
        self.kinds: dict[int, int] = {}
        self._lengths: list[int] = []
        self._closings: list[list[int]] = []
        for kind, marker in enumerate(markers):
            name = tag_name(marker)
            opening, closing = f"<{name}>", f"</{name}>"
            self._lengths.append(len(opening))
            starts = _find_all(opening, text, text.rfind(closing)) if closing in text else []
            self._closings.append(_find_all(closing, text, len(text)) if starts else [])
            self.kinds |= dict.fromkeys(starts, kind)
        self.openings = sorted(self.kinds)

    def first_opening(self, position: int, index: int = 0) -> int:
        """Return the index of the first opening tag at or after the position, not before `index`."""
        return bisect_left(self.openings, position, index)

    def content(self, index: int, code: _Code) -> tuple[int, int]:
        """Return the start and the end of the content of the marker that opens at `index`.

        Apart from the known positions of tags, only text that becomes content is read.
        """
        opening = self.openings[index]
        kind = self.kinds[opening]
        closings = self._closings[kind]
        start = position = opening + self._lengths[kind]
        closing = bisect_left(closings, start)
        while (code_end := code.end_around(closings[closing], position)) is not None:
            following = bisect_left(closings, code_end, closing)
            if following == len(closings):
                break
            if self.first_opening(code_end, index) < self.first_opening(closings[following], index):
                break
            closing, position = following, code_end
        return start, closings[closing]


def _find_all(tag: str, text: str, end: int) -> list[int]:
    return [match.start() for match in re.compile(tag).finditer(text, 0, end)]


# ---- code -------------------------------------------------------------------------------------

# A line that can open a fenced block: what may precede the fence, the fence, and its end if that could close one.
_FENCE_LINE = re.compile(
    r"^[ \t>]*+(?P<item>(?:(?:[-*+]|\d{1,9}[.)])[ \t][ \t>]*+)*)"
    r"(?:(?P<ticks>`{3,}+)(?![^`\n]*`)|(?P<tildes>~{3,}+))(?P<closing>[ \t\r]*+$)?",
    re.MULTILINE,
)
# The first line of a new paragraph, or the blank line before it.
_BREAK = r"^[ \t>]*+(?:\r?\n|(?:[-*+]|\d{1,9}[.)]|#{1,6})[ \t\r\n])"
_NEXT_BREAK = re.compile(_BREAK, re.MULTILINE)
_LAST_BREAK = re.compile(rf"(?s:.*)(?P<break>{_BREAK})", re.MULTILINE)
_BACKTICKS = re.compile("`+")


class _Code:
    """The positions of code in a text. With ascending positions, each part of the text is read once."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._fences, self._fence_ends = _find_fences(text)
        # The paragraph that was asked about last: its end, and its runs of backticks.
        self._paragraph_end = 0
        self._runs: list[int] = []
        self._run_ends: list[int] = []
        self._closers: list[int | None] = []

    def end_around(self, position: int, start: int) -> int | None:
        """Return the end of the code around `position`; None if it is not in code. Text before `start` is ignored."""
        fence = bisect_left(self._fences, start)
        while fence < len(self._fences) and self._fences[fence] < position:
            start = self._fence_ends[fence]
            if start > position:
                return start
            fence = bisect_left(self._fences, start, fence + 1)
        return self._span_end_around(position, start)

    def _span_end_around(self, position: int, start: int) -> int | None:
        if self._text.find("`", start, position) < 0:
            return None
        if position >= self._paragraph_end:
            self._read_paragraph(position, start)
        run = bisect_left(self._runs, start)
        while run < len(self._runs) and self._runs[run] < position:
            closer = self._closers[run]
            if closer is None:
                run += 1
            elif self._run_ends[closer] > position:
                return self._run_ends[closer]
            else:
                run = closer + 1
        return None

    def _read_paragraph(self, position: int, start: int) -> None:
        """Read the paragraph around `position` from `start` on; there is never a fence between the two."""
        if last := _LAST_BREAK.match(self._text, start, position):
            start = last.start("break")
        fence = bisect_left(self._fences, position)
        end = self._fences[fence] if fence < len(self._fences) else len(self._text)
        if following := _NEXT_BREAK.search(self._text, position, end):
            end = following.start()
        self._paragraph_end = end

        self._runs, self._run_ends, self._closers = [], [], []
        latest: dict[int, int] = {}  # length → the last run of that length
        for index, run in enumerate(_BACKTICKS.finditer(self._text, start, end)):
            run_start, run_end = run.span()
            length = run_end - run_start
            if length in latest:
                self._closers[latest[length]] = index
            latest[length] = index
            self._runs.append(run_start)
            self._run_ends.append(run_end)
            self._closers.append(None)


def _find_fences(text: str) -> tuple[list[int], list[int]]:
    """Return every line that can open a fenced block, and where that block would end.

    A closing line closes all open fences before it that are not longer. So for each kind of fence, `unclosed` has the
    lines by their length, and a heap of these lengths.
    """
    starts: list[int] = []
    ends: list[int] = []
    if "```" not in text and "~~~" not in text:
        return starts, ends
    unclosed: dict[str, tuple[dict[int, list[int]], list[int]]] = {"`": ({}, []), "~": ({}, [])}
    for line in _FENCE_LINE.finditer(text):
        item, ticks, tildes, closing = line.groups()
        fence = ticks or tildes
        length = len(fence)
        lines, lengths = unclosed[fence[0]]
        if closing is not None and not item:
            while lengths and lengths[0] <= length:
                for index in lines.pop(heappop(lengths)):
                    ends[index] = line.end()
        if length not in lines:
            lines[length] = []
            heappush(lengths, length)
        lines[length].append(len(starts))
        starts.append(line.start())
        ends.append(len(text))
    return starts, ends
