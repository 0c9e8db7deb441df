"""Which spawns and sandboxes there are, what state each is in, and removing those that are not needed any more."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from cuggino.errors import CugginoError, NotFound, SandboxError
from cuggino.events import SpawnStatus
from cuggino.lock import read_owner
from cuggino.output.text import shorten, visible
from cuggino.project import Project
from cuggino.sandbox import records
from cuggino.sandbox.records import SandboxStage
from cuggino.sandbox.removal import remove
from cuggino.spawn import task as tasks
from cuggino.spawn.task import SpawnFiles, SpawnRecord


class SpawnEntry(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One spawn, or one sandbox of `watch --jobs`. `folder` is null where it is gone."""

    id: str
    state: str
    title: str
    branch: str | None = None
    folder: str | None = None


def state(record: SpawnRecord | None, sandbox: records.SandboxRecord | None, *, running: bool) -> str:
    """In a few words, and what to do. Pure."""
    if running:
        return "running"
    if record is None:  # an item's, of a watch
        return _STAGES[sandbox.stage] if sandbox is not None else "nothing is left of it"
    if record.integrated:
        return "done"
    if record.status is None:
        return "died or was interrupted: retry goes on"
    return _UNFINISHED[record.status]


_UNFINISHED: dict[SpawnStatus, str] = {
    "success": "its work is not home yet: retry offers it again",
    "failed": "failed: retry goes on",
    "idle-timeout": "was silent for too long: retry goes on",
    "total-timeout": "took too long: retry goes on",
    "permission-denied": "permission denied: retry goes on",
    "interrupted": "was interrupted: retry goes on",
}
_STAGES = {
    SandboxStage.MAKING: "was not made whole: clean removes it",
    SandboxStage.MADE: "is being worked in, or was interrupted",
    SandboxStage.WORKED: "its work is on its branch, and not home yet",
    SandboxStage.HOME: "done",
    SandboxStage.REMOVING: "is being removed",
    SandboxStage.REMOVED: "done, removed",
}


async def entries(project: Project) -> list[SpawnEntry]:
    """All there are, oldest first."""
    sandboxes = {each.sandbox.id: each for each in (*records.load_all(project), *await records.unrecorded(project))}
    spawns = {record.id: record for record in tasks.every(project)}
    return [_entry(project, id, spawns.get(id), sandboxes.get(id)) for id in sorted({*sandboxes, *spawns})]  # noqa: A001


def _entry(project: Project, id: str, record: SpawnRecord | None, sandbox: records.SandboxRecord | None) -> SpawnEntry:  # noqa: A002
    there = sandbox is not None and sandbox.exists
    title = record.task.title if record is not None else sandbox.sandbox.title if sandbox is not None else ""
    return SpawnEntry(
        id=id,
        state=state(record, sandbox, running=is_running(project, id, sandbox)),
        title=title,
        branch=sandbox.sandbox.branch if sandbox is not None and sandbox.stage is not SandboxStage.REMOVED else None,
        folder=str(sandbox.sandbox.folder) if sandbox is not None and there else None,
    )


def found(entries: Sequence[SpawnEntry], beginning: str) -> SpawnEntry:
    """The one whose id begins so. NotFound says what there is."""
    matching = [entry for entry in entries if beginning and entry.id.startswith(beginning)]
    if len(matching) == 1:
        return matching[0]
    what = "More than one spawn begins" if matching else "No spawn begins"
    raise NotFound(f"{what} with {beginning!r}.", advice="`cuggino spawn list` shows them all.")


def is_running(project: Project, id: str, sandbox: records.SandboxRecord | None) -> bool:  # noqa: A002
    """Whether a living command works in it: its own; or, for an item's, the watch that holds the project, which may
    go on with it at any moment; or, for a pull request's, one of the CI watches."""
    files = SpawnFiles(project, id)
    if files.record.exists():
        return _lives(project, files.lock)
    if sandbox is None or sandbox.stage not in (SandboxStage.MAKING, SandboxStage.MADE, SandboxStage.WORKED):
        return False
    if sandbox.sandbox.item is not None:
        return _lives(project, project.lock_file, "cuggino watch")
    return any(_lives(project, path) for path in project.state_dir.glob("ci-*.lock"))


def _lives(project: Project, lock: Path, command: str | None = None) -> bool:
    owner = read_owner(project, file=lock)
    return owner is not None and owner.lives() and command in (None, owner.command)


async def listed(project: Project, *, as_json: bool, width: int = 120) -> list[str]:
    """A line for people for each, with its branch and folder below, or a JSON object a line."""
    there = await entries(project)
    if as_json:
        return [msgspec.json.encode(entry).decode() for entry in there]
    lines = []
    for entry in there:
        lines.append(shorten(f"{entry.id}  {entry.title}", width))
        lines.append(f"    {entry.state}")
        if entry.branch is not None:
            lines.append(f"    branch {entry.branch}")
        if entry.folder is not None:
            lines.append(f"    {visible(entry.folder)}")
    return lines


async def clean(project: Project, id: str | None, *, force: bool) -> tuple[list[str], int]:  # noqa: A002
    """Remove one sandbox, or all that nobody works in; what was done and refused, and the exit code: 1 if any was."""
    lines: list[str] = []
    code = 0
    for record in (*records.load_all(project), *await records.unrecorded(project)):
        sandbox = record.sandbox
        if record.stage is SandboxStage.REMOVED or (id is not None and sandbox.id != id):
            continue
        try:
            if is_running(project, sandbox.id, record):
                raise SandboxError(f"{sandbox.id} is being worked in.")
            await remove(project, sandbox, force=force)
        except CugginoError as error:
            lines.append(f"Kept: {error}")
            code = 1
        else:
            lines.append(f"Removed {sandbox.id}  {sandbox.title}")
    return lines or ["There is nothing to remove."], code
