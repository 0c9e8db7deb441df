"""What a person handed over, and how far it has come: kept on disk, so that a spawn can be gone on with."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import msgspec

from cuggino.config import BackendName, Integrate
from cuggino.errors import NotFound, StorageError
from cuggino.events import SpawnStatus
from cuggino.files import DECODE_ERRORS, write_atomic
from cuggino.manifest import SandboxManifest
from cuggino.project import Project
from cuggino.spawn.recover import Strategy

TITLE = 72
"""Characters of a prompt's first line that become the title."""


class Task(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """What was asked for. Times in seconds."""

    prompt: str
    agent: BackendName
    model: str | None = None
    recovery: Strategy = "moderate"
    max_escalations: int = 1
    idle_timeout: float = 120
    total_timeout: float = 1800
    base: str | None = None
    integrate: Integrate | None = None
    aisp: bool = False

    @property
    def title(self) -> str:
        first = next((line.strip() for line in self.prompt.splitlines() if line.strip()), "A task")
        return first if len(first) <= TITLE else f"{first[: TITLE - 1]}…"


class SpawnRecord(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """`.cuggino/spawns/<id>/spawn.json`. `status` is how the agent's work ended; None: it has not, or it died."""

    id: str
    task: Task
    started_at: datetime
    prompt: str
    """What the agent is told: the person's own words, unless the evaluation was asked to rewrite them."""
    manifest: SandboxManifest | None = None
    conversation: str | None = None
    """The agent's own name of its conversation, if it has begun."""
    status: SpawnStatus | None = None
    summary: str = ""
    integrated: bool = False
    """Its work is where it was to go, or there was none."""


class SpawnFiles:
    """The folder of one spawn."""

    def __init__(self, project: Project, id: str) -> None:  # noqa: A002 - it is the id
        self.folder = project.spawns / id

    @property
    def record(self) -> Path:
        return self.folder / "spawn.json"

    @property
    def lock(self) -> Path:
        return self.folder / "lock"

    @property
    def manifest(self) -> Path:
        return self.folder / "manifest.json"

    @property
    def events(self) -> Path:
        return self.folder / "events.jsonl"

    @property
    def report(self) -> Path:
        return self.folder / "report.md"

    @property
    def request(self) -> Path:
        return self.folder / "request.md"

    @property
    def setup(self) -> Path:
        return self.folder / "setup.txt"

    @property
    def check(self) -> Path:
        return self.folder / "check.txt"

    def output(self, what: str) -> Path:
        """Where an agent's raw output goes while it runs; it may hold secrets and is removed afterwards."""
        return self.folder / f".{what}.out"

    def make(self) -> None:
        self.folder.mkdir(0o700, exist_ok=True)

    def clear(self) -> None:
        """Remove the raw output that a run has left that was killed."""
        for path in self.folder.glob(".*"):
            path.unlink(missing_ok=True)

    def save(self, record: SpawnRecord) -> None:
        write_atomic(self.record, msgspec.json.format(msgspec.json.encode(record)))


def load(project: Project, id: str) -> SpawnRecord:  # noqa: A002
    """The record of a spawn. StorageError if it cannot be read."""
    path = SpawnFiles(project, id).record
    try:
        return msgspec.json.decode(path.read_bytes(), type=SpawnRecord)
    except (OSError, *DECODE_ERRORS) as error:
        raise StorageError(f"The spawn's record {path} cannot be read: {error}") from error


def every(project: Project) -> list[SpawnRecord]:
    """All spawns whose records can be read, oldest first."""
    found = []
    for path in sorted(project.spawns.glob("*/spawn.json")):
        try:
            found.append(load(project, path.parent.name))
        except StorageError:
            continue
    return found


def find(project: Project, beginning: str) -> SpawnRecord:
    """The one spawn whose id begins so. NotFound says what there is."""
    matching = [record for record in every(project) if beginning and record.id.startswith(beginning)]
    if len(matching) == 1:
        return matching[0]
    if matching:
        raise NotFound(
            f"More than one spawn begins with {beginning}.", advice="\n".join(record.id for record in matching)
        )
    raise NotFound(f"There is no spawn {beginning!r} in {project.spawns}.", advice="See `cuggino spawn list`.")
