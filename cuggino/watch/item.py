"""One item: the loop over it, as often as it takes, and what becomes of its file."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from enum import Enum, auto
from typing import TypeAlias

from cuggino.backlog import Item, Removal, Unusable, archive, read_item
from cuggino.errors import LlmSessionErrorKind, LoopError
from cuggino.events import (
    AgentWaiting,
    LoopLimitReached,
    LoopSpecIssue,
    LoopTerminalEvent,
    Send,
    WatchItemBlocked,
    WatchItemCompleted,
    WatchItemFailed,
    WatchItemNotRemoved,
    WatchProcessingItem,
)
from cuggino.loop.context import LoopContext
from cuggino.loop.loop import run_loop
from cuggino.loop.session import Session, all_sessions
from cuggino.loop.turn import sleep_until
from cuggino.watch.intervals import WatchIntervals
from cuggino.watch.ledger import Ledger

_PROVIDER = (LlmSessionErrorKind.OVERLOADED, LlmSessionErrorKind.NETWORK, LlmSessionErrorKind.USAGE_LIMIT)


class Result(Enum):
    """What processing an item came to."""

    COMPLETED = auto()
    KEPT = auto()
    BLOCKED = auto()
    CANNOT_WORK = auto()


Process: TypeAlias = Callable[[LoopContext, Ledger, str, Callable[[str | None], Send]], Awaitable[Result]]
"""Who works on an item: `process`, or another with the same promises."""


async def process(
    context: LoopContext,
    ledger: Ledger,
    name: str,
    sender: Callable[[str | None], Send],
    *,
    intervals: WatchIntervals = WatchIntervals(),  # noqa: B008 - frozen
) -> Result:
    """Have the loop work on the item of this name; returns what became of it.

    Waits for a provider that is down, and after a failure, by `context.sleep`: what that raises comes out of
    here, and the item and its session stay as they are. So they do under cancellation.
    """
    send = sender(None)
    await send(WatchProcessingItem(filename=name))
    item = read_item(context.project, name)
    if item is None:
        await send(WatchItemNotRemoved(filename=name, reason="gone"))
        return Result.KEPT
    if isinstance(item, Unusable):
        return await block(ledger, item, item.reason, send)
    session = session_for(context, item)
    try:
        last = await run_through(context, session, sender, intervals)
    except LoopError as error:
        if error.kind is LlmSessionErrorKind.SETUP:
            return Result.CANNOT_WORK
        return await failed(context, ledger, item, error, send, intervals)
    if isinstance(last, LoopLimitReached):
        return await block(ledger, item, f"its loop has reached {last.limit} ({last.value:g})", send)
    ledger.clear(name)
    return await _leave(context, session, item, last, send)


def session_for(context: LoopContext, item: Item) -> Session:
    """The item's unfinished session if it is about this content, else a new one. Older ones of the item go."""
    for session in all_sessions(context.project):
        if session.state.backlog_file == item.name and session.state.ended is None:
            if session.state.backlog_hash == item.digest:
                return session
            session.delete()
    focus = f"@{context.project.backlog / item.name}"
    return Session.create(context.project, focus, backlog_file=item.name, backlog_hash=item.digest)


async def run_through(
    context: LoopContext, session: Session, sender: Callable[[str | None], Send], intervals: WatchIntervals
) -> LoopTerminalEvent:
    """The loop, gone on with for as long as only the provider is to blame."""
    outages, pauses = 0, intervals.provider_pauses
    while True:
        send = sender(session.id)
        before = session.state.course
        try:
            return await run_loop(context, session, send)
        except LoopError as error:
            if error.kind not in _PROVIDER:
                raise
            if session.state.course != before:
                outages = 0
            pause = pauses[min(outages, len(pauses) - 1)]
            outages += 1
            until = context.now() + timedelta(seconds=pause)
            await send(AgentWaiting(iteration=session.state.course.iteration, until=until, reason=error.message))
            await sleep_until(until, context)


async def _leave(context: LoopContext, session: Session, item: Item, last: LoopTerminalEvent, send: Send) -> Result:
    """The loop is over, and that is on disk: first the file moves, then the session's files go."""
    if isinstance(last, LoopSpecIssue):
        session.delete()
        await send(WatchItemNotRemoved(filename=item.name, reason="spec-issue"))
        return Result.KEPT
    removal = archive(context.project, item)
    session.delete()
    match removal:
        case Removal.REMOVED:
            await send(WatchItemCompleted(filename=item.name))
            return Result.COMPLETED
        case Removal.CHANGED:
            await send(WatchItemNotRemoved(filename=item.name, reason="changed"))
        case Removal.GONE:
            await send(WatchItemNotRemoved(filename=item.name, reason="gone"))
    return Result.KEPT


async def failed(
    context: LoopContext, ledger: Ledger, item: Item, error: LoopError, send: Send, intervals: WatchIntervals
) -> Result:
    attempt = ledger.record_failure(item.name, item.digest)
    retries = intervals.item_retries
    retry_in = retries[attempt - 1] if attempt <= len(retries) else None
    await send(WatchItemFailed(filename=item.name, message=error.message, attempt=attempt, retry_in=retry_in))
    if retry_in is None:
        return await block(ledger, item, f"it failed {attempt} times: {error.message}", send)
    await context.sleep(retry_in)
    return Result.KEPT


async def block(ledger: Ledger, item: Item | Unusable, reason: str, send: Send) -> Result:
    ledger.block(item.name, item.digest, reason)
    await send(WatchItemBlocked(filename=item.name, reason=reason))
    return Result.BLOCKED
