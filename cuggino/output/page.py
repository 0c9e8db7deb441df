"""Where lines go: how wide it is, whether it has colours, and how foreign text comes onto it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from cuggino.output.text import last_lines, shorten, visible

SHOWN_LINES = 10
"""Lines of a tool's result or of a command's output."""

DIM, RED, CYAN = "2", "31", "36"
DIM_CYAN = "2;36"
BOLD, BOLD_RED, BOLD_GREEN, BOLD_YELLOW, BOLD_BLUE, BOLD_MAGENTA = "1", "1;31", "1;32", "1;33", "1;34", "1;35"


class Page(NamedTuple):
    """Where lines go. `at` is when the event happened, as its line in the log says it."""

    width: int
    colour: bool
    at: str | None = None

    def paint(self, style: str, lines: Iterable[str]) -> list[str]:
        """Each line in a style, of its own: a line stands alone."""
        if not self.colour:
            return list(lines)
        return [f"\x1b[{style}m{line}\x1b[0m" if line else line for line in lines]

    def text(self, style: str, text: str) -> list[str]:
        """Foreign text, all of it, in a style; the terminal wraps it."""
        return self.paint(style, visible(text).split("\n"))

    def cut(self, style: str, lines: Iterable[str]) -> list[str]:
        """Foreign lines in a style, each shortened to the width."""
        return self.paint(style, [shorten(line, self.width) for line in lines])

    def command(self, style: str, head: str, output: str) -> list[str]:
        """A head, and below it the last lines of what a command printed."""
        lines, total = last_lines(output, SHOWN_LINES)
        if total > len(lines):
            head += f" (last {len(lines)} of {total} lines)"
        return self.cut(style, [head, *lines])
