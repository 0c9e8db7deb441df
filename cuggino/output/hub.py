"""The event hub: logs and shows the events that every service sends.

    with trio.CancelScope() as interrupted:                   # what a signal cancels
        async with open_hub(log=path, display=display) as hub:
            await run_loop(..., send=hub.sender(session))
    await display.print(partial(render_summary, tally.summary(...)))   # the hub has ended

The hub's own task is shielded from outer cancellation: while the block's body cleans up, the hub still receives what
the body sends, and it ends when the block ends. So put the block inside the scope that a signal cancels: the signal
then also ends the wait for a slow reader.

One hop: a producer puts a stamped line into one bounded channel. The hub takes everything in it, encodes it at once
and writes it once. A slow display holds the producers, never the thread: memory stays flat, timers and signals keep
working. The log is written before anything is shown.
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
from trio_util import AsyncValue

from cuggino.clock import timestamp
from cuggino.errors import CugginoError
from cuggino.events import Event, LogLine, PrintableEvent, Send
from cuggino.output.jsonlines import LogFile, encode
from cuggino.output.page import Page
from cuggino.output.stream import OutputClosed

CAPACITY = 64
"""Maximum number of lines that producers can be ahead of the hub."""

FLUSH = 2.0
"""Seconds that a display has at the end to show the rest, unless it waits for its reader."""


class Display(Protocol):
    """Shows events. Used by one task at a time: the hub's, then its owner's; any task may call `warn`.

    `show`, `tick`, `finish` and `print` may raise a CugginoError such as OutputClosed; nothing is shown after that.
    """

    @property
    def waits_for_reader(self) -> bool:
        """Whether the hub waits at the end until the reader has everything: for a pipe, not for a terminal."""

    @property
    def due(self) -> float:
        """When to call `tick`, in Trio's time; infinity: not before the next event."""

    async def show(self, lines: Sequence[LogLine], encoded: bytes, /) -> None:
        """Show `lines`. `encoded` is the same lines as logged, without PingEvents. Must not block the thread."""

    async def tick(self) -> None:
        """Update what changes with time."""

    async def finish(self) -> None:
        """Remove everything temporary from the screen: all events were shown."""

    async def print(self, text: Callable[[Page], Sequence[str]], /) -> None:
        """Print lines for people, such as a summary, after the hub has ended. For programs, print nothing."""

    async def warn(self, text: str) -> None:
        """Print a line on stderr, if possible within 2 seconds. Never raises."""

    async def closed(self) -> None:
        """Return when nobody can read the output any more; never return if only a write can detect that."""


@asynccontextmanager
async def open_hub(
    *, log: Path | None, display: Display, now: Callable[[], float] = time.time
) -> AsyncIterator[EventHub]:
    """Run a hub for the length of the block.

    After the block, everything that was sent is in `log` (None: no log). It was also shown, if the display could take
    it in time: without limit if the display waits for its reader and the surrounding scope is not cancelled, else in
    FLUSH seconds. If the log cannot be written, the hub warns once on stderr and continues.

    When nobody can read the output any more, the body is cancelled, what it still sends is logged, and the block raises
    OutputClosed; likewise for any other CugginoError of the display. As with every nursery, errors come in an exception
    group. `now` returns seconds since the epoch.
    """
    hub = EventHub(LogFile(log) if log is not None else None, display, now)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(hub._run)
        nursery.start_soon(hub._notice_closed_output)
        try:
            with hub._body:
                yield hub
        finally:
            hub._send.close()
            try:
                if display.waits_for_reader:
                    await hub._ended.wait()
            finally:
                hub._pace.deadline = trio.current_time() + FLUSH
                nursery.cancel_scope.cancel()  # all except _run, which is shielded and now bounded


class EventHub:
    """Created by open_hub."""

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
        self._handled = AsyncValue(0)

    def log_session(self, session: str, path: Path) -> None:
        """Append the lines of this session, from now on, to a file of its own, too."""
        self._session_logs[session] = LogFile(path)

    def sender(self, session: str | None) -> Send:
        """Return a `Send` for one session; each event is stamped with the time of the call.

        A checkpoint only when the hub is behind. While the channel has room, sending also works in a cancelled scope,
        so that a service's last events are not lost. Valid until the end of the hub's block.
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
        """Wait until everything sent so far is logged, and shown if the display can."""
        sent = self._sent
        await self._handled.wait_value(lambda handled: handled >= sent)

    async def _run(self) -> None:
        """Handle events until the channel is closed and empty or the time is up; raise the display's error, if any."""
        try:
            with self._receive:
                with self._pace:
                    await self._handle_batches()
                waiting = self._take_waiting()
                await self._write_logs(waiting, encode(waiting))  # out of time: log the rest at least
        finally:
            self._ended.set()
            for log in (self._log, *self._session_logs.values()):
                if log is not None:
                    log.close()
        if self._display_error is not None:
            raise self._display_error

    async def _handle_batches(self) -> None:
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
            batch += self._take_waiting()
            encoded = encode(batch)
            await self._write_logs(batch, encoded)
            await self._show(partial(self._display.show, batch, encoded))
            self._handled.value += len(batch)
        await self._show(self._display.finish)

    def _take_waiting(self) -> list[LogLine]:
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
            await self._display.warn(f"Cannot write the log; continuing without it: {error}")

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
