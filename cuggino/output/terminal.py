"""The displays of the event hub, for people and for programs. Nothing else writes to stdout during a run."""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import PurePath

import trio

from cuggino import events
from cuggino.errors import CugginoError
from cuggino.events import LogLine, LoopStart, LoopTerminalEvent
from cuggino.output.hub import Display
from cuggino.output.page import Page
from cuggino.output.render import render
from cuggino.output.stream import OutputClosed, Stream
from cuggino.output.text import columns, duration, shorten, visible_name
from cuggino.output.watch import needs_a_person

TICK = 0.25
"""Seconds between two updates of the status line while something is in progress."""

PLAIN_COLUMNS = 120
"""The width without a terminal and without COLUMNS."""

LONGEST_NAME = 16
"""Maximum columns of an item's name in front of its lines."""

FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_AUDITING = "Auditing"
_ERASE = "\r\x1b[K"
_BELL = "\a"


@contextmanager
def open_display(
    *, as_json: bool, live: bool = True, out: int = 1, err: int = 2, environment: Mapping[str, str] = os.environ
) -> Iterator[Display]:
    """Open a display on the two descriptors: JSON lines or text for people.

    Uses colour on a terminal unless NO_COLOR is set; elsewhere only with FORCE_COLOR. Shows a status line on a terminal
    that is not dumb, and removes it however the block ends. Without `live`, shows neither a status line nor a bell.
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
        setting = environment.get("COLUMNS", "")
        columns = int(setting) if setting.isdecimal() and int(setting) else PLAIN_COLUMNS
        screen = Screen(to_out, to_err, colour=colour, live=capable and live, bell=live, columns=columns)
        stack.callback(screen.erase_status)
        yield screen


class JsonLines:
    """`--json`: the lines of the log and nothing else."""

    due = math.inf

    def __init__(self, out: Stream, err: Stream | None) -> None:
        self._out = out
        self._err = err
        self.closed = out.closed
        self.waits_for_reader = not out.is_terminal

    async def show(self, _lines: Sequence[LogLine], encoded: bytes, /) -> None:
        await self._out.write(encoded)

    async def tick(self) -> None:
        """Do nothing: nothing here changes with time."""

    async def finish(self) -> None:
        """Do nothing: everything shown is permanent."""

    async def print(self, _text: Callable[[Page], Sequence[str]], /) -> None:
        """Do nothing: programs read events only."""

    async def warn(self, text: str) -> None:
        await _warn(self._err, text)


class Screen:
    """For people: rendered events, and if `live` a status line below them.

    The status line counts from the last event shown, and its spinner moves only with signs of life. It is erased and
    redrawn in the same write as the text above it. `columns` is the width if the output is not a terminal; a terminal's
    width is read each time, so that a resize takes effect at once.

    If `bell`, the terminal's bell rings when a person is needed, once for each write.
    """

    def __init__(self, out: Stream, err: Stream | None, *, colour: bool, live: bool, bell: bool, columns: int) -> None:
        self._out = out
        self._err = err
        self._colour = colour
        self._live = live
        self._bell = bell and out.is_terminal
        self._columns = columns
        self._prefixes = LinePrefixes()
        self._after_blank = True
        self._activity = ""
        self._last_shown = 0.0
        self._alive = False
        self._frame = 0
        self._drawn = ""
        self._lock = trio.Lock()
        self.due = math.inf
        self.closed = out.closed
        self.waits_for_reader = not out.is_terminal

    def _width(self) -> int:
        return self._out.columns() or self._columns

    async def show(self, lines: Sequence[LogLine], _encoded: bytes, /) -> None:
        width = self._width()
        text: list[str] = []
        bell = self._bell and any(needs_a_person(line.event) for line in lines)
        was_idle = not self._activity
        for line in lines:
            self._alive = True
            self._activity = activity(line.event, self._activity)
            prefix = self._prefixes.add(line)
            rows = render(line.event, width=max(width - columns(prefix), 1), colour=self._colour, at=line.at)
            rows = [prefix + row for row in rows if row] if prefix else rows
            if rows:
                text += rows[1:] if self._after_blank and not rows[0] else rows
                self._after_blank = not rows[-1]
        if text or was_idle:
            self._last_shown = trio.current_time()
            await self._put(text, _BELL if bell else "")

    async def tick(self) -> None:
        if self._alive:
            self._frame += 1
            self._alive = False
        await self._put([])

    async def finish(self) -> None:
        self._activity = ""
        await self._put([])

    async def print(self, text: Callable[[Page], Sequence[str]], /) -> None:
        await self._put(text(Page(self._width(), self._colour)))

    async def warn(self, text: str) -> None:
        with trio.move_on_after(1) as waiting:
            await self._lock.acquire()
        try:
            if self._drawn and not waiting.cancelled_caught:
                with trio.move_on_after(1), contextlib.suppress(CugginoError):
                    await self._out.write(_ERASE.encode())
                    self._drawn = ""
            await _warn(self._err, text)
        finally:
            if not waiting.cancelled_caught:
                self._lock.release()

    def erase_status(self) -> None:
        """Erase the status line, if any, as far as possible without waiting."""
        if self._drawn:
            self._drawn = ""
            self._out.write_nowait(f"\x1b[0m{_ERASE}".encode())

    async def _put(self, text: Sequence[str], bell: str = "") -> None:
        """Write text and the current status line below it, at once."""
        async with self._lock:
            now = trio.current_time()
            drawn, wanted = self._drawn, ""
            if self._live and self._activity:
                seconds = now - self._last_shown
                wanted = status_line(self._activity, seconds=seconds, frame=self._frame, width=self._width())
            self.due = now + TICK if wanted else math.inf
            if not text and wanted == drawn:
                return
            self._drawn = wanted or drawn  # an incomplete write may leave either
            data = "".join((_ERASE if drawn else "", *(f"{line}\n" for line in text), bell, wanted))
            await self._out.write(data.encode("utf-8", "replace"))
            self._drawn = wanted


class LinePrefixes:
    """Names the item that each line belongs to while several loops run. Must be given every line, in order."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}

    def add(self, line: LogLine) -> str:
        """Return the prefix of the rows that show `line`; empty while only one loop runs."""
        session, event = line.session or "", line.event
        if isinstance(event, LoopStart):
            name = PurePath(event.backlog_file).stem if event.backlog_file is not None else event.focus
            self._names[session] = shorten(visible_name(name), LONGEST_NAME)
        name = self._names.get(session, "") if len(self._names) > 1 else ""
        widest = max(map(columns, self._names.values()), default=0)
        if isinstance(event, LoopTerminalEvent):
            self._names.pop(session, None)
        return f"{name}{' ' * (widest - columns(name))} │ " if name else ""


async def _warn(err: Stream | None, text: str) -> None:
    if err is not None:
        with trio.move_on_after(1), contextlib.suppress(CugginoError):
            await err.write(f"cuggino: {text}\n".encode("utf-8", "backslashreplace"))


def activity(event: events.Event, before: str) -> str:
    """Return what is in progress after `event`, empty for nothing. `before` is what was in progress until now.

    An audit continues while the watch waits for files; waiting alone is nothing in progress.
    """
    match event:
        case events.WatchLoopEvent():
            return _watch_activity(event, before)
        case events.LoopTerminalEvent() | events.PermissionError() | events.SpawnCompleted():
            return ""  # nothing runs; a person may be asked
        case events.AgentWaiting() | events.AgentRetry():
            return "Waiting"
        case events.SystemMessage() if not before:  # a warning alone: no agent need be alive
            return ""
        case events.LlmAgentEvent() | events.LlmMarkerEvent() if before == _AUDITING:
            return before
        case events.LLMStarted() | events.LlmAgentEvent() | events.LlmMarkerEvent() | events.LoopPhaseEvent():
            return "Working"
    return before


def _watch_activity(event: events.WatchLoopEvent, before: str) -> str:
    match event:
        case events.WatchProcessingItem():
            return "Working"
        case events.WatchItemFailed() if event.retry_in is not None:
            return "Waiting"
        case events.WatchAuditStarted():
            return _AUDITING
        case events.WatchSpecIssueWaiting() | events.WatchBacklogWaiting() | events.WatchIdle():
            return before if before == _AUDITING else ""
        case events.WatchValidationStarted():
            return "Validating"
        case events.WatchStopping() | events.WatchTbdItemFound() | events.WatchPollFailed():
            return before
    return ""  # an item, the audit, a validation or the watch ended


def status_line(activity: str, *, seconds: float, frame: int, width: int) -> str:
    """Format as `⠹ Working… (1m 30s)`, at least one column narrower than the terminal: a full line would wrap."""
    return shorten(f"{FRAMES[frame % len(FRAMES)]} {activity}… ({duration(seconds)})", width - 1)
