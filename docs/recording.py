"""Record `cuggino demo` as docs/demo.svg: `just recording`.

The picture has no scripts, web fonts or links, so it moves wherever an image can be shown. CSS shows the lines at a
steady pace, or only the last screen for those who prefer reduced motion. Paths, hashes, IDs and times are replaced, so
that the picture does not show the machine that made it.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import escape

from rich.cells import cell_len
from rich.console import Console
from rich.style import Style
from rich.text import Text

COLUMNS, ROWS = 96, 27
CELL, LINE, MARGIN, BAR = 8.4, 19, 16, 34
"""In pixels: the width of a character, the height of a line, the margin around the text, the title bar."""

SECONDS, PAUSE, REST = 0.045, 0.7, 6.0
"""Seconds per line, the pause after a step of the loop, and how long the last screen is shown."""

HOLDS = re.compile(r"\[(PLAN_COMPLETE|PROGRESS|DONE|REQUEST_CHANGES|APPROVED|Commit)\]|\[Loop\] (Approved|===)|\$ ")

REPLACED = [
    (r"/[\w./-]*cuggino-demo-\w+", "/tmp/cuggino-demo"),
    (r"'\S*/python[\d.]*'", "python"),
    (r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}", "01a203c5-dc4a-78ef-a17a-55b43ae89a12"),
    (r"(Ran \d+ tests?) in [\d.]+s", r"\1 in 0.001s"),
    (r"(Python \d+\.\d+)[\w.+]*", r"\1"),
    (r"(Time +)\S+s", r"\g<1>9s"),
]

COLOURS = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")

STYLE = """
  text { font: 14px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: #d8dee9;
         white-space: pre }
  .bold { font-weight: 700 } .dim { fill: #8b96a8 } .black { fill: #8b96a8 } .white { fill: #ffffff }
  .red { fill: #f07178 } .green { fill: #a3d977 } .yellow { fill: #f2c45a } .blue { fill: #7cb7ff }
  .magenta { fill: #d9a0f0 } .cyan { fill: #6fc3cf }
"""


class Line(NamedTuple):
    """A line of the screen: its parts with their classes, and the seconds at which it appears."""

    parts: tuple[tuple[str, str], ...]
    at: float


def main() -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("CUGGINO_", "GIT_"))}
    environment |= {"FORCE_COLOR": "1", "COLUMNS": "500"}
    done = subprocess.run(
        [Path(sys.executable).with_name("cuggino"), "demo"],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    folder = Path(__file__).parent
    (folder / "demo.svg").write_text(picture(lines("$ cuggino demo\n" + neutral(done.stdout))), encoding="utf-8")


def neutral(text: str) -> str:
    """Replace what differs between two recordings."""
    for pattern, replacement in REPLACED:
        text = re.sub(pattern, replacement, text)
    hashes = re.findall(r"\[Commit\] ([0-9a-f]+)", text)
    hashes += [found for found in re.findall(r"  ([0-9a-f]{7,}) \S", text) if found not in hashes]
    for number, found in enumerate(hashes):
        text = text.replace(found, f"{0x3A7C51E + number * 0x1F3B9D7:07x}"[-7:])
    return text


def lines(text: str) -> list[Line]:
    """Return the lines of a terminal's output, and when each appears."""
    found, at = [], 0.3
    for line in Text.from_ansi(text.rstrip("\n")).split("\n", allow_blank=True):
        line.truncate(COLUMNS, overflow="ellipsis")
        segments = line.render(Console(width=COLUMNS), end="")
        parts = tuple((part, _classes(style or Style.null())) for part, style, _ in segments if part)
        found.append(Line(parts, at))
        at += SECONDS + PAUSE * bool(HOLDS.match(line.plain))
    return found


def _classes(style: Style) -> str:
    names = [name for name in ("bold", "dim") if getattr(style, name)]
    if style.color and style.color.number is not None:
        names.append(COLOURS[style.color.number % 8])
    return " ".join(names)


def picture(shown: Sequence[Line]) -> str:
    """Return the SVG: a cover moves down and uncovers the first screen; then the lines move up."""
    total = shown[-1].at + REST
    width, height = COLUMNS * CELL + 2 * MARGIN, BAR + ROWS * LINE + MARGIN
    over = max(len(shown) - ROWS, 0)
    cover = [(line.at, min(number + 1, ROWS) * LINE) for number, line in enumerate(shown[:ROWS])]
    scroll = [(line.at, -(number + 1) * LINE) for number, line in enumerate(shown[ROWS:])]
    rules = [
        f".lines {{ transform: translateY({-over * LINE}px); animation: lines {total:.2f}s step-end infinite }}",
        f".cover {{ transform: translateY({ROWS * LINE}px); animation: cover {total:.2f}s step-end infinite }}",
        "@media (prefers-reduced-motion: reduce) { .lines, .cover { animation: none } }",
        _keyframes("lines", scroll, total),
        _keyframes("cover", cover, total),
    ]
    buttons = [
        f'<circle cx="{18 + 18 * n}" cy="17" r="5.5" class="{name}"/>'
        for n, name in enumerate(("red", "yellow", "green"))
    ]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" role="img">',
            "<title>cuggino demo: agents plan, implement and review until the code matches the specification</title>",
            f"<style>{STYLE}  " + "\n  ".join(rules) + "\n</style>",
            f'<rect width="{width:g}" height="{height:g}" rx="9" fill="#1b2130"/>',
            *buttons,
            f'<svg x="{MARGIN}" y="{BAR}" width="{COLUMNS * CELL:g}" height="{ROWS * LINE}">',
            '<g class="lines">',
            *(_row(line, number) for number, line in enumerate(shown) if line.parts),
            "</g>",
            f'<rect class="cover" width="{COLUMNS * CELL:g}" height="{ROWS * LINE}" fill="#1b2130"/>',
            "</svg>\n</svg>\n",
        ]
    )


def _keyframes(name: str, steps: Sequence[tuple[float, float]], total: float) -> str:
    moves = [(0.0, 0.0), *((at / total * 100, y) for at, y in steps)]
    moves.append((100, moves[-1][1]))
    return f"@keyframes {name} {{ " + " ".join(f"{at:.2f}%{{transform:translateY({y:g}px)}}" for at, y in moves) + " }"


def _row(line: Line, number: int) -> str:
    """Each part has its own place and length, so that the columns are aligned in any font."""
    column, texts = 0, []
    for part, classes in line.parts:
        inner = part.strip(" ")
        if inner:
            x = (column + cell_len(part) - cell_len(part.lstrip(" "))) * CELL
            named = f' class="{classes}"' if classes else ""
            place = f'x="{x:g}" y="{number * LINE + 14}" textLength="{cell_len(inner) * CELL:.1f}"'
            texts.append(f"<text {place}{named}>{escape(inner)}</text>")
        column += cell_len(part)
    return "".join(texts)


if __name__ == "__main__":
    main()
