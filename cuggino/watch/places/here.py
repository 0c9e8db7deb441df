"""Work on items in the person's own tree, one at a time."""

from __future__ import annotations

from collections.abc import Callable

import trio

from cuggino.backlog import Item
from cuggino.events import LoopLimitReached, LoopSpecIssue, Send
from cuggino.loop.context import LoopContext
from cuggino.watch.attempts import run_through, session_for
from cuggino.watch.intervals import WatchIntervals
from cuggino.watch.places import ItemWork


class Here:
    """The person's tree."""

    def __init__(self, intervals: WatchIntervals) -> None:
        self.integrating = trio.Lock()
        self._intervals = intervals

    async def prepare(self) -> None:
        """See `Place.prepare`: nothing is left to finish here."""

    async def work(self, context: LoopContext, item: Item, sender: Callable[[str | None], Send]) -> ItemWork:
        """See `Place.work`."""
        session = session_for(context, item)
        last = await run_through(context, session, sender, self._intervals)

        async def clean_up() -> None:
            session.delete()

        if isinstance(last, LoopLimitReached):
            return ItemWork(end="blocked", reason=f"its loop has reached {last.limit} ({last.value:g})", clean_up=_keep)
        return ItemWork(end="spec-issue" if isinstance(last, LoopSpecIssue) else "done", clean_up=clean_up)


async def _keep() -> None:
    """Keep the session: it can be resumed with a higher limit."""
