"""One task in a sandbox, from the request to the report: the phases, one after the other.

Each phase leaves on disk what the next start needs: a spawn that was interrupted, ran out of time or died is gone on
with by `cuggino spawn retry`, in the same sandbox and the same conversation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import cast

import msgspec
import trio

from cuggino.agents.prompts import Prompt, fill
from cuggino.clock import timestamp
from cuggino.errors import CugginoError, LlmSessionError, SandboxError, leaves
from cuggino.events import (
    Event,
    LLMCompleted,
    LogLine,
    ManifestReady,
    PingEvent,
    PrintableEvent,
    SandboxCreated,
    Send,
    SpawnCompleted,
    SpawnStatus,
    SystemMessage,
    UsageReport,
    encoder,
)
from cuggino.files import append, write_atomic
from cuggino.git import Git
from cuggino.manifest import Permits, SandboxManifest
from cuggino.output.summary import spent
from cuggino.roles import Role
from cuggino.sandbox import records
from cuggino.sandbox.discard import discard
from cuggino.sandbox.environment import built, git_variables
from cuggino.sandbox.provision import dirty, planned, provision
from cuggino.sandbox.records import SandboxStage
from cuggino.sandbox.removal import take_away
from cuggino.sandbox.sandbox import Sandbox
from cuggino.sandbox.secrets import Redaction, resolve
from cuggino.spawn.context import SpawnContext
from cuggino.spawn.evaluate import Source, evaluate
from cuggino.spawn.forgetting import forget
from cuggino.spawn.integration import integrate_spawn, redacted, settle_only
from cuggino.spawn.report import Report, render_report
from cuggino.spawn.task import Place, Record
from cuggino.spawn.work import Keep, Worked, work

LAST_WORDS = 20.0
"""Seconds in which the work of a spawn that was interrupted is committed and reported."""

_FILE: Source = "file"
_EXIT_CODES: Mapping[SpawnStatus, int] = {
    "success": 0,
    "failed": 1,
    "idle-timeout": 5,
    "total-timeout": 5,
    "permission-denied": 1,
}


class Spawn:
    """One spawn. `report` is what there is to tell of it, complete when `run` has ended."""

    def __init__(self, context: SpawnContext, record: Record, send: Send, stopped: Callable[[], int]) -> None:
        """`stopped` gives the exit code of a command that was interrupted."""
        self.report = Report(
            id=record.id,
            title=record.task.title,
            status="failed",
            seconds=0,
            place=f"{Place(context.project, record.id).folder.relative_to(context.project.root)}/",
        )
        self._context = context
        self._record = record
        self._place = Place(context.project, record.id)
        self._send_on = send
        self._stopped = stopped
        self._redaction = Redaction(())
        self._secrets: dict[str, None] = {}
        """All values that must not be told: an agent may come upon one that was not lent to it."""
        self._keep_secret(_all_there_are(context))
        self._git: Mapping[str, str] = {}
        self._usage: list[UsageReport] = []
        self._began = context.now()

    async def run(self, given: SandboxManifest | None = None) -> int:
        """All phases that are still to be done; returns the exit code. SpawnCompleted is the last event, always.

        A failure is told by the report and the exit code, not raised. Cancelled, the agent is stopped, its work is
        committed on the sandbox's branch and reported, within LAST_WORDS.
        """
        status: SpawnStatus = "failed"
        limit_reached = False
        code = 1
        try:
            worked = await self._phases(given)
            status, limit_reached = worked.status, worked.limit_reached
        except (CugginoError, ExceptionGroup) as error:
            known = [leaf for leaf in leaves(error) if isinstance(leaf, CugginoError)]
            if len(known) < len(list(leaves(error))):
                raise
            self._tell(problem="\n".join(dict.fromkeys(map(str, known))))
            if self._record.status is None:
                self._update(status="failed")
            await self._keep_work()
        finally:
            stopped = trio.current_effective_deadline() == -math.inf
            with trio.move_on_after(LAST_WORDS, shield=True):
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

    async def _phases(self, given: SandboxManifest | None) -> Worked:
        self._place.clear()
        self._update()
        await self._look_ahead()
        manifest = await self._evaluate(given)
        sandbox = await self._provision()
        self._git = await git_variables(sandbox)
        worked = await self._work(manifest, sandbox)
        self._tell(
            summary=worked.summary,
            problem=worked.problem,
            recovery=worked.recovery,
            last_lines=worked.last_lines,
        )
        arrived = await self._integrate(sandbox, integrate=worked.status == "success")
        return worked if arrived else msgspec.structs.replace(worked, status="failed")

    async def _look_ahead(self) -> None:
        """Before an agent is asked anything: SandboxError where there could be no sandbox for the task."""
        if not any(record.sandbox.id == self._record.id for record in records.every(self._context.project)):
            config, base = self._context.config, self._record.task.base
            await planned(
                self._context.project, config, base, detached=False, title="", id=self._record.id, target=None
            )

    async def _evaluate(self, given: SandboxManifest | None) -> SandboxManifest:
        if self._record.manifest is not None:
            return self._record.manifest
        manifest, source, prompt = given or SandboxManifest(), _FILE, self._record.prompt
        if given is None:
            manifest, source, prompt = await self._asked()
        self._update(manifest=manifest, prompt=prompt)
        await self.send(ManifestReady(manifest=msgspec.to_builtins(manifest), source=source))
        return manifest

    async def _asked(self) -> tuple[SandboxManifest, Source, str]:
        """What an agent says that may only look; the tree is compared before and after."""
        project = self._context.project
        git = Git(project.root, None, project.wip)
        before = await git.tree_fingerprint([project.state_dir])
        found = await evaluate(self._context, self._record.task, self._place, self.send)
        if await git.tree_fingerprint([project.state_dir]) != before:
            await self._say("The working tree changed while the evaluation ran, which may not change it.")
        return found

    async def _provision(self) -> Sandbox:
        """The sandbox that is there, or a new one."""
        task, project = self._record.task, self._context.project
        for record in records.every(project):
            if record.sandbox.id != self._record.id:
                continue
            if record.stage is SandboxStage.MAKING:  # the making broke off: nobody has worked in it
                await discard(record.sandbox, tip=record.sandbox.base)
                continue
            if record.stage is SandboxStage.REMOVING:
                record = await take_away(project, record.sandbox, tip=record.tip)
            if not record.exists:
                raise SandboxError(
                    f"The sandbox is not there any more: {record.sandbox.folder}.",
                    advice=f"Its work is on the branch {record.sandbox.branch}."
                    if record.stage is SandboxStage.HOME
                    else "",
                )
            return record.sandbox
        if left_behind := await dirty(project, self._context.config.specs_path):
            shown = ", ".join(left_behind[:5]) + (f" and {len(left_behind) - 5} more" if left_behind[5:] else "")
            await self._say(f"The sandbox begins at a commit; changes that are not committed are not in it: {shown}.")
        sandbox = await provision(project, self._context.config, base=task.base, title=task.title, id=self._record.id)
        await self.send(
            SandboxCreated(id=sandbox.id, path=str(sandbox.folder), branch=sandbox.branch, base=sandbox.base)
        )
        return sandbox

    async def _work(self, manifest: SandboxManifest, sandbox: Sandbox) -> Worked:
        """What was done to its end in an earlier run of this spawn is not done again."""
        if self._record.status == "success":
            return Worked(status="success", summary=self._record.summary)
        if lacks := self._context.backend.lacks:
            await self._say(lacks)
        environment = self._environment(manifest)
        async with trio.open_nursery() as left_running:
            await self._set_up(sandbox, environment, left_running)
            try:
                worked = await work(
                    self._context,
                    self._record.task,
                    sandbox,
                    manifest,
                    self._prompt(sandbox),
                    self._environment,
                    self._place.output,
                    Keep(
                        manifest=lambda changed: self._update(manifest=changed),
                        conversation=lambda name: self._update(conversation=name),
                    ),
                    self.send,
                    conversation=self._record.conversation,
                )
            except LlmSessionError:
                await self._ended("failed")
                raise
            left_running.cancel_scope.cancel(reason="the work is over")
        await self._ended(worked.status, worked.summary)
        return worked

    async def _ended(self, status: SpawnStatus, summary: str = "") -> None:
        self._update(status=status, summary=self._redaction.text(summary))
        await self.send(LLMCompleted(status=status))

    async def _integrate(self, sandbox: Sandbox, *, integrate: bool) -> bool:
        """The work is settled on its branch, and taken home if it is to be. False: it could not be."""
        if not integrate:
            home = await settle_only(self._context, self._record, sandbox, self._permits(), self._redaction)
        else:
            environment = self._environment(self._manifest)
            secrets = tuple(self._secrets)
            home = await integrate_spawn(
                self._context, self._record, sandbox, self._permits(), environment, secrets, self._place, self.send
            )
        self._tell(
            pull_request=home.pull_request,
            branch=home.branch,
            changes=home.changes,
            left_out=home.left_out,
            conflicts=home.conflicts,
        )
        if home.problem:
            self._tell(problem="\n".join(filter(None, (self.report.problem, home.problem))))
        elif integrate:
            self._update(integrated=True)
            self._forget(sandbox)
            if not home.changes:
                self._tell(summary="\n\n".join(filter(None, (self.report.summary, "Nothing was changed."))))
        return not home.problem

    # ---- parts of phases

    def _forget(self, sandbox: Sandbox) -> None:
        """The conversation that nobody will go on with, as far as the agent keeps it in files of its own."""
        if (conversation := self._record.conversation) is not None:
            environment = built(self._context.backend, self._manifest, {}, self._context.environment)
            forget(self._context.backend, environment, sandbox.root, conversation)

    def _environment(self, manifest: SandboxManifest) -> Mapping[str, str]:
        """Built, not inherited."""
        spawn, root = self._context.config.spawn, self._context.project.root
        values = resolve(manifest.secrets, spawn.secrets, self._context.environment, root)
        self._keep_secret(values.values())
        return built(self._context.backend, manifest, values, self._context.environment, self._git)

    async def _set_up(self, sandbox: Sandbox, environment: Mapping[str, str], left_running: trio.Nursery) -> None:
        if (command := self._context.config.setup_command) is None or self._record.conversation is not None:
            return
        commands = self._context.commands(sandbox, environment)
        timeout = self._context.config.limits.command_timeout
        with redacted(self._place.output("setup"), self._place.setup, self._redaction) as output:
            result = await commands.set_up(command, output, timeout=timeout, nursery=left_running)
        if result.exit_code != 0:
            await self._say(f"The setup command exited with {result.exit_code}; its output: {self._place.setup}")

    def _prompt(self, sandbox: Sandbox) -> Prompt:
        config = self._context.config
        check = config.check_command or "(none is configured)"
        specs = str(sandbox.root / config.specs_path)
        return fill(Role.WORKER, {"task": self._record.prompt, "specs": specs, "check": check})

    @property
    def _manifest(self) -> SandboxManifest:
        assert self._record.manifest is not None
        return self._record.manifest

    def _permits(self) -> Permits:
        return Permits(manifest=self._manifest, bounds=self._context.bounds)

    async def _keep_work(self) -> None:
        """Interrupted: what there is goes onto the branch."""
        for record in records.every(self._context.project):
            if record.sandbox.id == self._record.id and record.exists and self._record.manifest is not None:
                try:
                    home = await settle_only(
                        self._context, self._record, record.sandbox, self._permits(), self._redaction
                    )
                except CugginoError as error:
                    self._tell(problem=str(error), branch=record.sandbox.branch)
                else:
                    self._tell(branch=home.branch, changes=home.changes, left_out=home.left_out)

    async def _finish(self, status: SpawnStatus, code: int) -> None:
        again = "" if status == "success" else f"To go on with it: cuggino spawn retry {self._record.id}"
        self._tell(
            status=status,
            seconds=(self._context.now() - self._began).total_seconds(),
            cost=spent(self._usage),
            problem="\n".join(filter(None, (self.report.problem, again))),
        )
        write_atomic(self._place.report, self.text)
        await self.send(SpawnCompleted(status=status, exit_code=code, report=str(self._place.report)))

    # ---- telling

    def _keep_secret(self, values: Iterable[str]) -> None:
        """From now on they are redacted wherever something is written."""
        self._secrets |= dict.fromkeys(values)
        self._redaction = Redaction(self._secrets)

    async def send(self, event: Event) -> None:
        """Redacted, into the spawn's own log and on."""
        event = self._redaction.event(event)
        if isinstance(event, UsageReport):
            self._usage.append(event)
        if not isinstance(event, PingEvent):
            line = LogLine(at=timestamp(), session=self._record.id, event=cast(PrintableEvent, event))
            append(self._place.events, encoder.encode(line) + b"\n")
        await self._send_on(event)

    async def _say(self, text: str) -> None:
        await self.send(SystemMessage(text=text))

    def _tell(self, **more: object) -> None:
        self.report = msgspec.structs.replace(self.report, **more)

    def _update(self, **changes: object) -> None:
        """The record, on disk at once. The manifest also as a file of its own, for people."""
        self._record = msgspec.structs.replace(self._record, **changes)
        self._place.save(self._record)
        if self._record.manifest is not None:
            write_atomic(self._place.manifest, msgspec.json.format(msgspec.json.encode(self._record.manifest)))


def _all_there_are(context: SpawnContext) -> list[str]:
    """The values of all secrets that are configured, as far as they are there."""
    found: dict[str, str] = {}
    for reference in context.config.spawn.secrets:
        with suppress(SandboxError):
            found |= resolve([reference], [reference], context.environment, context.project.root)
    return list(found.values())
