"""Where people and programs read: one task writes here, and nothing else in the program writes to stdout."""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import trio

from cuggino.errors import CugginoError
from cuggino.events import LogLine
from cuggino.output.hub import Display
from cuggino.output.page import Page
from cuggino.output.render import render
from cuggino.output.status import activity, status
from cuggino.output.stream import OutputClosed, Stream
from cuggino.output.text import columns
from cuggino.output.voices import Voices
from cuggino.output.watch import needs_a_person

TICK = 0.25
"""Seconds between two looks at the status line, while something goes on."""

PLAIN_COLUMNS = 120
"""The width where there is no terminal and COLUMNS does not tell one."""

_ERASE = "\r\x1b[K"
_BELL = "\a"


@contextmanager
def open_display(
    *, as_json: bool, live: bool = True, out: int = 1, err: int = 2, environment: Mapping[str, str] = os.environ
) -> Iterator[Display]:
    """What the two descriptors are good for: JSON lines if asked for, else text for people.

    Colour on a terminal, unless NO_COLOR is set; elsewhere only with FORCE_COLOR. A status line on a terminal
    that is not dumb; none is left behind, however the block is left. Not `live`, as for what is past: neither a
    status line nor a bell.
    """
    with contextlib.ExitStack() as stack:
        try:
            to_out = Stream(out)
        except OSError as error:
            raise OutputClosed from error
        stack.callback(to_out.close)
        to_err = None
        with contextlib.suppress(OSError):
            to_err = Stream(err)
            stack.callback(to_err.close)
        if as_json:
            yield JsonLines(to_out, to_err)
            return
        capable = to_out.is_terminal and environment.get("TERM", "") not in ("", "dumb")
        colour = not environment.get("NO_COLOR") and (capable or bool(environment.get("FORCE_COLOR")))
        told = environment.get("COLUMNS", "")
        columns = int(told) if told.isdecimal() and int(told) else PLAIN_COLUMNS
        screen = Screen(to_out, to_err, colour=colour, live=capable and live, bell=live, columns=columns)
        stack.callback(screen.wipe)
        yield screen


class JsonLines:
    """`--json`: the log's lines and nothing else."""

    due = math.inf

    def __init__(self, out: Stream, err: Stream | None) -> None:
        self._out = out
        self._err = err
        self.closed = out.closed
        self.patient = not out.is_terminal

    async def show(self, _lines: Sequence[LogLine], encoded: bytes, /) -> None:
        await self._out.write(encoded)

    async def tick(self) -> None:
        """Nothing lives here."""

    async def rest(self) -> None:
        """Nothing to put away."""

    async def say(self, _text: Callable[[Page], Sequence[str]], /) -> None:
        """Nothing but events."""

    async def warn(self, text: str) -> None:
        await _warn(self._err, text)


class Screen:
    """For people: rendered events, and if `live` a status line below them.

    The status line counts from the last event that was shown, and its spinner moves only with signs of
    life. It is erased and drawn again in the same write as the text that goes above it. `columns` is the width
    where the output does not tell one; a terminal's is asked for each time, so that a resize needs no notice.

    If `bell`, a terminal's bell rings when a person is needed, once for all that is shown in one write.
    """

    def __init__(self, out: Stream, err: Stream | None, *, colour: bool, live: bool, bell: bool, columns: int) -> None:
        self._out = out
        self._err = err
        self._colour = colour
        self._live = live
        self._bell = bell and out.is_terminal
        self._columns = columns
        self._voices = Voices()
        self._after_blank = True
        self._activity = ""
        self._shown_at = 0.0
        self._alive = False
        self._frame = 0
        self._drawn = ""
        self._at_work = trio.Lock()
        self.due = math.inf
        self.closed = out.closed
        self.patient = not out.is_terminal

    def _width(self) -> int:
        return self._out.columns() or self._columns

    async def show(self, lines: Sequence[LogLine], _encoded: bytes, /) -> None:
        width = self._width()
        text: list[str] = []
        bell = self._bell and any(needs_a_person(line.event) for line in lines)
        nothing_went_on = not self._activity
        for line in lines:
            self._alive = True
            self._activity = activity(line.event, self._activity)
            voice = self._voices.name(line)
            rows = render(line.event, width=max(width - columns(voice), 1), colour=self._colour, at=line.at)
            rows = [voice + row for row in rows if row] if voice else rows
            if rows:
                text += rows[1:] if self._after_blank and not rows[0] else rows
                self._after_blank = not rows[-1]
        if text or nothing_went_on:
            self._shown_at = trio.current_time()
            await self._put(text, _BELL if bell else "")

    async def tick(self) -> None:
        if self._alive:
            self._frame += 1
            self._alive = False
        await self._put([])

    async def rest(self) -> None:
        self._activity = ""
        await self._put([])

    async def say(self, text: Callable[[Page], Sequence[str]], /) -> None:
        await self._put(text(Page(self._width(), self._colour)))

    async def warn(self, text: str) -> None:
        with trio.move_on_after(1) as waiting:
            await self._at_work.acquire()
        try:
            if self._drawn and not waiting.cancelled_caught:
                with trio.move_on_after(1), contextlib.suppress(CugginoError):
                    await self._out.write(_ERASE.encode())
                    self._drawn = ""
            await _warn(self._err, text)
        finally:
            if not waiting.cancelled_caught:
                self._at_work.release()

    def wipe(self) -> None:
        """Erases the status line if one may be there, as far as that goes without waiting."""
        if self._drawn:
            self._drawn = ""
            self._out.write_nowait(f"\x1b[0m{_ERASE}".encode())

    async def _put(self, text: Sequence[str], bell: str = "") -> None:
        """Text above the status line, and the status line as it is now, in one write."""
        async with self._at_work:
            now = trio.current_time()
            drawn, wanted = self._drawn, ""
            if self._live and self._activity:
                seconds = now - self._shown_at
                wanted = status(self._activity, seconds=seconds, frame=self._frame, width=self._width())
            self.due = now + TICK if wanted else math.inf
            if not text and wanted == drawn:
                return
            self._drawn = wanted or drawn  # if the write is cut short, either may be there
            data = "".join((_ERASE if drawn else "", *(f"{line}\n" for line in text), bell, wanted))
            await self._out.write(data.encode("utf-8", "replace"))
            self._drawn = wanted


async def _warn(err: Stream | None, text: str) -> None:
    if err is not None:
        with trio.move_on_after(1), contextlib.suppress(CugginoError):
            await err.write(f"cuggino: {text}\n".encode("utf-8", "backslashreplace"))
