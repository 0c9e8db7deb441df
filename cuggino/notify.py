"""Notifications: a program of the person's runs for some events, and the loop never waits for it.

    async with open_notifier(settings, project, children, send, force_kill) as notify:
        notify(session, event)        # never waits, never fails

Events wait in a short queue, and one program runs at a time. Events that do not fit are dropped, a program that hangs
is stopped, and failures do not matter: the first of each kind is reported, nothing more.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager
from typing import TypeAlias, cast

import trio
from trio_util import wait_any

from cuggino.clock import timestamp, uuid7
from cuggino.config import NotifySettings
from cuggino.events import Event, LogLine, PrintableEvent, Send, SystemMessage
from cuggino.output.jsonlines import encode
from cuggino.process.children import Children, Command
from cuggino.project import Project

CAPACITY = 32
"""Events that may wait."""

TIMEOUT = 10.0
"""Seconds that the program has for one event."""

DRAIN_TIMEOUT = 2.0
"""Seconds that queued events have at the end of the command."""

GRACE = 0.5
"""Seconds between SIGINT and SIGKILL for a program that is stopped."""

_MESSAGE_LENGTH = 300

Notify: TypeAlias = Callable[[str | None, Event], None]
Run: TypeAlias = Callable[[bytes], Awaitable[str | None]]
"""Runs the program with a line on its stdin, and returns what went wrong."""


@asynccontextmanager
async def open_notifier(
    settings: NotifySettings, project: Project, children: Children, send: Send, force_kill: trio.Event
) -> AsyncIterator[Notify]:
    """Run the configured program, in the project's root, for the events that are passed in while the block runs.

    After the block it is not running any more: queued events have DRAIN_TIMEOUT seconds, or until `force_kill`, even
    if the block was cancelled. `send` gets a SystemMessage for the first failure and the first dropped events.
    """
    if not settings.command or not settings.events:
        yield lambda _session, _event: None
        return
    run = _program(settings.command, project, children)
    notifier = Notifier(settings.events, settings.command[0], run, send)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(notifier.run)
        try:
            yield notifier.notify
        finally:
            await notifier.close(force_kill)


class Notifier:
    """The queue and the task that empties it. Messages call the program `program`."""

    def __init__(self, names: Collection[str], program: str, run: Run, send: Send) -> None:
        self._names = frozenset(names)
        self._program = program
        self._run = run
        self._send = send
        self._put, self._take = trio.open_memory_channel[bytes](CAPACITY)
        self.dropped = 0
        """Events that should have been passed on and did not fit."""
        self._reported_dropped = self._reported_failure = False
        self._scope = trio.CancelScope(shield=True)
        self._ended = trio.Event()

    def notify(self, session: str | None, event: Event) -> None:
        """Queue the event if its name is configured. Never waits, never raises."""
        if type(event).__name__ not in self._names:
            return
        line = encode([LogLine(at=timestamp(), session=session, event=cast(PrintableEvent, event))])
        if line:  # a PingEvent has none
            try:
                self._put.send_nowait(line)
            except trio.WouldBlock:
                self.dropped += 1

    async def run(self) -> None:
        """Pass events on until `close`. Shielded, since a cancellation from outside causes events, too."""
        try:
            with self._take, self._scope:
                async for line in self._take:
                    await self._pass_on(line)
        finally:
            self._ended.set()

    async def close(self, force_kill: trio.Event) -> None:
        """Accept no more events, wait a little for the queued ones, then stop."""
        self._put.close()
        with trio.move_on_after(DRAIN_TIMEOUT, shield=True):
            await wait_any(self._ended.wait, force_kill.wait)
        self._scope.cancel()

    async def _pass_on(self, line: bytes) -> None:
        failure: str | None = f"it took longer than {TIMEOUT:g} s and was stopped"
        with trio.move_on_after(TIMEOUT):
            failure = await self._run(line)
        if failure is not None and not self._reported_failure:
            self._reported_failure = True
            text = f"`{self._program}` of notify.command failed: {failure}. Further failures are not reported."
            await self._send(SystemMessage(text=text))
        if self.dropped and not self._reported_dropped:
            self._reported_dropped = True
            text = (
                f"`{self._program}` of notify.command is too slow: {self.dropped} events were dropped so far. "
                "Further ones are not reported."
            )
            await self._send(SystemMessage(text=text))


def _program(argv: tuple[str, ...], project: Project, children: Children) -> Run:
    async def run(line: bytes) -> str | None:
        output = project.wip / f".{uuid7()}.notify"
        command = Command(argv=argv, cwd=project.root, environment=os.environ, stdin=line, stdout=output)
        try:
            async with children.start(command) as child:
                status = await child.wait()
            if status == 0:
                return None
            message = output.read_text(encoding="utf-8", errors="replace").strip().rpartition("\n")[2]
            return f"it exited with {status}" + (f": {message[:_MESSAGE_LENGTH]}" if message else "")
        except OSError as error:
            return str(error)
        finally:
            with contextlib.suppress(OSError):
                output.unlink(missing_ok=True)

    return run
