"""Run the loop of an item: find its session, and wait while the provider is down."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from cuggino.backlog import Item
from cuggino.errors import LlmSessionErrorKind, LoopError
from cuggino.events import AgentWaiting, LoopTerminalEvent, Send
from cuggino.loop.context import LoopContext
from cuggino.loop.loop import run_loop
from cuggino.loop.session import Session, all_sessions
from cuggino.loop.turn import sleep_until
from cuggino.watch.intervals import WatchIntervals

_PROVIDER = (LlmSessionErrorKind.OVERLOADED, LlmSessionErrorKind.NETWORK, LlmSessionErrorKind.USAGE_LIMIT)


def session_for(context: LoopContext, item: Item) -> Session:
    """Return the item's unfinished session if the item has not changed since, else a new one. Delete older ones."""
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
    """Run the loop, and resume it after a pause whenever only the provider failed."""
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
