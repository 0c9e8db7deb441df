"""The waiting phase of a watch: until something can be done, with idle reports and an audit in the background."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from typing import TypeVar, cast

import trio
from trio_util import AsyncValue, periodic

from cuggino.events import Send, WatchIdle, WatchLoopEvent, WatchPollFailed
from cuggino.watch.counting import BacklogUnreadable, FolderListing, PollHistory
from cuggino.watch.course import Action, Wait, WatchSnapshot

T = TypeVar("T")

Counting = Callable[
    [AsyncValue[tuple[FolderListing, ...] | None], Callable[[int, str], Awaitable[None]], PollHistory],
    Awaitable[None],
]


class Waiting:
    """One waiting phase. It ends with the first action other than `Wait`.

    `count` keeps the listings of the two folders (spec issues, backlog) up to date, with the `polls` of earlier phases
    in mind; `snapshot` and `decide` turn them into the next action. Unless the phase ends at once, `background` (the
    audit) runs until the phase ends: it is cancelled then, and nothing of it is left when `run` returns. `idle_report`
    is the seconds between two `WatchIdle`, or None while items are worked on: then nobody is idle.
    """

    def __init__(
        self,
        *,
        count: Counting,
        polls: PollHistory,
        snapshot: Callable[[tuple[FolderListing, ...]], WatchSnapshot],
        decide: Callable[[WatchSnapshot], Action],
        background: Callable[[], Awaitable[None]] | None,
        send: Send,
        idle_report: float | None,
    ) -> None:
        self._count = count
        self._polls = polls
        self._take_snapshot = snapshot
        self._decide = decide
        self._background = background
        self._send = send
        self._idle_report = idle_report
        self._listings: AsyncValue[tuple[FolderListing, ...] | None] = AsyncValue(None)
        self._snapshot: WatchSnapshot | None = None
        self._sent: type[WatchLoopEvent] | None = None
        self._reporting = False

    async def run(self) -> Action | None:
        """Return the action that ended the phase, or None if the folders could not be read three times in a row."""
        action: Action | None = None
        async with trio.open_nursery() as phase:
            phase.start_soon(self._keep_counting, phase)
            async with aclosing(_closable(self._listings.eventual_values())) as values:
                async for listings in values:
                    if listings is None:
                        continue
                    self._snapshot = self._take_snapshot(listings)
                    action = self._decide(self._snapshot)
                    if not isinstance(action, Wait):
                        break
                    if action.event is None:
                        continue
                    if self._sent is None and self._background is not None:
                        phase.start_soon(self._background)
                    if type(action.event) is not self._sent:
                        self._sent = type(action.event)
                        await self._send(action.event)
                    self._start_reports(phase)
            phase.cancel_scope.cancel(reason="there is something to do")
        return None if isinstance(action, Wait) else action

    async def _keep_counting(self, phase: trio.Nursery) -> None:
        async def failed(attempt: int, message: str) -> None:
            await self._send(WatchPollFailed(attempt=attempt, message=message))
            self._start_reports(phase)

        try:
            await self._count(self._listings, failed, self._polls)
        except BacklogUnreadable:
            phase.cancel_scope.cancel(reason="the folders cannot be read")

    def _start_reports(self, phase: trio.Nursery) -> None:
        if not self._reporting and self._idle_report is not None:
            self._reporting = True
            phase.start_soon(self._report, self._idle_report)

    async def _report(self, seconds: float) -> None:
        async with aclosing(_closable(periodic(seconds))) as times:
            async for elapsed, _ in times:
                blocked = None if self._snapshot is None else self._snapshot.not_ready
                await self._send(WatchIdle(wait_seconds=round(elapsed), blocked=blocked))


def _closable(values: AsyncIterator[T]) -> AsyncGenerator[T, None]:
    """Cast one of trio-util's async generators to its real type: it must be closed in the scope where it started."""
    return cast(AsyncGenerator[T, None], values)
