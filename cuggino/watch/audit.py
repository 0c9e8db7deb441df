"""The audit: an agent that looks for what a person should judge, while nothing else is to be done."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable

import trio

from cuggino.agents.activity_timeout import ActivityTimeout
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
from cuggino.loop.loop import LoopContext
from cuggino.roles import Role

LAST_WORDS = 1.0
"""Seconds that telling of an interruption may take while everything else is being stopped."""


async def audit(context: LoopContext, sender: Callable[[str | None], Send]) -> bool:
    """Run one audit; whether it ended by itself. It raises nothing: the watch goes on whatever becomes of it.

    Each finding is on disk before its event. Cancelled, its whole process tree is dead when this ends.
    """
    send = sender(None)
    await send(WatchAuditStarted())
    try:
        why = await _run(context, sender)
    except CugginoError as error:
        why = str(error)
    finally:
        if trio.current_effective_deadline() == -math.inf:
            with trio.move_on_after(LAST_WORDS, shield=True):
                await send(WatchAuditInterrupted())
    await trio.lowlevel.checkpoint_if_cancelled()
    await send(WatchAuditEnded() if why is None else WatchAuditFailed(message=why))
    return why is None


async def code_seen(context: LoopContext) -> str:
    """What an audit looks at in the project: the commit, and the working tree with its specs."""
    git = context.git
    return f"{await git.head()} {await git.tree_fingerprint([context.project.state_dir])}"


def fingerprint(context: LoopContext, code: str) -> str:
    """What an audit looks at: the code that it has seen, and the findings that are known by now."""
    seen = [code, *list_items(context.project.tbd)]
    return hashlib.sha256("\0".join(seen).encode(errors="surrogateescape")).hexdigest()


async def _run(context: LoopContext, sender: Callable[[str | None], Send]) -> str | None:
    """None when it ended well, else why not."""
    project, config, git = context.project, context.config, context.git
    session = uuid7()
    send = sender(session)
    activity = ActivityTimeout(config.limits, send)

    async def see(event: Event) -> None:
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
                see,
            )
    finally:
        delete_output(output)
    if (verdict := activity.verdict()) is not None:
        return f"The auditor was stopped: {verdict}"
    if await git.tree_fingerprint([project.state_dir]) != before:
        await send(SystemMessage(text="The working tree changed while the auditor ran, who may not change it."))
    return None
