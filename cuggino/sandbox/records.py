"""Store which sandboxes exist and how far each has come, so that a later command can continue after a crash.

`.cuggino/spawns/<id>/sandbox.json` is the record of a sandbox. A copy is in the git directory of the sandbox, so that a
sandbox is still known after its record was deleted.
"""

from __future__ import annotations

import contextlib
from enum import StrEnum
from pathlib import Path

import msgspec

from cuggino import records
from cuggino.errors import GitError
from cuggino.git.run import SAFE, git_output
from cuggino.project import Project
from cuggino.sandbox.sandbox import Sandbox

RECORD_NAME = "sandbox.json"
COPY_NAME = "cuggino-sandbox.json"


class SandboxStage(StrEnum):
    """How far a sandbox has come. A stage is stored before what it describes begins."""

    MAKING = "making"
    """It is being made, or that was interrupted. Nothing has worked in it."""
    MADE = "made"
    """An agent works in it, or was interrupted."""
    WORKED = "worked"
    """The work is on its branch."""
    INTEGRATED = "integrated"
    """The work is integrated; the branch, or changes that were left out, are kept."""
    REMOVING = "removing"
    """It is being removed; all checks have passed. Nothing will work in it again."""
    REMOVED = "removed"
    """Folder and branch are removed; the record remains."""


class SandboxRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A sandbox and its stage."""

    sandbox: Sandbox
    stage: SandboxStage
    tip: str | None = None
    """While it is being removed: its branch is deleted if it is at this commit. With None it stays."""

    @property
    def exists(self) -> bool:
        """Whether the folder exists. One that was deleted by hand leaves a branch and a git directory to remove."""
        return self.sandbox.folder.is_dir()


def save(project: Project, sandbox: Sandbox, stage: SandboxStage, *, tip: str | None = None) -> SandboxRecord:
    """Write the record, all or nothing. Raise StorageError if that fails."""
    record = SandboxRecord(sandbox=sandbox, stage=stage, tip=tip)
    folder = project.spawns / sandbox.id
    with contextlib.suppress(FileExistsError):
        project.prepare()
        folder.mkdir(0o700)
    if sandbox.git_dir.is_dir():
        records.save(sandbox.git_dir / COPY_NAME, record)
    records.save(folder / RECORD_NAME, record)
    return record


def delete_record(project: Project, sandbox: Sandbox) -> None:
    """Delete the record of a sandbox that was never made. Other files under its ID stay."""
    folder = project.spawns / sandbox.id
    (folder / RECORD_NAME).unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        folder.rmdir()


def find(project: Project, id: str) -> SandboxRecord | None:  # noqa: A002
    """Return the record of the sandbox with this ID; None if it is missing or cannot be read."""
    return next(iter(records.load_all([project.spawns / id / RECORD_NAME], SandboxRecord)), None)


def load_all(project: Project) -> list[SandboxRecord]:
    """Return all records that can be read, oldest first."""
    return records.load_all(project.spawns.glob(f"*/{RECORD_NAME}"), SandboxRecord)


async def unrecorded(project: Project) -> tuple[SandboxRecord, ...]:
    """Return the sandboxes of this project that git still has, although their record was deleted."""
    try:
        printed = await git_output(project.root, *SAFE, "rev-parse", "--path-format=absolute", "--git-common-dir")
    except GitError:
        return ()
    common = Path(printed.decode(errors="surrogateescape").removesuffix("\n"))
    known = {record.sandbox.id for record in load_all(project)}
    return tuple(
        record
        for record in records.load_all(common.glob(f"worktrees/*/{COPY_NAME}"), SandboxRecord)
        if record.sandbox.id not in known
        and record.sandbox.common_dir == common
        and record.sandbox.repository / record.sandbox.below == project.root
    )
