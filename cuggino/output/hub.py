"""The one receiver of events: what every service sends ends here, is logged, and is shown.

    with trio.CancelScope() as interrupted:                   # what a signal cancels
        async with open_hub(log=path, display=display) as hub:
            await run_loop(..., send=hub.sender(session))
    await display.say(partial(render_summary, tally.summary(...)))   # the hub has ended

The hub's own task is shielded from a cancellation that comes from outside: it goes on while the block's
body cleans up, receives what the body still sends, and ends when the block ends. So the block may stand
inside the scope that a signal cancels, and should: then a signal also ends the wait for a slow reader.

One hop: a producer puts a stamped line into one bounded channel. The hub takes all that is there,
encodes it at once and writes it once. A display that falls behind holds the producers, never the thread:
memory stays flat, and timers and signals go on. The log is written before anything is shown.
"""

from __future__ import annotations

import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Protocol, cast

import trio

from cuggino.clock import timestamp
from cuggino.errors import CugginoError
from cuggino.events import Event, LogLine, PrintableEvent, Send
from cuggino.output.jsonlines import LogFile, encode
from cuggino.output.page import Page
from cuggino.output.stream import OutputClosed

CAPACITY = 64
"""Lines that producers may be ahead of the hub."""

FLUSH = 2.0
"""Seconds that a display has, at the end, to take what is left; only a patient one has longer."""


class Display(Protocol):
    """Where events are shown. One task at a time uses it: the hub's, then its owner's; but any may `warn`.

    `show`, `tick`, `rest` and `say` may raise a CugginoError (OutputClosed, say): nothing is shown after that.
    """

    @property
    def patient(self) -> bool:
        """At the end, wait until the reader has taken everything, unless cancelled: a pipe, not a terminal."""

    @property
    def due(self) -> float:
        """When `tick` wants to be called, as Trio's time; infinity: not before the next event."""

    async def show(self, lines: Sequence[LogLine], encoded: bytes, /) -> None:
        """`encoded` is the same lines as the log has them, PingEvents left out. Must not block the thread."""

    async def tick(self) -> None:
        """Time has passed and nothing came."""

    async def rest(self) -> None:
        """Everything was shown: nothing may stay on the screen that was not meant to."""

    async def say(self, text: Callable[[Page], Sequence[str]], /) -> None:
        """Lines for people, after the hub has ended: a summary. Where programs read, nothing."""

    async def warn(self, text: str) -> None:
        """A line on stderr. Does its best; never raises, never waits long."""

    async def closed(self) -> None:
        """Returns when nobody can read the output any more; where only a write can tell, never."""


@asynccontextmanager
async def open_hub(*, log: Path | None, display: Display, now: Callable[[], float] = time.time) -> AsyncIterator[Hub]:
    """A hub for the time of the block.

    After the block everything that was sent is in `log` (None: no log), and was shown, if the display took
    it: one that is patient is waited for, another has FLUSH seconds; so has a patient one once the surrounding scope is
    cancelled. A log that cannot be written is told once on stderr, and the run goes on.

    When nobody can read the output any more, the body is cancelled, what it still sends is logged,
    and OutputClosed comes out of the block; likewise any other CugginoError of the display. As with every
    nursery, errors come in an exception group. `now` gives seconds since the epoch.
    """
    hub = Hub(LogFile(log) if log is not None else None, display, now)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(hub._run)
        nursery.start_soon(hub._notice_closed_output)
        try:
            with hub._body:
                yield hub
        finally:
            hub._send.close()
            try:
                if display.patient:
                    await hub._ended.wait()
            finally:
                hub._pace.deadline = trio.current_time() + FLUSH
                nursery.cancel_scope.cancel()  # all but _run, which is shielded and now bounded


class Hub:
    """Made by open_hub."""

    def __init__(self, log: LogFile | None, display: Display, now: Callable[[], float]) -> None:
        self._send, self._receive = trio.open_memory_channel[LogLine](CAPACITY)
        self._log = log
        self._log_failed = False
        self._session_logs: dict[str, LogFile] = {}
        self._display = display
        self._display_error: CugginoError | None = None
        self._now = now
        self._body = trio.CancelScope()
        self._pace = trio.CancelScope(shield=True)
        self._ended = trio.Event()
        self._sent = 0
        self._passed_on = 0
        self._more_passed_on = trio.Event()

    def log_session(self, session: str, path: Path) -> None:
        """Append the lines of this session, from now on, to a file of its own, too."""
        self._session_logs[session] = LogFile(path)

    def sender(self, session: str | None) -> Send:
        """A `Send` for one session; each event is stamped with the time of the call.

        A checkpoint only when the hub is behind. While there is room it also works in a cancelled scope, so
        that a service's last words are not lost. Good until the end of the hub's block.
        """
        send_nowait, send, now = self._send.send_nowait, self._send.send, self._now

        async def send_event(event: Event) -> None:
            line = LogLine(at=timestamp(now()), session=session, event=cast(PrintableEvent, event))
            try:
                send_nowait(line)
            except trio.WouldBlock:
                await send(line)
            self._sent += 1

        return send_event

    async def shown(self) -> None:
        """Until all that was sent so far is logged, and shown if the display takes it."""
        sent = self._sent
        while self._passed_on < sent:
            await self._more_passed_on.wait()

    async def _run(self) -> None:
        """Until the channel is closed and empty, or the time is up; raises what made the display fail."""
        try:
            with self._receive:
                with self._pace:
                    await self._pass_on()
                waiting = self._waiting()
                await self._write_logs(waiting, encode(waiting))  # time is up: what is left is logged at least
        finally:
            self._ended.set()
            for log in (self._log, *self._session_logs.values()):
                if log is not None:
                    log.close()
        if self._display_error is not None:
            raise self._display_error

    async def _pass_on(self) -> None:
        while True:
            batch: list[LogLine] = []
            with trio.move_on_at(self._display.due if self._display_error is None else math.inf):
                try:
                    batch.append(await self._receive.receive())
                except trio.EndOfChannel:
                    break
            if not batch:
                await self._show(self._display.tick)
                continue
            batch += self._waiting()
            encoded = encode(batch)
            await self._write_logs(batch, encoded)
            await self._show(partial(self._display.show, batch, encoded))
            self._passed_on += len(batch)
            self._more_passed_on.set()
            self._more_passed_on = trio.Event()
        await self._show(self._display.rest)

    def _waiting(self) -> list[LogLine]:
        lines: list[LogLine] = []
        try:
            while True:
                lines.append(self._receive.receive_nowait())
        except (trio.WouldBlock, trio.EndOfChannel):
            return lines

    async def _write_logs(self, lines: list[LogLine], encoded: bytes) -> None:
        await self._write_log(self._log, encoded)
        for session, log in self._session_logs.items():
            await self._write_log(log, encode([line for line in lines if line.session == session]))

    async def _write_log(self, log: LogFile | None, encoded: bytes) -> None:
        if log is None or not encoded:
            return
        error = log.append(encoded)
        if error is not None and not self._log_failed:
            self._log_failed = True
            await self._display.warn(f"The log cannot be written, the run goes on without it: {error}")

    async def _show(self, action: Callable[[], Awaitable[None]]) -> None:
        if self._display_error is None:
            try:
                await action()
            except CugginoError as error:
                self._fail(error)

    def _fail(self, error: CugginoError) -> None:
        self._display_error = self._display_error or error
        self._body.cancel()

    async def _notice_closed_output(self) -> None:
        await self._display.closed()
        self._fail(OutputClosed())
