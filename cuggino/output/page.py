"""The width and colours available for lines, and how foreign text is fitted into them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from cuggino.output.text import last_lines, shorten, visible

SHOWN_LINES = 10
"""Maximum number of lines shown of a tool's result or of a command's output."""

DIM, RED, CYAN = "2", "31", "36"
DIM_CYAN = "2;36"
BOLD, BOLD_RED, BOLD_GREEN, BOLD_YELLOW, BOLD_BLUE, BOLD_MAGENTA = "1", "1;31", "1;32", "1;33", "1;34", "1;35"


class Page(NamedTuple):
    """The width and colours available. `at` is the time of the event, as in its log line."""

    width: int
    colour: bool
    at: str | None = None

    def paint(self, style: str, lines: Iterable[str]) -> list[str]:
        """Set the style of each line separately, so that each can be printed alone."""
        if not self.colour:
            return list(lines)
        return [f"\x1b[{style}m{line}\x1b[0m" if line else line for line in lines]

    def text(self, style: str, text: str) -> list[str]:
        """Return all of a foreign text as lines in a style; the terminal wraps them."""
        return self.paint(style, visible(text).split("\n"))

    def cut(self, style: str, lines: Iterable[str]) -> list[str]:
        """Return foreign lines in a style, each shortened to the width."""
        return self.paint(style, [shorten(line, self.width) for line in lines])

    def command(self, style: str, head: str, output: str) -> list[str]:
        """Return `head` and below it the last lines of a command's output."""
        lines, total = last_lines(output, SHOWN_LINES)
        if total > len(lines):
            head += f" (last {len(lines)} of {total} lines)"
        return self.cut(style, [head, *lines])
