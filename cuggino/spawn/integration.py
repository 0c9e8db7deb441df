"""Settle and integrate the work of a spawn's agent, and describe the result for the report."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from cuggino.agents.activity_timeout import ActivityLimits
from cuggino.events import Send, SystemMessage
from cuggino.integrate.checkout import undo
from cuggino.integrate.integration import Integration, IntegrationResult, integrate, remove_integrated
from cuggino.integrate.repair import merge_context
from cuggino.sandbox import records
from cuggino.sandbox.changes import changes
from cuggino.sandbox.confine import Confinement
from cuggino.sandbox.records import SandboxStage
from cuggino.sandbox.sandbox import Sandbox
from cuggino.sandbox.settle import settle
from cuggino.spawn.report import ChangedFile
from cuggino.spawn.task import SpawnRecord, Task


class SpawnIntegration(msgspec.Struct, frozen=True, kw_only=True):
    """What the report says about the integration. `problem`: why the work was kept instead."""

    pull_request: tuple[int, str] | None = None
    branch: str | None = None
    changes: Sequence[ChangedFile] = ()
    left_out: Sequence[str] = ()
    conflicts: Sequence[str] = ()
    problem: str = ""


async def settle_only(confinement: Confinement, record: SpawnRecord) -> SpawnIntegration:
    """Commit the work so far on the branch, and keep the branch."""
    sandbox = confinement.sandbox
    await undo(sandbox)
    settled = await settle(sandbox, confinement.permits, _message(confinement, record))
    records.save(confinement.context.project, sandbox, SandboxStage.MADE)
    changed = await _changed(sandbox, sandbox.base, settled.tip)
    return SpawnIntegration(branch=sandbox.branch, changes=changed, left_out=settled.left_out)


async def integrate_spawn(confinement: Confinement, record: SpawnRecord, send: Send) -> SpawnIntegration:
    """Settle the work, then integrate it. Can be repeated. Raise GitError, GitHubError or SandboxError."""
    sandbox, redaction = confinement.sandbox, confinement.redaction
    project, config = confinement.context.project, confinement.context.config
    await undo(sandbox)  # a merge that was killed halfway is not the agent's work
    settled = await settle(sandbox, confinement.permits, _message(confinement, record))
    records.save(project, sandbox, SandboxStage.WORKED)
    attempts = config.spawn.repair_attempts
    result = await integrate(
        Integration(
            context=merge_context(confinement, record.prompt, send, limits=limits(record.task), attempts=attempts),
            tip=settled.tip,
            title=redaction.text(record.task.title),
            body=redaction.text(record.summary),
            chosen=record.task.integrate or config.spawn.integrate,
            leaks=confinement.leaks,
            unmerged=settled.unmerged,
        ),
        send,
    )
    left_out = (*settled.left_out, *result.left_out)
    if result.how != "kept":
        await remove_integrated(project, sandbox, result, keeps_folder=bool(left_out))
        if result.reason:
            await send(SystemMessage(text=result.reason))
    opened = result.pull_request
    return SpawnIntegration(
        pull_request=None if opened is None else (opened.number, opened.url),
        branch=None if result.how in ("nothing", "merge") else sandbox.branch,
        changes=await _changed(sandbox, result.base or sandbox.base, result.tip),
        left_out=left_out,
        conflicts=_conflicts(result),
        problem=result.reason if result.how == "kept" else "",
    )


def limits(task: Task) -> ActivityLimits:
    """Return the time limits of the command line."""
    return ActivityLimits(
        idle=task.idle_timeout,
        total=task.total_timeout,
        idle_option="--idle-timeout",
        total_option="--total-timeout",
    )


async def _changed(sandbox: Sandbox, base: str, tip: str | None) -> tuple[ChangedFile, ...]:
    if tip is None:
        return ()
    return tuple(
        ChangedFile(path=it.path, added=it.added, removed=it.removed, what=it.what)
        for it in await changes(sandbox.repository, base, tip)
    )


def _conflicts(result: IntegrationResult) -> list[str]:
    how = {"small": "both sides' lines kept", "repair": "repaired by an agent", "clean": "merged"}
    outcome = how[result.merged] if result.merged is not None else "left for you"
    return [f"`{conflict.path}` ({', '.join(conflict.kinds)}): {outcome}" for conflict in result.conflicts]


def _message(confinement: Confinement, record: SpawnRecord) -> str:
    return confinement.redaction.text(f"{record.task.title}\n\n{record.summary}".strip())
