"""Everything that one command needs to run agents in a project, put together once: lock, processes, agents, log.

    async with open_runtime(project, Invocation(name="cuggino run"), display, tally, force_kill) as runtime:
        await runtime.run(session)

What is opened first is closed last: the lock outlives the hub, and the hub, which logs what is sent while agents are
being stopped, outlives the agents.
"""

from __future__ import annotations

import fnmatch
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import msgspec
import trio

from cuggino.agents.backends import make_agent
from cuggino.clock import uuid7
from cuggino.config import load
from cuggino.errors import LockedError, LoopError, StorageError
from cuggino.events import (
    Event,
    LoopApproved,
    LoopLimitReached,
    LoopMaxIterations,
    LoopSpecIssue,
    LoopTerminalEvent,
    Send,
)
from cuggino.files import open_below, remove
from cuggino.git import Git
from cuggino.lock import Owner, lock, read_owner
from cuggino.logs import open_log, prune_logs
from cuggino.loop.command import ShellCommands
from cuggino.loop.context import LoopContext
from cuggino.loop.loop import run_loop
from cuggino.loop.session import Session, all_sessions, finish_session
from cuggino.notify import GRACE, Notify, open_notifier
from cuggino.output.hub import Display, EventHub, open_hub
from cuggino.output.summary import RunTally
from cuggino.process.children import Children
from cuggino.process.leftovers import sweep
from cuggino.project import Project
from cuggino.roles import Role
from cuggino.trust import refuse_tracked

if TYPE_CHECKING:  # imported when a command needs them: they would cost every start
    from cuggino.sandbox.confine import SandboxContext
    from cuggino.spawn.context import SpawnContext
    from cuggino.spawn.task import Task


class Invocation(msgspec.Struct, frozen=True, kw_only=True):
    """How a command was called. `json`: events are printed as JSON lines; `drains`: the first Ctrl+C lets work end."""

    name: str
    """What the holder of the lock is called."""
    json: bool = False
    drains: bool = False
    lock: Path | None = None
    """Its own lock, if it does not work in the person's tree, so that another command may; None: the project's.

    Who gives one has called `refuse_tracked` before it made the lock's folder.
    """


class Runtime:
    """A project in which agents can run. Made by `open_runtime`."""

    def __init__(
        self,
        *,
        context: LoopContext,
        children: Children,
        hub: EventHub,
        tally: RunTally,
        notify: Notify,
        archived_before: tuple[str, ...],
    ) -> None:
        self.context = context
        self.children = children
        """Owns the processes that are started here."""
        self.archived_before = archived_before
        """Backlog items that a command that died had finished; they were archived when this one started."""
        self.unfinished: Session | None = None
        """The session that is, or was, worked on and can be resumed."""
        self._hub = hub
        self._tally = tally
        self._notify = notify

    def sender(self, session: str | None, *, log: Path | None = None) -> Send:
        """Return where a session's events go: into the summary, the notifications, the log and the display.

        With `log` the session's lines are appended to that file, too.
        """
        if log is not None and session is not None:
            self._hub.log_session(session, log)
        send_on, count, notify = self._hub.sender(session), self._tally.add, self._notify

        async def send(event: Event) -> None:
            count(event)
            notify(session, event)
            await send_on(event)

        return send

    @property
    def sandboxes(self) -> SandboxContext:
        """What the sandboxes of this command share."""
        from cuggino.sandbox.confine import SandboxContext

        context = self.context
        return SandboxContext(
            project=context.project,
            config=context.config,
            agent=context.agent,
            children=self.children,
            environment=dict(os.environ),
            model=context.config.model,
        )

    def spawn_context(self, task: Task) -> SpawnContext:
        """Return what a spawn works with: the task's own agent, and the person if there is a terminal."""
        from cuggino.spawn.context import Permission, SpawnContext
        from cuggino.spawn.terminal import ask_person, has_terminal

        async def ask(question: str) -> Permission:
            await self.shown()
            return await ask_person(question)

        agent = make_agent(task.agent, self.children)
        return SpawnContext(
            sandboxes=msgspec.structs.replace(self.sandboxes, agent=lambda _: agent, model=task.model),
            now=self.context.now,
            random=self.context.random,
            sleep=trio.sleep,
            ask=ask if has_terminal() else None,
        )

    async def shown(self) -> None:
        """Wait until people see everything that was sent so far, so that they can be asked something."""
        await self._hub.shown()

    async def loop(self, session: Session) -> LoopTerminalEvent:
        """Run one loop and return its last event; raise LoopError if it failed, which was shown as LoopFailed.

        Then the files of a session that is over are deleted, and the backlog item that it was about is archived.
        """
        self.unfinished = session
        last = await run_loop(self.context, session, self.sender(session.id))
        if session.state.ended is not None:
            finish_session(self.context.project, session)
            self.unfinished = None
        return last

    async def run(self, session: Session) -> int:
        """Run one loop and return the exit code."""
        try:
            return exit_code(await self.loop(session))
        except LoopError as error:
            return error.exit_code


def exit_code(last: LoopTerminalEvent) -> int:
    """Return the exit code of a run with this last event."""
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
    project: Project, invocation: Invocation, display: Display, tally: RunTally, force_kill: trio.Event
) -> AsyncIterator[Runtime]:
    """Lock the project and work in it while the block runs.

    Raise ConfigError and TrustError before anything is started, and LockedError if another command works here. First
    clean up after a command that died. After the block no process that was started in it is alive. `force_kill`, once
    set, kills agents at once.
    """
    config = load(project.config_file)
    if invocation.lock is None:
        await refuse_tracked(project)
    project.prepare()
    marker = uuid7().replace("-", "")
    with lock(project, invocation.name, marker, file=invocation.lock) as former:
        _kill_orphans(project, former)
        archived_before = () if invocation.lock is not None else _clean_up(project)
        children = Children(marker=marker, force_kill=force_kill)
        agents = {role: make_agent(config.backend(role), children) for role in Role}
        context = LoopContext(
            project=project,
            config=config,
            agent=lambda role: agents[role],
            commands=ShellCommands(children, project.root),
            git=Git(project.root, children, project.wip),
            now=lambda: datetime.now(UTC),
            random=Random(),
        )
        with open_log(project) as log:
            async with open_hub(log=log, display=display) as hub:
                programs = Children(marker=marker, force_kill=force_kill, grace=GRACE)
                async with open_notifier(config.notify, project, programs, hub.sender(None), force_kill) as notify:
                    yield Runtime(
                        context=context,
                        children=children,
                        hub=hub,
                        tally=tally,
                        notify=notify,
                        archived_before=archived_before,
                    )


def _kill_orphans(project: Project, former: Owner | None) -> None:
    """Kill what commands that died have left running: the former holder of our lock, and of the locks beside it.

    Delete what their agents printed, too.
    """
    if former is not None:
        sweep(former.marker)
    spawns = [path / "lock" for path in project.spawns.iterdir() if path.is_dir() and not path.is_symlink()]
    for path in (*spawns, *project.state_dir.glob("*.lock")):
        owner = read_owner(project, file=path)
        if owner is None or owner.lives():
            continue
        with suppress(LockedError), lock(project, owner.command, owner.marker, file=path):  # emptied: swept only once
            sweep(owner.marker)
            if path.name == "lock":
                _remove_from(project, ("spawns", path.parent.name), ".*.out*")  # may hold secrets


def _clean_up(project: Project) -> tuple[str, ...]:
    """Delete what a command that died left behind: finished sessions, temporary files, old logs.

    Return the backlog items that it had finished and not archived.
    """
    finished = [
        finish_session(project, session) for session in all_sessions(project) if session.state.ended is not None
    ]
    for folder in ((), (project.spec_issues.name,), (project.tbd.name,)):
        _remove_from(project, folder, ".*.tmp")  # left by a kill
    _remove_from(project, (project.wip.name,), ".*")  # temporary, and of nobody else, since the lock is ours
    prune_logs(project, time.time())
    return tuple(name for name in finished if name is not None)


def _remove_from(project: Project, folder: tuple[str, ...], pattern: str) -> None:
    """Delete what has a name like this in a folder below `.cuggino`, and follow no link. Raise StorageError."""
    place = project.state_dir.joinpath(*folder)
    try:
        with open_below(project.state_dir, *folder) as directory:
            with os.scandir(directory) as entries:
                names = fnmatch.filter([entry.name for entry in entries], pattern)
            for name in names:
                remove(directory, name)
    except OSError as error:
        raise StorageError(
            f"{place} cannot be cleaned up: {error.strerror}.", advice="Delete what is in it."
        ) from error
