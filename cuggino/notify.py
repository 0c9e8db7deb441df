"""Telling a program of the person's about events, without the loop noticing.

    async with open_notifier(config.notify, project, children, tell, hurry) as offer:
        offer(session, event)        # never waits, never fails

Events wait in a short queue, and one program runs at a time. What does not fit is left out, a program that hangs
is stopped, and one that fails has failed: all of it is told once, and nothing depends on it.
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

PATIENCE = 10.0
"""Seconds that the program has for one event."""

LAST = 2.0
"""Seconds that what still waits has at the end of the command."""

GRACE = 0.5
"""Seconds between SIGINT and SIGKILL for a program that is stopped."""

_WORDS = 300

Offer: TypeAlias = Callable[[str | None, Event], None]
Run: TypeAlias = Callable[[bytes], Awaitable[str | None]]
"""Runs the program with a line on its stdin, and returns what went wrong."""


@asynccontextmanager
async def open_notifier(
    settings: NotifySettings, project: Project, children: Children, tell: Send, force_kill: trio.Event
) -> AsyncIterator[Offer]:
    """Tell the configured program, in the project's root, of the events that are offered within the block.

    After the block it is not running any more: what waits then has LAST seconds, or until `force_kill`, even if it
    was cancelled. `tell` gets a SystemMessage for the first failure and for the first events that were left out.
    """
    if not settings.command or not settings.events:
        yield _ignore
        return
    run = _program(settings.command, project, children)
    notifier = Notifier(settings.events, settings.command[0], run, tell)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(notifier.run)
        try:
            yield notifier.offer
        finally:
            await notifier.close(force_kill)


class Notifier:
    """The queue, and who empties it. `program` is what its messages call the program."""

    def __init__(self, names: Collection[str], program: str, run: Run, tell: Send) -> None:
        self._names = frozenset(names)
        self._program = program
        self._run = run
        self._tell = tell
        self._put, self._take = trio.open_memory_channel[bytes](CAPACITY)
        self.left_out = 0
        """Events that were wanted and did not fit."""
        self._told_left_out = self._told_failure = False
        self._scope = trio.CancelScope(shield=True)
        self._ended = trio.Event()

    def offer(self, session: str | None, event: Event) -> None:
        """Queue the event if its name is wanted. Never waits, never raises."""
        if type(event).__name__ not in self._names:
            return
        line = encode([LogLine(at=timestamp(), session=session, event=cast(PrintableEvent, event))])
        if line:  # a PingEvent has none
            try:
                self._put.send_nowait(line)
            except trio.WouldBlock:
                self.left_out += 1

    async def run(self) -> None:
        """Until `close`. Shielded: a cancellation from outside is news, too."""
        try:
            with self._take, self._scope:
                async for line in self._take:
                    await self._notify(line)
        finally:
            self._ended.set()

    async def close(self, force_kill: trio.Event) -> None:
        """Take no more, wait a little for what is queued, then stop."""
        self._put.close()
        with trio.move_on_after(LAST, shield=True):
            await wait_any(self._ended.wait, force_kill.wait)
        self._scope.cancel()

    async def _notify(self, line: bytes) -> None:
        failure: str | None = f"it took longer than {PATIENCE:g} s and was stopped"
        with trio.move_on_after(PATIENCE):
            failure = await self._run(line)
        if failure is not None and not self._told_failure:
            self._told_failure = True
            await self._say(f"`{self._program}` of notify.command failed: {failure}. This is told once.")
        if self.left_out and not self._told_left_out:
            self._told_left_out = True
            await self._say(
                f"Events come faster than `{self._program}` of notify.command takes them; it was not told of "
                f"{self.left_out} so far. This is told once."
            )

    async def _say(self, text: str) -> None:
        await self._tell(SystemMessage(text=text))


def _ignore(_session: str | None, _event: Event) -> None:
    """Nobody is to be told."""


def _program(argv: tuple[str, ...], project: Project, children: Children) -> Run:
    async def run(line: bytes) -> str | None:
        output = project.wip / f".{uuid7()}.notify"
        command = Command(argv=argv, cwd=project.root, environment=os.environ, stdin=line, stdout=output)
        try:
            async with children.start(command) as child:
                status = await child.wait()
            if status == 0:
                return None
            words = output.read_text(encoding="utf-8", errors="replace").strip().rpartition("\n")[2]
            return f"it ended with {status}: {words[:_WORDS]}" if words else f"it ended with {status}"
        except OSError as error:
            return str(error)
        finally:
            with contextlib.suppress(OSError):
                output.unlink(missing_ok=True)

    return run
