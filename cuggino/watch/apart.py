"""An item in a sandbox of its own, for a watch that works on several at a time.

The whole loop runs there, with commits. What it has done is brought home when it is approved, one item after the other,
and only then the item leaves the backlog. A watch that is interrupted or dies leaves the sandboxes; the next one
goes on in them.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

import msgspec
import trio

from cuggino.agents.agent import Agent, AgentOptions, AgentResult, Backend
from cuggino.backlog import Item, Removal, Unusable, archive, read_item
from cuggino.config import Config
from cuggino.errors import CugginoError, GitError, LlmSessionErrorKind, LoopError, SandboxError
from cuggino.events import (
    Event,
    LoopApproved,
    LoopSpecIssue,
    LoopTerminalEvent,
    SandboxCreated,
    Send,
    SystemMessage,
    WatchItemCompleted,
    WatchItemNotRemoved,
    WatchProcessingItem,
)
from cuggino.files import write_atomic
from cuggino.integrate.checkout import undo
from cuggino.integrate.integration import Integration, IntegrationResult, integrate
from cuggino.integrate.repair import Repairer
from cuggino.loop.command import ShellCommands
from cuggino.loop.course import Outcome
from cuggino.loop.loop import LoopContext
from cuggino.loop.session import stored
from cuggino.manifest import Bounds, Permits, SandboxManifest
from cuggino.process.children import Children
from cuggino.project import Project
from cuggino.roles import Role
from cuggino.sandbox import records
from cuggino.sandbox.environment import built, git_variables, launcher
from cuggino.sandbox.leaks import Leak, leaks
from cuggino.sandbox.provision import provision
from cuggino.sandbox.records import SandboxStage
from cuggino.sandbox.removal import remove, take_away
from cuggino.sandbox.repository import SandboxRepository
from cuggino.sandbox.sandbox import Sandbox
from cuggino.sandbox.secrets import Redaction, resolve
from cuggino.sandbox.settle import settle
from cuggino.spawn.integration import put_away, redacted
from cuggino.watch.item import Result, block, failed, run_through, session_for
from cuggino.watch.ledger import Ledger

IN_THE_WAY = 60.0
"""Seconds until a merge is tried again that a person's own changes prevent."""


async def sweep(project: Project) -> None:
    """Finish what a watch that was killed had decided: sandboxes whose item is done are removed, unless something is in
    them, or on their branch, that is in no other place; and so are those that were not made whole."""
    for record in records.every(project):
        sandbox = record.sandbox
        if sandbox.item is None:
            continue
        with suppress(SandboxError, GitError):
            if record.stage is SandboxStage.REMOVING:
                await take_away(project, sandbox, tip=record.tip)
                continue
            over = record.stage is SandboxStage.WORKED and not os.path.lexists(project.backlog / sandbox.item)
            if over or record.stage is SandboxStage.MAKING:
                await remove(project, sandbox, force=False)


class Apart:
    """Works on items, each in its sandbox. For `run_watch`."""

    def __init__(
        self,
        project: Project,
        config: Config,
        children: Children,
        backends: Callable[[Role], Backend],
        environment: Mapping[str, str],
    ) -> None:
        self._project = project
        self._config = msgspec.structs.replace(config, commit=True)
        self._children = children
        self._backends = backends
        self._inherited = environment
        self._values = resolve(config.spawn.secrets, config.spawn.secrets, environment, project.root)
        self._redaction = Redaction(self._values.values())

    async def process(
        self, context: LoopContext, ledger: Ledger, name: str, sender: Callable[[str | None], Send]
    ) -> Result:
        """Have the loop work on the item, and bring its work home. Promises what `item.process` does."""

        def without_secrets(session: str | None) -> Send:
            return _redacted(sender(session), self._redaction)

        send = without_secrets(None)
        await send(WatchProcessingItem(filename=name))
        item = read_item(self._project, name)
        if item is None:
            await send(WatchItemNotRemoved(filename=name, reason="gone"))
            return Result.KEPT
        if isinstance(item, Unusable):
            return await block(ledger, item, item.reason, send)
        try:
            return await self._through(context, ledger, item, without_secrets)
        except LoopError as error:
            if error.kind is LlmSessionErrorKind.SETUP:
                return Result.CANNOT_WORK
            return await failed(context, ledger, item, error, send)
        except CugginoError as error:
            return await failed(context, ledger, item, LoopError(str(error), "sandbox"), send)

    async def _through(
        self, context: LoopContext, ledger: Ledger, item: Item, sender: Callable[[str | None], Send]
    ) -> Result:
        send = sender(None)
        record = self._known(item.name) or await self._made(item.name, send)
        sandbox = record.sandbox
        if record.stage is not SandboxStage.WORKED:
            place = await self._context(context, sandbox)
            last = await self._loop(place, item, sender)
            if isinstance(last, LoopSpecIssue):
                issue = place.project.spec_issues / last.filename
                write_atomic(self._project.spec_issues / last.filename, issue.read_bytes())
                self._end_sessions(place.project)
                ledger.forget(item.name)
                await send(WatchItemNotRemoved(filename=item.name, reason="spec-issue"))
                return Result.KEPT
            settled = await settle(sandbox, self._permits, item.name)
            if not isinstance(last, LoopApproved):
                what = type(last).__name__.removeprefix("Loop")
                kept = f"; its work is on the branch {sandbox.branch}" if settled.tip is not None else ""
                self._end_sessions(place.project)
                return await block(ledger, item, f"its loop ended without approval ({what}){kept}", send)
            records.save(self._project, sandbox, SandboxStage.WORKED)
        return await self._home(context, ledger, sandbox, item, send)

    # ---- the sandbox

    def _known(self, name: str) -> records.Record | None:
        """The sandbox in which this item was worked on, if that has not ended."""
        for record in records.every(self._project):
            if (
                record.sandbox.item == name
                and record.stage in (SandboxStage.MADE, SandboxStage.WORKED)
                and record.exists
            ):
                return record
        return None

    async def _made(self, name: str, send: Send) -> records.Record:
        sandbox = await provision(self._project, self._config, title=name, item=name)
        branch, base = sandbox.branch, sandbox.base
        await send(SandboxCreated(id=sandbox.id, path=str(sandbox.folder), branch=branch, base=base))
        return records.Record(sandbox=sandbox, stage=SandboxStage.MADE)

    async def _context(self, context: LoopContext, sandbox: Sandbox) -> LoopContext:
        """The loop's, in the sandbox: its own session files, commands and agents there."""
        project = Project(sandbox.root)
        project.prepare()
        git = await git_variables(sandbox)
        front = launcher(self._config.spawn.launcher, sandbox)

        def agent(role: Role) -> Agent:
            environment = built(self._backends(role), SandboxManifest(), self._values, self._inherited, git)
            return _Behind(context.agent(role), front, environment)

        return msgspec.structs.replace(
            context,
            project=project,
            config=self._config,
            agent=agent,
            commands=self._commands(sandbox, git),
            git=SandboxRepository(sandbox, self._permits),
        )

    def _commands(self, sandbox: Sandbox, git: Mapping[str, str]) -> ShellCommands:
        environment = built(self._backends(Role.IMPLEMENTER), SandboxManifest(), self._values, self._inherited, git)
        front = launcher(self._config.spawn.launcher, sandbox)
        return ShellCommands(self._children, sandbox.root, launcher=front, environment=environment)

    @property
    def _permits(self) -> Permits:
        bounds = Bounds.of(self._config.spawn.never_allow, self._config.specs_path)
        return Permits(manifest=SandboxManifest(), bounds=bounds)

    # ---- the loop

    async def _loop(self, place: LoopContext, item: Item, sender: Callable[[str | None], Send]) -> LoopTerminalEvent:
        """The item's loop, to its end; one that has ended in approval before a crash is not run again."""
        for session in stored(place.project):
            ended = session.state.ended
            if ended is not None and ended.outcome is Outcome.APPROVED and session.state.backlog_hash == item.digest:
                return LoopApproved(iteration=session.state.course.iteration)
            if ended is not None:
                session.delete()
        shutil.copyfile(self._project.backlog / item.name, place.project.backlog / item.name)
        return await run_through(place, session_for(place, item), sender)

    def _end_sessions(self, project: Project) -> None:
        for session in stored(project):
            session.delete()

    # ---- the way home

    async def _home(self, context: LoopContext, ledger: Ledger, sandbox: Sandbox, item: Item, send: Send) -> Result:
        await undo(sandbox)  # a merge that was killed halfway is no work of an agent's
        settled = await settle(sandbox, self._permits, item.name)
        told = False
        while True:
            home = await integrate(await self._integration(context, sandbox, item, settled.tip, send), send)
            if not home.in_the_way:
                break
            if not told:
                told = True
                await send(SystemMessage(text=f"{item.name} waits: {home.reason}"))
            await context.sleep(IN_THE_WAY)
        if home.how == "kept":
            return await failed(context, ledger, item, LoopError(home.reason, "integration"), send)
        if settled.left_out:
            names = ", ".join(settled.left_out)
            await send(SystemMessage(text=f"{item.name}: not brought home, as it may not be changed: {names}"))
        ledger.forget(item.name)
        return await self._leave(sandbox, item, home, send, keeps_folder=bool(settled.left_out))

    async def _integration(
        self, context: LoopContext, sandbox: Sandbox, item: Item, tip: str | None, send: Send
    ) -> Integration:
        config, git = self._config, await git_variables(sandbox)
        commands = self._commands(sandbox, git)
        output = self._project.spawns / sandbox.id / "check.txt"
        command = config.check_command

        async def check(_root: Path) -> bool:
            assert command is not None
            with redacted(output.with_name(".check.out"), output, self._redaction) as raw:
                result = await commands.run(command, raw, timeout=config.limits.command_timeout)
            return result.exit_code == 0

        async def search(repository: Path, base: str, tip: str) -> list[Leak]:
            return await leaks(repository, base, tip, self._values.values())

        repairer = Repairer(
            agent=context.agent(Role.WORKER),
            backend=self._backends(Role.WORKER),
            task=(self._project.backlog / item.name).read_text(errors="replace"),
            specs_path=config.specs_path,
            check=command,
            permits=self._permits,
            environment=built(self._backends(Role.WORKER), SandboxManifest(), self._values, self._inherited, git),
            launcher=launcher(config.spawn.launcher, sandbox),
            model=config.model,
            limits=config.limits,
            attempts=config.spawn.repair_attempts,
            outputs=self._project.spawns / sandbox.id,
            send=send,
        )
        return Integration(
            sandbox=sandbox,
            tip=tip,
            permits=self._permits,
            title=Path(item.name).stem,
            chosen=config.spawn.integrate or "merge",
            check=None if command is None else check,
            repair=repairer,
            repair_attempts=config.spawn.repair_attempts,
            leaks=search,
        )

    async def _leave(
        self, sandbox: Sandbox, item: Item, home: IntegrationResult, send: Send, *, keeps_folder: bool
    ) -> Result:
        """It is home: the item leaves the backlog first, then the sandbox goes."""
        removal = archive(self._project, item)
        with trio.CancelScope(shield=True):
            await put_away(self._project, sandbox, home, keeps_folder=keeps_folder)
        if removal is Removal.REMOVED:
            await send(WatchItemCompleted(filename=item.name))
            return Result.COMPLETED
        await send(WatchItemNotRemoved(filename=item.name, reason="changed" if removal is Removal.CHANGED else "gone"))
        return Result.KEPT


class _Behind:
    """An agent in a sandbox: behind its launcher, with an environment that was built for it."""

    def __init__(self, agent: Agent, front: tuple[str, ...], environment: Mapping[str, str]) -> None:
        self._agent = agent
        self._front = front
        self._environment = environment

    @property
    def name(self) -> str:
        return self._agent.name

    async def spawn(self, options: AgentOptions, send: Send) -> AgentResult:
        options = msgspec.structs.replace(options, launcher=self._front, environment=self._environment)
        return await self._agent.spawn(options, send)

    async def interactive(self, options: AgentOptions) -> int:
        return await self._agent.interactive(options)

    def own_name(self, conversation: str) -> str:
        return self._agent.own_name(conversation)


def _redacted(send: Send, redaction: Redaction) -> Send:
    async def send_on(event: Event) -> None:
        await send(redaction.event(event))

    return send_on
