"""The last part of the way: settle what the agent did, bring it home, and tell what came of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from cuggino.config import Limits
from cuggino.events import Send, SystemMessage
from cuggino.files import write_atomic
from cuggino.integrate.checkout import undo
from cuggino.integrate.integration import Integration, IntegrationResult, integrate
from cuggino.integrate.repair import Repairer
from cuggino.manifest import Permits
from cuggino.project import Project
from cuggino.sandbox import records
from cuggino.sandbox.changes import changes
from cuggino.sandbox.environment import launcher
from cuggino.sandbox.leaks import Leak, leaks
from cuggino.sandbox.records import SandboxStage
from cuggino.sandbox.removal import take_away
from cuggino.sandbox.sandbox import Sandbox
from cuggino.sandbox.secrets import Redaction
from cuggino.sandbox.settle import settle
from cuggino.spawn.context import SpawnContext
from cuggino.spawn.report import ChangedFile
from cuggino.spawn.task import Place, Record


class SpawnIntegration(msgspec.Struct, frozen=True, kw_only=True):
    """What the report tells of it. `problem`: why the work is not home; it is kept then."""

    pull_request: tuple[int, str] | None = None
    branch: str | None = None
    changes: Sequence[ChangedFile] = ()
    left_out: Sequence[str] = ()
    conflicts: Sequence[str] = ()
    problem: str = ""


async def settle_only(
    context: SpawnContext, record: Record, sandbox: Sandbox, permits: Permits, redaction: Redaction
) -> SpawnIntegration:
    """The work so far onto the branch, which is kept."""
    await undo(sandbox)
    settled = await settle(sandbox, permits, redaction.text(_message(record)))
    records.save(context.project, sandbox, SandboxStage.MADE)
    shown = await _changed(sandbox, sandbox.base, settled.tip)
    return SpawnIntegration(branch=sandbox.branch, changes=shown, left_out=settled.left_out)


async def integrate_spawn(
    context: SpawnContext,
    record: Record,
    sandbox: Sandbox,
    permits: Permits,
    environment: Mapping[str, str],
    secrets: Sequence[str],
    place: Place,
    send: Send,
) -> SpawnIntegration:
    """Settle and bring home. `environment` is that of the check command and of an agent that repairs; `secrets` are
    values that must not leave this machine. Where it comes home the sandbox goes, as far as nothing is left in it."""
    redaction = Redaction(secrets)
    await undo(sandbox)  # a merge that was killed halfway is no work of the agent's
    settled = await settle(sandbox, permits, redaction.text(_message(record)))
    records.save(context.project, sandbox, SandboxStage.WORKED)
    config = context.config
    attempts = config.spawn.repair_attempts
    repairer = Repairer(
        agent=context.agent,
        task=record.prompt,
        specs_path=config.specs_path,
        check=config.check_command,
        permits=permits,
        environment=environment,
        launcher=launcher(config.spawn.launcher, sandbox),
        model=record.task.model,
        limits=Limits(idle_timeout=record.task.idle_timeout, agent_timeout=record.task.total_timeout),
        attempts=attempts,
        outputs=place.folder,
        send=send,
        backend=context.backend,
    )

    async def search(repository: Path, base: str, tip: str) -> list[Leak]:
        return await leaks(repository, base, tip, secrets)

    home = await integrate(
        Integration(
            sandbox=sandbox,
            tip=settled.tip,
            permits=permits,
            title=redaction.text(record.task.title),
            body=redaction.text(record.summary),
            chosen=record.task.integrate or config.spawn.integrate,
            check=checking(context, sandbox, environment, place, redaction),
            repair=repairer,
            repair_attempts=attempts,
            leaks=search,
        ),
        send,
    )
    left_out = (*settled.left_out, *home.left_out)
    if home.how != "kept":
        await put_away(context.project, sandbox, home, keeps_folder=bool(left_out))
    if home.reason and home.how != "kept":
        await send(SystemMessage(text=home.reason))
    found = home.pull_request
    return SpawnIntegration(
        pull_request=None if found is None else (found.number, found.url),
        branch=None if home.how in ("nothing", "merge") else sandbox.branch,
        changes=await _changed(sandbox, home.base or sandbox.base, home.tip),
        left_out=left_out,
        conflicts=_told(home),
        problem=home.reason if home.how == "kept" else "",
    )


def checking(
    context: SpawnContext, sandbox: Sandbox, environment: Mapping[str, str], place: Place, redaction: Redaction
) -> Callable[[Path], Awaitable[bool]] | None:
    """The check command in the sandbox; None: none is configured."""
    command = context.config.check_command
    if command is None:
        return None
    commands = context.commands(sandbox, environment)

    async def check(_root: Path) -> bool:
        with redacted(place.output("check"), place.check, redaction) as output:
            result = await commands.run(command, output, timeout=context.config.limits.command_timeout)
        return result.exit_code == 0

    return check


@contextmanager
def redacted(raw: Path, told: Path, redaction: Redaction) -> Iterator[Path]:
    """A file for the raw output of a command. It is removed with the block, and what may be told of it is kept."""
    try:
        yield raw
    finally:
        if raw.exists():
            write_atomic(told, redaction.bytes(raw.read_bytes()))
            raw.unlink()


async def put_away(project: Project, sandbox: Sandbox, home: IntegrationResult, *, keeps_folder: bool) -> None:
    """What is not needed any more goes: the branch only where a merge has it, or nothing is on it. What breaks off, a
    later command finishes."""
    if keeps_folder:
        records.save(project, sandbox, SandboxStage.HOME)
        return
    gone = home.how in ("nothing", "merge")
    await take_away(project, sandbox, tip=(home.tip or sandbox.base) if gone else None)


async def _changed(sandbox: Sandbox, base: str, tip: str | None) -> tuple[ChangedFile, ...]:
    if tip is None:
        return ()
    return tuple(
        ChangedFile(path=it.path, added=it.added, removed=it.removed, what=it.what)
        for it in await changes(sandbox.repository, base, tip)
    )


def _told(home: IntegrationResult) -> list[str]:
    how = {"small": "both sides' lines kept", "repair": "repaired by an agent", "clean": "merged"}
    outcome = how[home.merged] if home.merged is not None else "left for you"
    return [f"`{conflict.path}` ({', '.join(conflict.kinds)}): {outcome}" for conflict in home.conflicts]


def _message(record: Record) -> str:
    return f"{record.task.title}\n\n{record.summary}".strip()
