"""List spawns and sandboxes with their states, and remove the sandboxes that are not needed any more."""

from __future__ import annotations

from pathlib import Path

import msgspec

from cuggino.errors import CugginoError, SandboxError
from cuggino.events import SpawnStatus
from cuggino.lock import read_owner
from cuggino.output.text import shorten, visible
from cuggino.project import Project
from cuggino.sandbox import records
from cuggino.sandbox.records import SandboxRecord, SandboxStage
from cuggino.sandbox.removal import remove
from cuggino.spawn import task as tasks
from cuggino.spawn.task import SpawnFiles, SpawnRecord


class SpawnEntry(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A spawn, or a sandbox of `watch --jobs` or `ci watch`. `folder` is null if it does not exist any more."""

    id: str
    state: str
    title: str
    branch: str | None = None
    folder: str | None = None


def describe_state(record: SpawnRecord | None, sandbox: SandboxRecord | None, *, running: bool) -> str:
    """Return the state in a few words, with the command that continues from there. Pure."""
    if running:
        return "running"
    if record is None:  # a sandbox of a watch
        return _STAGES[sandbox.stage] if sandbox is not None else "removed"
    return "done" if record.integrated else f"{_UNFINISHED[record.status]} with `cuggino spawn retry ID`"


_UNFINISHED: dict[SpawnStatus | None, str] = {
    "success": "not integrated: try again",
    "failed": "failed: resume it",
    "idle-timeout": "stopped at --idle-timeout: resume it",
    "total-timeout": "stopped at --total-timeout: resume it",
    "permission-denied": "permission denied: resume it",
    "interrupted": "interrupted: resume it",
    None: "interrupted: resume it",
}
_STAGES = {
    SandboxStage.MAKING: "incomplete: remove it with `cuggino spawn clean`",
    SandboxStage.MADE: "interrupted",
    SandboxStage.WORKED: "not integrated: its work is on its branch",
    SandboxStage.INTEGRATED: "done",
    SandboxStage.REMOVING: "being removed",
    SandboxStage.REMOVED: "done, removed",
}


async def list_entries(project: Project) -> list[SpawnEntry]:
    """Return an entry for each spawn and each sandbox, oldest first."""
    sandboxes = {each.sandbox.id: each for each in await _sandboxes(project)}
    spawns = {record.id: record for record in tasks.all_records(project)}
    return [_entry(project, id, spawns.get(id), sandboxes.get(id)) for id in sorted({*sandboxes, *spawns})]  # noqa: A001


async def _sandboxes(project: Project) -> tuple[SandboxRecord, ...]:
    return (*records.load_all(project), *await records.unrecorded(project))


def _entry(project: Project, id: str, record: SpawnRecord | None, sandbox: SandboxRecord | None) -> SpawnEntry:  # noqa: A002
    title = record.task.title if record is not None else sandbox.sandbox.title if sandbox is not None else ""
    return SpawnEntry(
        id=id,
        state=describe_state(record, sandbox, running=is_running(project, id, sandbox)),
        title=title,
        branch=sandbox.sandbox.branch if sandbox is not None and sandbox.stage is not SandboxStage.REMOVED else None,
        folder=str(sandbox.sandbox.folder) if sandbox is not None and sandbox.exists else None,
    )


def is_running(project: Project, id: str, sandbox: SandboxRecord | None) -> bool:  # noqa: A002
    """Return whether a live command uses the sandbox.

    A spawn has a lock of its own. An item's sandbox belongs to the watch that holds the project's lock, which may
    resume in it at any moment; a pull request's to any of the CI watches.
    """
    files = SpawnFiles(project, id)
    if files.record.exists():
        return _is_held(project, files.lock)
    if sandbox is None or sandbox.stage not in (SandboxStage.MAKING, SandboxStage.MADE, SandboxStage.WORKED):
        return False
    if sandbox.sandbox.item is not None:
        return _is_held(project, project.lock_file, "cuggino watch")
    return any(_is_held(project, path) for path in project.state_dir.glob("ci-*.lock"))


def _is_held(project: Project, lock: Path, command: str | None = None) -> bool:
    owner = read_owner(project, file=lock)
    return owner is not None and owner.lives() and command in (None, owner.command)


def render_entries(entries: list[SpawnEntry], *, width: int) -> list[str]:
    """Return the lines for people: a title line of at most `width` columns each, then state, branch and folder."""
    lines = []
    for entry in entries:
        lines.append(shorten(f"{entry.id}  {entry.title}", width))
        lines.append(f"    {entry.state}")
        if entry.branch is not None:
            lines.append(f"    branch {entry.branch}")
        if entry.folder is not None:
            lines.append(f"    {visible(entry.folder)}")
    return lines


async def remove_sandboxes(project: Project, id: str | None, *, force: bool) -> tuple[list[str], int]:  # noqa: A002
    """Remove one sandbox, or with None all that no command uses.

    Return a line for each that was removed or kept, and the exit code: 1 if any was kept.
    """
    lines: list[str] = []
    code = 0
    for record in await _sandboxes(project):
        sandbox = record.sandbox
        if record.stage is SandboxStage.REMOVED or (id is not None and sandbox.id != id):
            continue
        try:
            if is_running(project, sandbox.id, record):
                raise SandboxError(f"{sandbox.id} is in use.")
            await remove(project, sandbox, force=force)
        except CugginoError as error:
            lines.append(f"Kept: {error}")
            code = 1
        else:
            lines.append(f"Removed {sandbox.id}  {sandbox.title}")
    return lines or ["Nothing to remove."], code
