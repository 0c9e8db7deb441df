"""The audit: an agent that looks for questions that a person should decide, while there is nothing else to do."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable

import trio

from cuggino.agents.activity_timeout import ActivityLimits, ActivityTimeout
from cuggino.agents.agent import AgentOptions
from cuggino.agents.exit_report import delete_output
from cuggino.agents.prompts import fill
from cuggino.clock import uuid7
from cuggino.errors import CugginoError
from cuggino.events import (
    Event,
    Send,
    SystemMessage,
    ToBeDiscussed,
    WatchAuditEnded,
    WatchAuditFailed,
    WatchAuditInterrupted,
    WatchAuditStarted,
    WatchTbdItemFound,
)
from cuggino.files import write_atomic
from cuggino.items import list_items
from cuggino.loop.context import LoopContext
from cuggino.roles import Role

REPORT_TIMEOUT = 1.0
"""Seconds for sending the event of an interruption while everything else is being stopped."""


async def audit(context: LoopContext, sender: Callable[[str | None], Send]) -> bool:
    """Run one audit, and return whether it ended by itself. A failure becomes an event and is not raised.

    Each finding is on disk before its event. When cancelled, leave no process alive.
    """
    send = sender(None)
    await send(WatchAuditStarted())
    try:
        why = await _run(context, sender)
    except CugginoError as error:
        why = str(error)
    finally:
        if trio.current_effective_deadline() == -math.inf:
            with trio.move_on_after(REPORT_TIMEOUT, shield=True):
                await send(WatchAuditInterrupted())
    await trio.lowlevel.checkpoint_if_cancelled()
    await send(WatchAuditEnded() if why is None else WatchAuditFailed(message=why))
    return why is None


async def code_fingerprint(context: LoopContext) -> str:
    """Return a fingerprint of the code that an audit looks at: the commit, and the working tree with its specs."""
    git = context.git
    return f"{await git.head()} {await git.tree_fingerprint([context.project.state_dir])}"


def audit_fingerprint(context: LoopContext, code: str) -> str:
    """Return a fingerprint of all that an audit looks at: the code, and the findings known by now."""
    seen = [code, *list_items(context.project.tbd)]
    return hashlib.sha256("\0".join(seen).encode(errors="surrogateescape")).hexdigest()


async def _run(context: LoopContext, sender: Callable[[str | None], Send]) -> str | None:
    """Return why it failed, or None."""
    project, config, git = context.project, context.config, context.git
    session = uuid7()
    send = sender(session)
    activity = ActivityTimeout(ActivityLimits.of(config.limits), send)

    async def handle(event: Event) -> None:
        await activity.pass_on(event)
        if isinstance(event, ToBeDiscussed):
            name = f"{uuid7()}.md"
            write_atomic(project.tbd / name, f"{event.content}\n")
            await sender(None)(WatchTbdItemFound(content=event.content, filename=name))

    prompt = fill(Role.AUDIT, {"specs": str(project.root / config.specs_path), "findings": str(project.tbd)})
    output = project.wip / f".{session}.audit.out"
    before = await git.tree_fingerprint([project.state_dir])
    activity.begin()
    try:
        with activity.scope:
            await context.agent(Role.AUDIT).spawn(
                AgentOptions(
                    role=Role.AUDIT,
                    cwd=project.root,
                    prompt=prompt.task,
                    output=output,
                    system_prompt=prompt.standing,
                    model=config.model,
                    budget_usd=config.limits.max_cost_usd,
                ),
                handle,
            )
    finally:
        delete_output(output)
    if (verdict := activity.verdict()) is not None:
        return f"The auditor was stopped: {verdict}"
    if await git.tree_fingerprint([project.state_dir]) != before:
        await send(SystemMessage(text="The working tree changed while the read-only auditor ran."))
    return None
