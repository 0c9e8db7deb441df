"""Steps of a spawn: one task in a sandbox of its own."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal, TypeAlias, TypeGuard

import msgspec

from cuggino.events.agent import Event

SpawnStatus: TypeAlias = Literal[
    "success", "failed", "idle-timeout", "total-timeout", "permission-denied", "interrupted"
]


class ProgressState(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What an agent has done so far, counted from its events."""

    files_read: int = 0
    files_written: int = 0
    commits_made: int = 0
    output_lines: int = 0
    last_activity: datetime
    start_time: datetime
    permission_errors: int = 0
    other_errors: int = 0


class SpawnEvent(Event, frozen=True, kw_only=True):
    """A step of a spawn."""


class ManifestReady(SpawnEvent, frozen=True, kw_only=True):
    """What the agent may do. `source`: a person's file, the evaluation, or the default."""

    manifest: Mapping[str, Any]
    source: Literal["file", "evaluation", "default"]


class SandboxCreated(SpawnEvent, frozen=True, kw_only=True):
    """The sandbox is ready. `branch` is null if it is detached; `base` is the commit it starts from."""

    id: str
    path: str
    branch: str | None
    base: str


class LLMStarted(SpawnEvent, frozen=True, kw_only=True):
    """The agent starts on the task. `attempt` counts from 1."""

    agent: str
    attempt: int


class ProgressUpdate(SpawnEvent, frozen=True, kw_only=True):
    """The agent's progress, at most every 5 seconds."""

    state: ProgressState


class PermissionError(SpawnEvent, frozen=True, kw_only=True):  # noqa: A001 - the specification's name
    """The agent's permissions denied an action. `fix` is the change that would allow it; null if nothing does."""

    error: str
    fix: str | None


class RecoveryAttempt(SpawnEvent, frozen=True, kw_only=True):
    """The agent continues with more permissions. `max` is null if unlimited."""

    attempt: int
    max: int | None


class LLMCompleted(SpawnEvent, frozen=True, kw_only=True):
    """The agent has ended."""

    status: SpawnStatus


class ConflictsFound(SpawnEvent, frozen=True, kw_only=True):
    """The base changed in the same places. `small` conflicts are resolved without an agent."""

    paths: tuple[str, ...]
    small: bool


class PRCreated(SpawnEvent, frozen=True, kw_only=True):
    """The pull request is open. `found` if it existed before."""

    url: str
    number: int
    found: bool = False


class SpawnCompleted(SpawnEvent, frozen=True, kw_only=True):
    """Always the last event of a spawn. `report` is the path of its report."""

    status: SpawnStatus
    exit_code: int
    report: str


SpawnStep: TypeAlias = (
    ManifestReady
    | SandboxCreated
    | LLMStarted
    | ProgressUpdate
    | PermissionError
    | RecoveryAttempt
    | LLMCompleted
    | ConflictsFound
    | PRCreated
    | SpawnCompleted
)


def is_spawn_event(event: Event) -> TypeGuard[SpawnEvent]:
    return isinstance(event, SpawnEvent)
