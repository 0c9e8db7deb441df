"""Run one task in a sandbox, phase after phase, from the prompt to the report.

Each phase stores its result, so that `cuggino spawn retry` can resume a spawn that was interrupted, timed out or was
killed, in the same sandbox and the same conversation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import msgspec
import trio

from cuggino.agents.prompts import Prompt, fill
from cuggino.errors import CugginoError, LlmSessionError, SandboxError, leaves
from cuggino.events import (
    Event,
    LLMCompleted,
    ManifestReady,
    SandboxCreated,
    Send,
    SpawnCompleted,
    SpawnStatus,
    SystemMessage,
    UsageReport,
)
from cuggino.files import write_atomic
from cuggino.git import Git
from cuggino.loop.command import background
from cuggino.manifest import SandboxManifest
from cuggino.output.summary import spent
from cuggino.roles import Role
from cuggino.sandbox import records
from cuggino.sandbox.confine import Confinement, confine
from cuggino.sandbox.provision import dirty, planned, provision
from cuggino.sandbox.records import SandboxStage
from cuggino.sandbox.removal import finish_removal, remove_tree
from cuggino.sandbox.sandbox import Sandbox
from cuggino.sandbox.secrets import Redaction
from cuggino.spawn.context import SpawnContext
from cuggino.spawn.evaluate import Source, evaluate
from cuggino.spawn.integration import integrate_spawn, settle_only
from cuggino.spawn.report import SpawnReport, render_report
from cuggino.spawn.task import SpawnFiles, SpawnRecord
from cuggino.spawn.work import Work, WorkResult

CLEANUP_TIMEOUT = 20.0
"""Seconds to commit and report the work of an interrupted spawn."""

_FILE: Source = "file"
_EXIT_CODES: Mapping[SpawnStatus, int] = {
    "success": 0,
    "failed": 1,
    "idle-timeout": 5,
    "total-timeout": 5,
    "permission-denied": 1,
}


class Spawn:
    """One spawn. `report` describes it, and is complete when `run` has ended."""

    def __init__(self, context: SpawnContext, record: SpawnRecord, send: Send, stopped: Callable[[], int]) -> None:
        """`stopped` returns the exit code of a command that was interrupted."""
        self._context = context
        self._record = record
        self._files = SpawnFiles(context.project, record.id)
        self._send_on = send
        self._stopped = stopped
        self._redaction = Redaction(context.sandboxes.secret_values())
        self._usage: list[UsageReport] = []
        self._began = context.now()
        self.report = SpawnReport(
            id=record.id,
            title=record.task.title,
            status="failed",
            seconds=0,
            folder=f"{self._files.folder.relative_to(context.project.root)}/",
        )

    async def run(self, given: SandboxManifest | None = None) -> int:
        """Run the phases that are left, and return the exit code. The last event is always SpawnCompleted.

        A failure is reported, not raised. Cancelled, stop the agent, commit its work on the sandbox's branch, and
        report, all within CLEANUP_TIMEOUT.
        """
        status: SpawnStatus = "failed"
        limit_reached = False
        code = 1
        try:
            work = await self._phases(given)
            status, limit_reached = work.status, work.limit_reached
        except (CugginoError, ExceptionGroup) as error:
            known = [leaf for leaf in leaves(error) if isinstance(leaf, CugginoError)]
            if len(known) < len(list(leaves(error))):
                raise
            self._report(problem="\n".join(dict.fromkeys(map(str, known))))
            if self._record.status is None:
                self._update(status="failed")
            await self._keep_work()
        finally:
            stopped = trio.current_effective_deadline() == -math.inf
            with trio.move_on_after(CLEANUP_TIMEOUT, shield=True):
                if stopped:
                    status = "interrupted"
                    await self._keep_work()
                    if self._record.status != "success":
                        self._update(status=status)
                code = self._stopped() if stopped else 5 if limit_reached else _EXIT_CODES[status]
                await self._finish(status, code)
        return code

    @property
    def text(self) -> str:
        """The report, as Markdown, without secrets."""
        return self._redaction.text(render_report(self.report))

    # ---- the phases

    async def _phases(self, given: SandboxManifest | None) -> WorkResult:
        self._files.clear()
        self._update()
        await self._check_feasible()
        manifest = await self._evaluate(given)
        sandbox = await self._provision()
        confinement = await self._confine(sandbox, manifest)
        work = await self._work(confinement)
        self._report(summary=work.summary, problem=work.problem, recovery=work.recovery, last_lines=work.last_lines)
        integrated = await self._integrate(sandbox, integrate=work.status == "success")
        return work if integrated else msgspec.structs.replace(work, status="failed")

    async def _check_feasible(self) -> None:
        """Raise SandboxError, before any agent is asked, if there can be no sandbox for the task."""
        project = self._context.project
        if records.find(project, self._record.id) is None:
            config, base = self._context.config, self._record.task.base
            await planned(project, config, base, detached=False, title="", id=self._record.id)

    async def _evaluate(self, given: SandboxManifest | None) -> SandboxManifest:
        if self._record.manifest is not None:
            return self._record.manifest
        manifest, source, prompt = given or SandboxManifest(), _FILE, self._record.prompt
        if given is None:
            manifest, source, prompt = await self._ask_evaluator()
        self._update(manifest=manifest, prompt=prompt)
        await self.send(ManifestReady(manifest=msgspec.to_builtins(manifest), source=source))
        return manifest

    async def _ask_evaluator(self) -> tuple[SandboxManifest, Source, str]:
        """Ask a read-only agent. Compare the tree before and after, since not every agent can be held to reading."""
        project = self._context.project
        git = Git(project.root, None, project.wip)
        before = await git.tree_fingerprint([project.state_dir])
        evaluated = await evaluate(self._context, self._record.task, self._files, self.send)
        if await git.tree_fingerprint([project.state_dir]) != before:
            await self._message("The working tree changed during the evaluation, which must not change anything.")
        return evaluated

    async def _provision(self) -> Sandbox:
        """Return the existing sandbox, or a new one. Raise SandboxError if it was removed."""
        task, project = self._record.task, self._context.project
        record = records.find(project, self._record.id)
        if record is not None and record.stage is SandboxStage.MAKING:  # killed before an agent worked in it
            await remove_tree(record.sandbox, tip=record.sandbox.base)
        elif record is not None:
            if record.stage is SandboxStage.REMOVING:
                record = await finish_removal(project, record.sandbox, tip=record.tip)
            if not record.exists:
                kept = record.stage is SandboxStage.INTEGRATED
                raise SandboxError(
                    f"The sandbox does not exist any more: {record.sandbox.folder}.",
                    advice=f"Its work is on the branch {record.sandbox.branch}." if kept else "",
                )
            return record.sandbox
        if missing := await dirty(project, self._context.config.specs_path):
            shown = ", ".join(missing[:5]) + (f" and {len(missing) - 5} more" if missing[5:] else "")
            await self._message(f"The sandbox starts from a commit, without your uncommitted changes: {shown}.")
        sandbox = await provision(project, self._context.config, base=task.base, title=task.title, id=self._record.id)
        await self.send(
            SandboxCreated(id=sandbox.id, path=str(sandbox.folder), branch=sandbox.branch, base=sandbox.base)
        )
        return sandbox

    async def _confine(self, sandbox: Sandbox, manifest: SandboxManifest) -> Confinement:
        confinement = await confine(self._context.sandboxes, sandbox, manifest)
        self._redaction = confinement.redaction
        return confinement

    async def _work(self, confinement: Confinement) -> WorkResult:
        """Run the agent, unless an earlier run of this spawn finished its work."""
        if self._record.status == "success":
            return WorkResult(status="success", summary=self._record.summary)
        if lacks := self._context.agent.lacks:
            await self._message(lacks)
        async with background() as left_running:
            if self._record.conversation is None:
                await confinement.set_up(left_running, self.send)
            prompt = self._prompt(confinement.sandbox)
            work = Work(self._context, self._record, confinement, prompt=prompt, save=self._update, send=self.send)
            try:
                worked = await work.run()
            except LlmSessionError:
                await self._ended("failed")
                raise
        await self._ended(worked.status, worked.summary)
        return worked

    async def _ended(self, status: SpawnStatus, summary: str = "") -> None:
        self._update(status=status, summary=self._redaction.text(summary))
        await self.send(LLMCompleted(status=status))

    async def _integrate(self, sandbox: Sandbox, *, integrate: bool) -> bool:
        """Settle the work on its branch, and integrate it if asked to. Return False if it could not be integrated."""
        assert self._record.manifest is not None
        confinement = await self._confine(sandbox, self._record.manifest)
        if integrate:
            integrated = await integrate_spawn(confinement, self._record, self.send)
        else:
            integrated = await settle_only(confinement, self._record)
        self._report(
            pull_request=integrated.pull_request,
            branch=integrated.branch,
            changes=integrated.changes,
            left_out=integrated.left_out,
            conflicts=integrated.conflicts,
        )
        if integrated.problem:
            self._report(problem="\n".join(filter(None, (self.report.problem, integrated.problem))))
        elif integrate:
            self._update(integrated=True)
            if self._record.conversation is not None:
                confinement.delete_conversation(Role.WORKER, self._record.conversation)
            if not integrated.changes:
                self._report(summary="\n\n".join(filter(None, (self.report.summary, "Nothing was changed."))))
        return not integrated.problem

    def _prompt(self, sandbox: Sandbox) -> Prompt:
        config = self._context.config
        check = config.check_command or "(none is configured)"
        specs = str(sandbox.root / config.specs_path)
        return fill(Role.WORKER, {"task": self._record.prompt, "specs": specs, "check": check})

    async def _keep_work(self) -> None:
        """Commit the work so far on the branch, after an interruption or a failure."""
        record = records.find(self._context.project, self._record.id)
        if record is None or not record.exists or self._record.manifest is None:
            return
        try:
            confinement = await self._confine(record.sandbox, self._record.manifest)
            kept = await settle_only(confinement, self._record)
        except CugginoError as error:
            self._report(problem=str(error), branch=record.sandbox.branch)
        else:
            self._report(branch=kept.branch, changes=kept.changes, left_out=kept.left_out)

    async def _finish(self, status: SpawnStatus, code: int) -> None:
        advice = "" if status == "success" else f"To resume it: cuggino spawn retry {self._record.id}"
        self._report(
            status=status,
            seconds=(self._context.now() - self._began).total_seconds(),
            cost=spent(self._usage),
            problem="\n".join(filter(None, (self.report.problem, advice))),
        )
        write_atomic(self._files.report, self.text)
        await self.send(SpawnCompleted(status=status, exit_code=code, report=str(self._files.report)))

    # ---- reporting

    async def send(self, event: Event) -> None:
        """Redact the event, and pass it on."""
        event = self._redaction.event(event)
        if isinstance(event, UsageReport):
            self._usage.append(event)
        await self._send_on(event)

    async def _message(self, text: str) -> None:
        await self.send(SystemMessage(text=text))

    def _report(self, **more: object) -> None:
        self.report = msgspec.structs.replace(self.report, **more)

    def _update(self, **changes: object) -> None:
        """Change the record, on disk at once. The manifest has a file of its own for people, too."""
        self._record = msgspec.structs.replace(self._record, **changes)
        self._files.save(self._record)
        if self._record.manifest is not None:
            write_atomic(self._files.manifest, msgspec.json.format(msgspec.json.encode(self._record.manifest)))
