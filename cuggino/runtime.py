"""All that one command needs to run agents in one project: the lock, who owns the processes, the log.

    async with open_desk(project, "cuggino run", display, hurry) as desk:
        await desk.run(session)

What is opened first ends last: the lock outlives the hub, and the hub, which still logs what is said while
the rest is being stopped, outlives the agents.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from random import Random

import trio

from cuggino.agents.backends import backend
from cuggino.agents.headless import HeadlessAgent
from cuggino.config import load
from cuggino.errors import LockedError, LoopError
from cuggino.events import (
    Event,
    LoopApproved,
    LoopLimitReached,
    LoopMaxIterations,
    LoopSpecIssue,
    LoopTerminalEvent,
    Send,
)
from cuggino.git import Git
from cuggino.lock import Owner, lock, read_owner
from cuggino.loop.command import ShellCommands
from cuggino.loop.loop import LoopContext, run_loop
from cuggino.loop.session import Session, finish, stored
from cuggino.notify import GRACE, Offer, open_notifier
from cuggino.output.hub import Display, EventHub, open_hub
from cuggino.output.summary import RunTally
from cuggino.process.children import Children
from cuggino.process.sweep import sweep
from cuggino.project import Project, living_log, prune_logs, uuid7
from cuggino.roles import Role


class Runtime:
    """Made by `open_runtime`."""

    def __init__(
        self,
        context: LoopContext,
        children: Children,
        hub: EventHub,
        tally: RunTally,
        notify: Offer,
        archived_before: tuple[str, ...],
    ) -> None:
        self.context = context
        self.children = children
        """Who owns the processes that are started here."""
        self.archived_before = archived_before
        """Backlog items that a command that died had finished; they were archived when this one began."""
        self.unfinished: Session | None = None
        """The session that is, or was, worked on and can be gone on with."""
        self._hub = hub
        self._tally = tally
        self._notify = notify

    def sender(self, session: str | None) -> Send:
        """Where a session's events go: counted for the summary, told to the person's program, logged, shown."""
        send_on, count, notify = self._hub.sender(session), self._tally.add, self._notify

        async def send(event: Event) -> None:
            count(event)
            notify(session, event)
            await send_on(event)

        return send

    async def shown(self) -> None:
        """Until people have before them what was sent so far: then they can be asked something."""
        await self._hub.shown()

    async def loop(self, session: Session) -> LoopTerminalEvent:
        """One loop, to its last event. The files of a session that is over are deleted, and the backlog item that it
        may have been about is archived. Raises LoopError, which was shown as LoopFailed.
        """
        self.unfinished = session
        last = await run_loop(self.context, session, self.sender(session.id))
        if session.state.ended is not None:
            finish(self.context.project, session)
            self.unfinished = None
        return last

    async def run(self, session: Session) -> int:
        """One loop, as `loop`; returns the exit code."""
        try:
            return exit_code(await self.loop(session))
        except LoopError as error:
            return error.exit_code


def exit_code(last: LoopTerminalEvent) -> int:
    """What a run ends with, whose last event this is."""
    match last:
        case LoopApproved():
            return 0
        case LoopSpecIssue():
            return 4
        case LoopMaxIterations() | LoopLimitReached():
            return 5
    return 1


@asynccontextmanager
async def open_runtime(
    project: Project,
    command: str,
    display: Display,
    tally: RunTally,
    force_kill: trio.Event,
    *,
    beside: Path | None = None,
) -> AsyncIterator[Runtime]:
    """Work in a project for the length of the block, alone.

    Raises ConfigError before anything is started, LockedError when another command works here. First it
    clears up what a command that died has left. After the block no process that was started in it is alive.
    `force_kill` cuts the time short that agents have to stop. `beside` is the lock of a command that does not
    work in the person's own tree, so that others may work there meanwhile.
    """
    config = load(project.config_file)
    backends = {role: backend(config.backend(role)) for role in Role}
    project.prepare()
    marker = uuid7().replace("-", "")
    with lock(project, command, marker, file=beside) as former:
        _sweep_dead(project, former)
        archived_before = () if beside is not None else _clear_up(project)
        children = Children(marker=marker, force_kill=force_kill)
        agents = {role: HeadlessAgent(chosen, children) for role, chosen in backends.items()}
        context = LoopContext(
            project=project,
            config=config,
            agent=lambda role: agents[role],
            commands=ShellCommands(children, project.root),
            git=Git(project.root, children, project.wip),
            now=lambda: datetime.now(UTC),
            random=Random(),
        )
        with living_log(project) as log:
            async with open_hub(log=log, display=display) as hub:
                told = Children(marker=marker, force_kill=force_kill, grace=GRACE)
                async with open_notifier(config.notify, project, told, hub.sender(None), force_kill) as notify:
                    yield Runtime(context, children, hub, tally, notify, archived_before)


def _sweep_dead(project: Project, former: Owner | None) -> None:
    """End what commands that died have left running, the former owner of our lock and those beside it, and remove what
    their agents printed."""
    if former is not None:
        sweep(former.marker)
    for path in (*project.spawns.glob("*/lock"), *project.state_dir.glob("*.lock")):
        owner = read_owner(project, file=path)
        if owner is None or owner.lives():
            continue
        with suppress(LockedError), lock(project, owner.command, owner.marker, file=path):  # left empty: swept once
            sweep(owner.marker)
            for output in path.parent.glob(".*.out*") if path.name == "lock" else ():  # it may hold secrets
                output.unlink(missing_ok=True)


def _clear_up(project: Project) -> tuple[str, ...]:
    """What a command that died left behind: sessions that were over, torn temporary files, old logs.

    Returns the backlog items that it had finished and not archived.
    """
    finished = [finish(project, session) for session in stored(project) if session.state.ended is not None]
    for folder in (project.state_dir, project.spec_issues, project.tbd):
        for path in folder.glob(".*.tmp"):  # torn by a kill
            path.unlink(missing_ok=True)
    for path in project.wip.glob(".*"):  # temporary, and nobody's: the lock is ours
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    prune_logs(project, time.time())
    return tuple(name for name in finished if name is not None)
