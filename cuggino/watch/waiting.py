"""The waiting phase: until something can be done, with reports of being idle, and an audit beside it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from typing import TypeVar, cast

import trio
from trio_util import AsyncValue, periodic

from cuggino.events import Send, WatchIdle, WatchLoopEvent, WatchPollFailed
from cuggino.watch.counting import BacklogUnreadable, Counted
from cuggino.watch.course import Action, Known, Wait

T = TypeVar("T")

Counting = Callable[[AsyncValue[tuple[Counted, ...] | None], Callable[[int, str], Awaitable[None]]], Awaitable[None]]


class Waiting:
    """One waiting phase. It ends with the first action that is not to wait.

    `count` keeps the two folders' latest (spec issues, backlog) for as long as the phase lasts; `know` makes of it
    what is known, `decide` what is to be done. `beside` (the audit) runs beside the waiting,
    unless that ends at once; when the phase ends it is cancelled, and nothing of it is left when `run` returns.
    """

    def __init__(
        self,
        *,
        count: Counting,
        know: Callable[[tuple[Counted, ...]], Known],
        decide: Callable[[Known], Action],
        beside: Callable[[], Awaitable[None]] | None,
        send: Send,
        idle_report: float,
    ) -> None:
        self._count = count
        self._know = know
        self._decide = decide
        self._beside = beside
        self._send = send
        self._idle_report = idle_report
        self._counts: AsyncValue[tuple[Counted, ...] | None] = AsyncValue(None)
        self._known: Known | None = None
        self._told: type[WatchLoopEvent] | None = None
        self._reports = False

    async def run(self) -> Action | None:
        """None: the folders could not be read three times in a row, as was told."""
        action: Action | None = None
        async with trio.open_nursery() as phase:
            phase.start_soon(self._keep_counting, phase)
            async with aclosing(_closable(self._counts.eventual_values())) as values:
                async for counts in values:
                    if counts is None:
                        continue
                    self._known = self._know(counts)
                    action = self._decide(self._known)
                    if not isinstance(action, Wait):
                        break
                    if action.told is None:
                        continue
                    if self._told is None and self._beside is not None:
                        phase.start_soon(self._beside)
                    if type(action.told) is not self._told:
                        self._told = type(action.told)
                        await self._send(action.told)
                    self._begin_reports(phase)
            phase.cancel_scope.cancel(reason="there is something to do")
        return None if isinstance(action, Wait) else action

    async def _keep_counting(self, phase: trio.Nursery) -> None:
        async def failed(attempt: int, message: str) -> None:
            await self._send(WatchPollFailed(attempt=attempt, message=message))
            self._begin_reports(phase)

        try:
            await self._count(self._counts, failed)
        except BacklogUnreadable:
            phase.cancel_scope.cancel(reason="the folders cannot be read")

    def _begin_reports(self, phase: trio.Nursery) -> None:
        if not self._reports:
            self._reports = True
            phase.start_soon(self._report)

    async def _report(self) -> None:
        async with aclosing(_closable(periodic(self._idle_report))) as times:
            async for elapsed, _ in times:
                blocked = None if self._known is None else self._known.untakeable
                await self._send(WatchIdle(wait_seconds=round(elapsed), blocked=blocked))


def _closable(values: AsyncIterator[T]) -> AsyncGenerator[T, None]:
    """trio-util's async generators, by their real type: they must be closed in the scope that they began in."""
    return cast(AsyncGenerator[T, None], values)
