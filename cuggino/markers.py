"""Markers in an agent's text: the signals that it gives, told apart from what it merely quotes.

A false signal ends a loop with work left undone, a missed one makes an agent say it again, so the rules
are strict, and the same whatever the pieces were in which a text came:

- A tag is exact: `<NAME>`, `</NAME>`, nothing between the brackets but a name that the role has.
- In code a tag is a quotation. Code is a fenced block or an inline code span, as in CommonMark, but that
  a fence may be indented at will, and stand behind `>` and list bullets. An unclosed fence reaches to the
  end of the message; an unclosed span is no span, its backticks are text. A span stays in its paragraph,
  which a blank line, a fence, a list item or a heading ends. Whichever of code and marker begins first
  holds the other.
- An opening tag that no closing tag of its name follows is text, and so is a closing tag on its own.
- A marker's content ends at the first closing tag of its name, whatever other tags are in it. If that one
  is in code that began in the content, it is passed over when another follows the code, with no opening
  tag between them: so a content may quote its own closing tag, and a stray backtick or fence in it never
  costs the marker, nor one that comes after the code.
- Contents and the stretches of text around markers are stripped of white space at both ends; a stretch
  that is empty then gives no event.

Lines end with a line feed, a carriage return before it or not.
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
    """What stands between the brackets: RequestChanges is `REQUEST_CHANGES`."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", marker.__name__).upper()


class MarkerParser:
    """The text of one message after another, in pieces of any size.

    Nothing is certain before a message ends: the next piece may close a code span or a tag, and so turn
    what came before it from a signal into a quotation or the other way round. So the pieces are kept, and
    `end` tells everything: where the text was split cannot matter.
    """

    def __init__(self, markers: Sequence[type[LlmMarkerEvent]]) -> None:
        self._markers = tuple(markers)
        self._pieces: list[str] = []

    def feed(self, text: str) -> list[Found]:
        """The next piece of the message. Returns what is certain so far: nothing, see above."""
        self._pieces.append(text)
        return []

    def end(self) -> list[Found]:
        """The message is over: what was in it, in order. The next piece begins another message."""
        text = "".join(self._pieces)
        self._pieces.clear()
        return find_markers(text, self._markers)


def find_markers(text: str, markers: Sequence[type[LlmMarkerEvent]]) -> list[Found]:
    """The markers in a whole message and the text around them, in order. Linear in the text's length."""
    found: list[Found] = []
    kept = 0  # the text before is in `found`

    def keep_text(end: int) -> None:
        if stretch := text[kept:end].strip():
            found.append(AgentMessage(text=stretch))

    tags = _Tags(text, markers)
    if tags.openings:
        code = _Code(text)
        position = 0  # not in code and not in a marker; nothing before it matters any more
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
    """Where the tags are in a text: every opening tag that a closing tag of its name follows, and the closing tags.

    `openings` is where the opening tags start, in order, and `kinds` which of the markers each of them is.
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
        """The index of the first opening tag at or after the position, not before `index`."""
        return bisect_left(self.openings, position, index)

    def content(self, index: int, code: _Code) -> tuple[int, int]:
        """From where to where the content goes of the marker that opens at `index`.

        Never looks at more text than what becomes content, but for the positions of tags, which are known.
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

# A line that can open a fenced block: what may stand before the fence, the fence, and its end if that could close one.
_FENCE_LINE = re.compile(
    r"^[ \t>]*+(?P<item>(?:(?:[-*+]|\d{1,9}[.)])[ \t][ \t>]*+)*)"
    r"(?:(?P<ticks>`{3,}+)(?![^`\n]*`)|(?P<tildes>~{3,}+))(?P<closing>[ \t\r]*+$)?",
    re.MULTILINE,
)
# The first line of a paragraph that is not the first, or the blank line before it.
_BREAK = r"^[ \t>]*+(?:\r?\n|(?:[-*+]|\d{1,9}[.)]|#{1,6})[ \t\r\n])"
_NEXT_BREAK = re.compile(_BREAK, re.MULTILINE)
_LAST_BREAK = re.compile(rf"(?s:.*)(?P<break>{_BREAK})", re.MULTILINE)
_BACKTICKS = re.compile("`+")


class _Code:
    """Where the code is in a text. Asked about ascending positions, it reads each part of the text once."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._fences, self._fence_ends = _find_fences(text)
        # The paragraph that was asked about last: its end, and its runs of backticks.
        self._paragraph_end = 0
        self._runs: list[int] = []
        self._run_ends: list[int] = []
        self._closers: list[int | None] = []

    def end_around(self, position: int, start: int) -> int | None:
        """Where the code ends that has `position` in it; None if it is in none. Nothing before `start` matters."""
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
        """The paragraph around `position`, as far as it is after `start`; no fence is between these two."""
        if last := _LAST_BREAK.match(self._text, start, position):
            start = last.start("break")
        fence = bisect_left(self._fences, position)
        end = self._fences[fence] if fence < len(self._fences) else len(self._text)
        if following := _NEXT_BREAK.search(self._text, position, end):
            end = following.start()
        self._paragraph_end = end

        self._runs, self._run_ends, self._closers = [], [], []
        latest: dict[int, int] = {}  # length → the run of that length that was seen last
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
    """Every line that can open a fenced block, and where the block would end: at a closing line's end, or the text's.

    A closing line is for all before it that are not closed yet and not longer. So `unclosed` has for each kind
    of fence the lines by their length, and a heap of these lengths.
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
