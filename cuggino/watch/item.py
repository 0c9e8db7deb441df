"""Process one item of the backlog: work on it, retry after failures, and archive or block it."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto
from typing import Literal

from cuggino.backlog import Item, Removal, Unusable, archive, read_item
from cuggino.errors import GitError, GitHubError, LlmSessionErrorKind, LoopError, SandboxError, StorageError
from cuggino.events import (
    Send,
    SystemMessage,
    WatchItemBlocked,
    WatchItemCompleted,
    WatchItemFailed,
    WatchItemNotRemoved,
    WatchProcessingItem,
)
from cuggino.loop.context import LoopContext
from cuggino.watch.intervals import WatchIntervals
from cuggino.watch.ledger import Ledger
from cuggino.watch.places import ItemWork, Place


class ItemOutcome(Enum):
    """How the processing of an item ended."""

    COMPLETED = auto()
    KEPT = auto()
    BLOCKED = auto()
    CANNOT_WORK = auto()
    """The agent is not installed or not logged in: not the item's fault."""


class ItemProcess:
    """Processes items, one call for each."""

    def __init__(self, place: Place, ledger: Ledger, intervals: WatchIntervals) -> None:
        self._place = place
        self._ledger = ledger
        self._intervals = intervals

    async def process(self, context: LoopContext, name: str, sender: Callable[[str | None], Send]) -> ItemOutcome:
        """Have the item with this name worked on, and archive it if it is done.

        After a failure, wait with `context.sleep`. If that raises, or under cancellation, the item and its session stay
        as they are.
        """
        send = sender(None)
        item = read_item(context.project, name)
        if isinstance(item, Item) and self._ledger.is_finished(name, item.digest):
            archive(context.project, item)
            text = f"{name} is back in the backlog as it was when it was done, so it is archived again, not done again."
            await send(SystemMessage(text=f"{text} To have it done again, change it."))
            return ItemOutcome.KEPT
        await send(WatchProcessingItem(filename=name))
        if item is None:
            await send(WatchItemNotRemoved(filename=name, reason="gone"))
            return ItemOutcome.KEPT
        if isinstance(item, Unusable):
            return await self._block(item, item.reason, send)
        try:
            work = await self._place.work(context, item, sender)
        except LoopError as error:
            if error.kind is LlmSessionErrorKind.SETUP:
                return ItemOutcome.CANNOT_WORK
            return await self._failed(context, item, error.message, send)
        except (SandboxError, GitError, GitHubError, StorageError) as error:
            return await self._failed(context, item, str(error), send)
        if work.end == "blocked":
            await work.clean_up()
            if read_item(context.project, name) is None:
                return await self._gone(item, work.reason, send)
            return await self._block(item, work.reason, send)
        self._ledger.clear(name)
        return await self._leave(context, item, work, send)

    async def _leave(self, context: LoopContext, item: Item, work: ItemWork, send: Send) -> ItemOutcome:
        """Archive the item, then clean up. The outcome is stored already, so a crash in between is harmless."""
        removal = Removal.CHANGED if work.end == "spec-issue" else archive(context.project, item)
        if removal is Removal.REMOVED:
            self._ledger.record_finished(item.name, item.digest)
        await work.clean_up()
        if removal is Removal.REMOVED:
            await send(WatchItemCompleted(filename=item.name))
            return ItemOutcome.COMPLETED
        reason: Literal["changed", "spec-issue", "gone"] = "changed" if removal is Removal.CHANGED else "gone"
        if work.end == "spec-issue":
            reason = "spec-issue"
        await send(WatchItemNotRemoved(filename=item.name, reason=reason))
        return ItemOutcome.KEPT

    async def _failed(self, context: LoopContext, item: Item, message: str, send: Send) -> ItemOutcome:
        if read_item(context.project, item.name) is None:
            return await self._gone(item, message, send)
        attempt = self._ledger.record_failure(item.name, item.digest)
        retries = self._intervals.item_retries
        retry_in = retries[attempt - 1] if attempt <= len(retries) else None
        await send(WatchItemFailed(filename=item.name, message=message, attempt=attempt, retry_in=retry_in))
        if retry_in is None:
            return await self._block(item, f"it failed {attempt} times: {message}", send)
        await context.sleep(retry_in)
        return ItemOutcome.KEPT

    async def _gone(self, item: Item, message: str, send: Send) -> ItemOutcome:
        """A person removed the item while it was worked on, so it is neither retried nor blocked."""
        self._ledger.clear(item.name)
        await send(SystemMessage(text=f"{item.name}: {message}"))
        await send(WatchItemNotRemoved(filename=item.name, reason="gone"))
        return ItemOutcome.KEPT

    async def _block(self, item: Item | Unusable, reason: str, send: Send) -> ItemOutcome:
        self._ledger.block(item.name, item.digest, reason)
        await send(WatchItemBlocked(filename=item.name, reason=reason))
        return ItemOutcome.BLOCKED
