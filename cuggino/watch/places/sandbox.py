"""Work on items in sandboxes, several at a time.

The loop of an item runs in a sandbox of its own, with commits. Approved work is integrated, one item after the other,
and only then does the item leave the backlog. A watch that is interrupted or killed leaves the sandboxes; the next one
resumes in them.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec
import trio

from cuggino.agents.activity_timeout import ActivityLimits
from cuggino.backlog import Item
from cuggino.errors import GitError, LoopError, SandboxError
from cuggino.events import LoopApproved, LoopSpecIssue, LoopTerminalEvent, SandboxCreated, Send, SystemMessage
from cuggino.files import write_atomic
from cuggino.integrate.checkout import undo
from cuggino.integrate.integration import Integration, integrate, remove_integrated
from cuggino.integrate.repair import merge_context
from cuggino.loop.context import LoopContext
from cuggino.loop.course import Outcome
from cuggino.loop.session import all_sessions
from cuggino.manifest import SandboxManifest
from cuggino.project import Project
from cuggino.sandbox import records
from cuggino.sandbox.confine import Confinement, SandboxContext, confine
from cuggino.sandbox.provision import provision
from cuggino.sandbox.records import SandboxStage
from cuggino.sandbox.removal import finish_removal, remove
from cuggino.sandbox.repository import SandboxRepository
from cuggino.sandbox.sandbox import Sandbox
from cuggino.sandbox.settle import Settled, settle
from cuggino.watch.attempts import run_through, session_for
from cuggino.watch.intervals import WatchIntervals
from cuggino.watch.places import ItemWork


class InSandbox:
    """A sandbox for each item."""

    def __init__(self, context: SandboxContext, intervals: WatchIntervals) -> None:
        """Raise SandboxError if a secret of `spawn.secrets` cannot be read."""
        self.integrating = trio.Lock()
        self._context = context
        self._project = context.project
        self._config = msgspec.structs.replace(context.config, commit=True)
        self._intervals = intervals
        self._manifest = SandboxManifest(secrets=self._config.spawn.secrets)
        context.read_secrets(self._manifest.secrets)

    async def prepare(self) -> None:
        """See `Place.prepare`."""
        await prune(self._project)

    async def work(self, context: LoopContext, item: Item, sender: Callable[[str | None], Send]) -> ItemWork:
        """See `Place.work`."""
        record = self._unfinished(item.name) or await self._provision(item.name, sender(None))
        confinement = await confine(self._context, record.sandbox, self._manifest)

        def redacted(session: str | None) -> Send:
            return confinement.redacting(sender(session))

        try:
            if record.stage is not SandboxStage.WORKED:
                unapproved = await self._work(context, confinement, item, redacted)
                if unapproved is not None:
                    return unapproved
            return await self._integrate(context, confinement, item, redacted(None))
        finally:
            confinement.delete_conversations()

    async def _work(
        self, context: LoopContext, confinement: Confinement, item: Item, sender: Callable[[str | None], Send]
    ) -> ItemWork | None:
        """Run the item's loop. Return None if it was approved: the work is on the sandbox's branch then."""
        sandbox = confinement.sandbox
        there = self._loop_context(context, confinement)
        last = await self._run_loop(there, item, sender)

        async def end_sessions() -> None:
            for session in all_sessions(there.project):
                session.delete()

        if isinstance(last, LoopSpecIssue):
            issue = there.project.spec_issues / last.filename
            write_atomic(self._project.spec_issues / last.filename, issue.read_bytes())
            return ItemWork(end="spec-issue", clean_up=end_sessions)
        settled = await settle(sandbox, confinement.permits, item.name)
        if not isinstance(last, LoopApproved):
            what = type(last).__name__.removeprefix("Loop")
            kept = f"; its work is on the branch {sandbox.branch}" if settled.tip is not None else ""
            reason = f"its loop ended without approval ({what}){kept}"
            return ItemWork(end="blocked", reason=reason, clean_up=end_sessions)
        records.save(self._project, sandbox, SandboxStage.WORKED)
        return None

    # ---- the sandbox

    def _unfinished(self, name: str) -> records.SandboxRecord | None:
        """Return the sandbox in which an earlier watch began to work on this item."""
        worked_in = (SandboxStage.MADE, SandboxStage.WORKED)
        for record in records.load_all(self._project):
            if record.sandbox.item == name and record.stage in worked_in and record.exists:
                return record
        return None

    async def _provision(self, name: str, send: Send) -> records.SandboxRecord:
        sandbox = await provision(self._project, self._config, title=name, item=name)
        branch, base = sandbox.branch, sandbox.base
        await send(SandboxCreated(id=sandbox.id, path=str(sandbox.folder), branch=branch, base=base))
        return records.SandboxRecord(sandbox=sandbox, stage=SandboxStage.MADE)

    def _loop_context(self, context: LoopContext, confinement: Confinement) -> LoopContext:
        """Return a context for loops in the sandbox, with its session files, commands and agents."""
        project = Project(confinement.sandbox.root)
        project.prepare()
        return msgspec.structs.replace(
            context,
            project=project,
            config=self._config,
            agent=confinement.agent,
            commands=confinement.commands,
            git=SandboxRepository(confinement.sandbox, confinement.permits),
        )

    async def _run_loop(
        self, there: LoopContext, item: Item, sender: Callable[[str | None], Send]
    ) -> LoopTerminalEvent:
        """Run the item's loop to its end, unless it was approved before a crash."""
        for session in all_sessions(there.project):
            ended = session.state.ended
            if ended is not None and ended.outcome is Outcome.APPROVED and session.state.backlog_hash == item.digest:
                return LoopApproved(iteration=session.state.course.iteration)
            if ended is not None:
                session.delete()
        write_atomic(there.project.backlog / item.name, item.text)
        return await run_through(there, session_for(there, item), sender, self._intervals)

    # ---- integration

    async def _integrate(self, context: LoopContext, confinement: Confinement, item: Item, send: Send) -> ItemWork:
        sandbox = confinement.sandbox
        await undo(sandbox)  # a merge that was killed halfway is not an agent's work
        settled = await settle(sandbox, confinement.permits, item.name)
        integration = self._integration(confinement, item, settled, send)
        reported = False
        while True:
            async with self.integrating:
                result = await integrate(integration, send)
            if not result.in_the_way:
                break
            if not reported:
                reported = True
                await send(SystemMessage(text=f"{item.name} waits: {result.reason}"))
            await context.sleep(self._intervals.merge_retry)
        if result.how == "kept":
            raise LoopError(f"{result.reason} Its work is kept on the branch {sandbox.branch}.", "integration")
        if settled.left_out:
            names = ", ".join(settled.left_out)
            await send(
                SystemMessage(text=f"{item.name}: not integrated, since the manifest forbids changes there: {names}")
            )

        async def clean_up() -> None:
            with trio.CancelScope(shield=True):
                await remove_integrated(self._project, sandbox, result, keeps_folder=bool(settled.left_out))

        return ItemWork(end="done", clean_up=clean_up)

    def _integration(self, confinement: Confinement, item: Item, settled: Settled, send: Send) -> Integration:
        config = self._config
        limits, attempts = ActivityLimits.of(config.limits), config.spawn.repair_attempts
        return Integration(
            context=merge_context(confinement, item.text, send, limits=limits, attempts=attempts),
            tip=settled.tip,
            title=Path(item.name).stem,
            chosen=config.spawn.integrate or "merge",
            leaks=confinement.leaks,
        )


async def prune(project: Project) -> None:
    """Remove sandboxes that a killed watch left incomplete, or whose item is done.

    A sandbox with work that exists nowhere else is kept.
    """
    for record in records.load_all(project):
        sandbox: Sandbox = record.sandbox
        if sandbox.item is None:
            continue
        with suppress(SandboxError, GitError):
            if record.stage is SandboxStage.REMOVING:
                await finish_removal(project, sandbox, tip=record.tip)
                continue
            done = record.stage is SandboxStage.WORKED and not os.path.lexists(project.backlog / sandbox.item)
            if done or record.stage is SandboxStage.MAKING:
                await remove(project, sandbox, force=False)
