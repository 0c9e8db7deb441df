"""Run a loop from Python and read its events, in a script or in any async program.

    from cuggino import api

    with api.run("the CSV export, see .specs/export.md", root="~/project") as loop:
        for event in loop:
            print(type(event).__name__)
    print(loop.outcome)

In an asyncio or Trio program: `async with api.run(...) as loop: async for event in loop: ...`. cuggino itself always
runs on Trio, in a thread of its own. Leaving the block early interrupts the loop as Ctrl+C does: its agents are gone
when the block has ended, and the session can be resumed (`resume=True`).
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import AbstractContextManager, suppress
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

import anyio.from_thread
import anyio.to_thread
import trio

from cuggino.errors import CugginoError, UsageError, leaves
from cuggino.events import LogLine, LoopTerminalEvent, PrintableEvent
from cuggino.loop.session import Session, find_session
from cuggino.output.summary import RunTally
from cuggino.project import Project
from cuggino.runtime import Invocation, open_runtime
from cuggino.trust import find_project

__all__ = ["LoopRun", "run"]


def run(
    focus: str | None = None, *, root: Path | str = ".", review: str | None = None, resume: bool | str = False
) -> LoopRun:
    """Return a loop like that of `cuggino run`, in the project that contains `root`. It starts with its block.

    Give either `focus`, with a person's `review` if there is one, or `resume`: True for the latest unfinished session,
    or the beginning of an ID. Raise UsageError otherwise.
    """
    if (focus is None) is (resume is False):
        raise UsageError("Give either a focus or resume.")
    return LoopRun(find_project(Path(root).expanduser()), focus, review, resume)


class LoopRun:
    """A loop and its events, for one `with` or `async with` block and one iteration.

    The iteration yields every event in order and ends after the loop's last one; then it raises the loop's error, if
    it failed. The loop runs at most 64 events ahead.
    """

    def __init__(self, project: Project, focus: str | None, review: str | None, resume: bool | str) -> None:
        self._project = project
        self._focus = focus
        self._review = review
        self._resume = resume
        self._outcome: LoopTerminalEvent | None = None
        self._portal: AbstractContextManager[anyio.from_thread.BlockingPortal] | None = None
        self._call: Callable[..., PrintableEvent | None] | None = None
        self._finished: Future[None] | None = None
        self._events, self._receive = trio.open_memory_channel[PrintableEvent](0)

    @property
    def outcome(self) -> LoopTerminalEvent:
        """The loop's last event. Raise CugginoError before the iteration has ended by itself."""
        if self._outcome is None:
            raise CugginoError("The loop has not ended yet.")
        return self._outcome

    # ---- for scripts

    def __enter__(self) -> Self:
        self._portal = anyio.from_thread.start_blocking_portal(backend="trio")
        portal = self._portal.__enter__()
        self._finished = portal.start_task_soon(self._work)
        self._call = partial(portal.call, self._next)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._finished is not None
        assert self._portal is not None
        self._finished.cancel()
        self._portal.__exit__(None, None, None)

    def __iter__(self) -> Iterator[PrintableEvent]:
        while (event := self._take()) is not None:
            yield event

    # ---- for async programs

    async def __aenter__(self) -> Self:
        return await anyio.to_thread.run_sync(self.__enter__)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(self.__exit__, None, None, None)

    async def __aiter__(self) -> AsyncIterator[PrintableEvent]:
        while (event := await anyio.to_thread.run_sync(self._take, abandon_on_cancel=True)) is not None:
            yield event

    # ---- what runs in the other thread

    def _take(self) -> PrintableEvent | None:
        """Return the next event, or None at the end. Raise the loop's error there."""
        assert self._call is not None
        assert self._finished is not None
        event = self._call()
        if event is None:
            with suppress(CancelledError):
                self._finished.result()
        return event

    async def _next(self) -> PrintableEvent | None:
        try:
            return await self._receive.receive()
        except trio.EndOfChannel:
            return None

    async def _work(self) -> None:
        with self._events:
            try:
                async with open_runtime(
                    self._project, Invocation(name="cuggino.api"), _Listener(self._events), RunTally(), trio.Event()
                ) as runtime:
                    self._outcome = await runtime.loop(self._session())
            except ExceptionGroup as group:
                raise next(leaves(group)) from group

    def _session(self) -> Session:
        if self._focus is None:
            return find_session(self._project, self._resume if isinstance(self._resume, str) else None)
        return Session.create(self._project, self._focus, review=self._review)


class _Listener:
    """The hub's display: passes events to the iteration."""

    waits_for_reader = True
    due = math.inf

    def __init__(self, events: trio.MemorySendChannel[PrintableEvent]) -> None:
        self._events = events

    async def show(self, lines: Sequence[LogLine], _encoded: bytes, /) -> None:
        for line in lines:
            await self._events.send(line.event)

    async def tick(self) -> None:
        """Never due."""

    async def finish(self) -> None:
        """Nothing to clear."""

    async def print(self, _text: object, /) -> None:
        """Events only."""

    async def warn(self, text: str) -> None:
        """The log cannot be written: the loop continues, as it does in a terminal."""

    async def closed(self) -> None:
        await trio.sleep_forever()
