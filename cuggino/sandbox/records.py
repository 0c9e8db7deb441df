"""Which sandboxes there are, and how far each has come: on disk before it happens, so that a crash leaves no riddle.

`.cuggino/spawns/<id>/sandbox.json` is a sandbox's record. A copy of it is in the git directory of the sandbox, so that
one whose record was deleted is still known.
"""

from __future__ import annotations

import contextlib
from enum import StrEnum
from pathlib import Path

import msgspec

from cuggino.errors import GitError, SandboxError
from cuggino.files import DECODE_ERRORS, write_atomic
from cuggino.git.run import SAFE, git_output
from cuggino.project import Project
from cuggino.sandbox.sandbox import Sandbox

RECORD_NAME = "sandbox.json"
COPY_NAME = "cuggino-sandbox.json"


class SandboxStage(StrEnum):
    """How far a sandbox has come. Written before what its name says is begun, and never earlier than it could be."""

    MAKING = "making"
    """It is being made, or the making broke off: nobody has worked in it."""
    MADE = "made"
    """An agent works in it, or was interrupted."""
    WORKED = "worked"
    """The work is on its branch."""
    HOME = "home"
    """The work is where it was to go."""
    REMOVING = "removing"
    """It is being removed, and that is decided: what was to be looked at has been. Nobody works in it again."""
    REMOVED = "removed"
    """The folder and the branch are gone; what it did is still told."""


class SandboxRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A sandbox and its stage."""

    sandbox: Sandbox
    stage: SandboxStage
    tip: str | None = None
    """While it is being removed: the commit at which its branch may go. At any other, and with None, it stays."""

    @property
    def exists(self) -> bool:
        """Whether its folder is there. Deleted by hand, it has a branch still, and a git directory to be removed."""
        return self.sandbox.folder.is_dir()


def save(project: Project, sandbox: Sandbox, stage: SandboxStage, *, tip: str | None = None) -> SandboxRecord:
    """Write the record, all or nothing. StorageError."""
    record = SandboxRecord(sandbox=sandbox, stage=stage, tip=tip)
    data = msgspec.json.format(_encode(record), indent=2)
    folder = project.spawns / sandbox.id
    with contextlib.suppress(FileExistsError):
        project.prepare()
        folder.mkdir(0o700)
    if sandbox.git_dir.is_dir():
        write_atomic(sandbox.git_dir / COPY_NAME, data)
    write_atomic(folder / RECORD_NAME, data)
    return record


def delete_record(project: Project, sandbox: Sandbox) -> None:
    """There is no such sandbox, and never was one. What else was written down under its id stays."""
    folder = project.spawns / sandbox.id
    (folder / RECORD_NAME).unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        folder.rmdir()


def find(project: Project, id: str) -> SandboxRecord | None:  # noqa: A002
    """The record of the sandbox with this ID; None if there is none that can be read."""
    return _read(project.spawns / id / RECORD_NAME)


def load_all(project: Project) -> tuple[SandboxRecord, ...]:
    """All whose record can be read, the oldest first."""
    records = (_read(path / RECORD_NAME) for path in _folders(project))
    return tuple(record for record in records if record is not None)


async def unrecorded(project: Project) -> tuple[SandboxRecord, ...]:
    """Sandboxes of this project that are in the repository though their record is gone. None where there is no git."""
    try:
        said = await git_output(project.root, *SAFE, "rev-parse", "--path-format=absolute", "--git-common-dir")
    except GitError:
        return ()
    common = Path(said.decode(errors="surrogateescape").removesuffix("\n"))
    known = {record.sandbox.id for record in load_all(project)}
    found = (_read(path) for path in sorted(common.glob(f"worktrees/*/{COPY_NAME}")))
    return tuple(
        record
        for record in found
        if record is not None
        and record.sandbox.id not in known
        and record.sandbox.common_dir == common
        and record.sandbox.repository / record.sandbox.below == project.root
    )


def _folders(project: Project) -> list[Path]:
    return sorted(path.parent for path in project.spawns.glob(f"*/{RECORD_NAME}"))


def _encode(record: SandboxRecord) -> bytes:
    try:
        return msgspec.json.encode(record, enc_hook=str)
    except UnicodeEncodeError as error:
        raise SandboxError("A path of this repository is not UTF-8, and cannot be written down.") from error


def _read(path: Path) -> SandboxRecord | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=SandboxRecord, dec_hook=lambda kind, text: kind(text))
    except (OSError, *DECODE_ERRORS):
        return None
