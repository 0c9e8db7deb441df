"""Where a watch works on items. An item goes one way (`watch.item`); a place says where its loop runs and what becomes
of its work.

To add a place, write a module with a `Place` and choose it in `open_place`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Literal, Protocol

import msgspec

from cuggino.backlog import Item
from cuggino.events import Send
from cuggino.loop.context import LoopContext
from cuggino.sandbox.confine import SandboxContext
from cuggino.watch.intervals import WatchIntervals


class ItemWork(msgspec.Struct, frozen=True, kw_only=True):
    """What came of the work on an item.

    "done": its work is where it belongs, and the item leaves the backlog. "spec-issue": its spec issue is in the
    project's inbox. "blocked": a person must look at it, `reason` says why. `clean_up` removes what is left of the
    work, after the item has left the backlog.
    """

    end: Literal["done", "spec-issue", "blocked"]
    reason: str = ""
    clean_up: Callable[[], Awaitable[None]]


class Place(Protocol):
    """Where items are worked on."""

    async def prepare(self) -> None:
        """Finish what a watch that was killed had decided. Called once, before the first item."""
        ...

    async def work(self, context: LoopContext, item: Item, sender: Callable[[str | None], Send]) -> ItemWork:
        """Run the item's loop to its end, and integrate its work; resume what an earlier watch began.

        Raises LoopError, or another CugginoError, when that failed: the item is tried again. Waits by
        `context.sleep`: what that raises comes out of here. Cancelled, what was done so far is kept for a later watch.
        """
        ...


def open_place(jobs: int, sandboxes: SandboxContext, intervals: WatchIntervals) -> Place:
    """Return the place for a watch that works on `jobs` items at a time."""
    if jobs == 1:
        from cuggino.watch.places.here import Here

        return Here(intervals)
    from cuggino.watch.places.sandbox import InSandbox

    return InSandbox(sandboxes, intervals)
