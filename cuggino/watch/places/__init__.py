"""Places where a watch works on items. `watch.item` processes all items alike; a place runs the loop and integrates
its work.

To add a place, write a module with a `Place` and choose it in `open_place`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Literal, Protocol

import msgspec
import trio

from cuggino.backlog import Item
from cuggino.events import Send
from cuggino.loop.context import LoopContext
from cuggino.sandbox.confine import SandboxContext
from cuggino.watch.intervals import WatchIntervals


class ItemWork(msgspec.Struct, frozen=True, kw_only=True):
    """How the work on an item ended.

    "done": its work is integrated, so the item leaves the backlog. "spec-issue": the spec issue is in the project's
    inbox. "blocked": a person must look at it; `reason` says why. `clean_up` deletes session or sandbox, after the item
    has left the backlog.
    """

    end: Literal["done", "spec-issue", "blocked"]
    reason: str = ""
    clean_up: Callable[[], Awaitable[None]]


class Place(Protocol):
    """A place where items are worked on.

    `integrating` is held while work is integrated into the person's tree. The watch holds it during a validation.
    """

    integrating: trio.Lock

    async def prepare(self) -> None:
        """Finish what a killed watch had decided. Called once, before the first item."""
        ...

    async def work(self, context: LoopContext, item: Item, sender: Callable[[str | None], Send]) -> ItemWork:
        """Run the item's loop to its end, and integrate its work. Resume what an earlier watch began.

        Raise LoopError, or another CugginoError, if that fails: the item will be retried. Wait with `context.sleep`,
        and let its exceptions through. Cancelled, keep the work so far for a later watch.
        """
        ...


def open_place(jobs: int, sandboxes: SandboxContext, intervals: WatchIntervals) -> Place:
    """Return the place for a watch that works on up to `jobs` items at a time."""
    if jobs == 1:
        from cuggino.watch.places.here import Here

        return Here(intervals)
    from cuggino.watch.places.sandbox import InSandbox

    return InSandbox(sandboxes, intervals)
