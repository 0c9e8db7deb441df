"""A spawn on disk: the task, how far it has come, and its files. A spawn can be resumed from these."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import TypeVar

import msgspec

from cuggino import records
from cuggino.config import BackendName, Integrate
from cuggino.events import SpawnStatus
from cuggino.manifest import SandboxManifest
from cuggino.project import Project
from cuggino.spawn.recover import Strategy

T = TypeVar("T")

TITLE = 72
"""Maximum characters of a title, which is the first line of the prompt."""


class Task(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The prompt and the options of `cuggino spawn`. Times are in seconds."""

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
    """`.cuggino/spawns/<id>/spawn.json`. `status`: how the agent's work ended; None while it works, or if cuggino was
    killed.
    """

    id: str
    task: Task
    started_at: datetime
    prompt: str
    """The agent's prompt: the person's own words, unless the evaluation was asked to rewrite them."""
    manifest: SandboxManifest | None = None
    conversation: str | None = None
    """The agent's own name of its conversation, once that has begun."""
    status: SpawnStatus | None = None
    summary: str = ""
    integrated: bool = False
    """The work is integrated, or nothing was changed."""


class SpawnFiles:
    """The directory of one spawn, `.cuggino/spawns/<id>/`, and the files in it."""

    def __init__(self, project: Project, id: str) -> None:  # noqa: A002
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
        """Return the file for an agent's raw output. It may hold secrets, and is deleted when the agent has ended."""
        return self.folder / f".{what}.out"

    def create(self) -> None:
        self.folder.mkdir(0o700, exist_ok=True)

    def clear(self) -> None:
        """Delete the raw output that a killed run left behind."""
        for path in self.folder.glob(".*"):
            path.unlink(missing_ok=True)

    def save(self, record: SpawnRecord) -> None:
        records.save(self.record, record)


def all_records(project: Project) -> list[SpawnRecord]:
    """Return the records of all spawns that can be read, oldest first."""
    return records.load_all(project.spawns.glob("*/spawn.json"), SpawnRecord)


def find(project: Project, prefix: str) -> SpawnRecord:
    """Return the spawn whose ID starts with `prefix`. Raise NotFound if none or more than one does."""
    return find_by_id(prefix, {record.id: record for record in all_records(project)})


def find_by_id(prefix: str, spawns: Mapping[str, T]) -> T:
    """Return the spawn whose ID starts with `prefix`. Raise NotFound if none or more than one does."""
    return records.find(prefix, spawns, "spawn", list_command="cuggino spawn list")
