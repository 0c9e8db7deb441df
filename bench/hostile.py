"""Measure the marker parser on text that is made to slow down a search for tags and fences."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from bench.measure import Row, alternate, timed
from cuggino.markers import MarkerParser
from cuggino.roles import Role

SIZE = 10**6
PIECE = 32

PLAIN = "The parser reads the file, and what it finds is kept until the message ends.\n"

HOSTILE: Mapping[str, str] = {
    "<": "<",
    "`": "`",
    "opening tags": "<NOTE>",
    "opening tags of two kinds": "<NOTE><DONE>",
    "closing tags": "</NOTE>",
    "closing tags, lines": "</NOTE>\n",
    "almost tags": "<NOTE <NOT",
    "open code spans": "`a",
    "growing runs of backticks": " ".join("`" * length for length in range(1, 1000)),
    "shrinking runs of backticks": " ".join("`" * length for length in range(1000, 1, -1)),
    "quoted tags": "`<NOTE>` ",
    "quoted markers": "`<NOTE>a</NOTE>` ",
    "markers across a span's end": "`<NOTE>`</NOTE>",
    "fences": "```\n",
    "fences of two kinds": "```\n~~~\n",
    "fences in a list": "- - - ```\n",
    "fenced markers": "```\n<NOTE>a</NOTE>\n```\n",
    "list bullets": "- ",
    "quotation signs": "> ",
    "lines": "\n",
    "spaces": " ",
}
"""Units that are repeated. None contains many markers: each of those becomes an event, which has its own cost."""

MARKER = "\n\n<NOTE>the end</NOTE>"
"""The end of each text, also of the plain one, since a text without markers takes a short cut."""


def rows(runs: int) -> list[Row]:
    """Compare the simplest and the worst hostile text with plain text, and 4 MB of the worst with 1 MB."""
    figures = {name: alternate(_parsing(unit), _parsing(PLAIN), runs) for name, unit in HOSTILE.items()}
    ratios = {name: hostile / plain for name, (hostile, plain) in figures.items()}
    worst = max(ratios, key=ratios.__getitem__)
    large, small = alternate(_parsing(HOSTILE[worst], 4 * SIZE), _parsing(HOSTILE[worst]), runs)
    plain = f"1 MB of plain text: {figures[worst][1] * 1000:.0f} ms"
    return [
        Row("1 MB of `<` through the markers", plain, f"{ratios['<']:.1f}×", "≤ 3×", ratios["<"] <= 3),
        Row(
            f"the worst of {len(HOSTILE)} hostile texts of 1 MB ({worst})",
            plain,
            f"{ratios[worst]:.1f}×",
            "≤ 3×",
            ratios[worst] <= 3,
        ),
        Row("4 MB of the worst", "1 MB of it", f"{large / small:.1f}×", "≤ 6×", large <= 6 * small),
    ]


def _parsing(unit: str, size: int = SIZE) -> Callable[[], float]:
    """Return a function that measures the seconds for a text of this unit, fed in small pieces."""
    text = (unit * (size // len(unit) + 1))[:size] + MARKER
    pieces = [text[start : start + PIECE] for start in range(0, len(text), PIECE)]

    def parse() -> None:
        parser = MarkerParser(Role.IMPLEMENTER.markers)
        for piece in pieces:
            parser.feed(piece)
        parser.end()

    return partial(timed, parse)
