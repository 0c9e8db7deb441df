"""What happens to a task in a sandbox of its own."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal, TypeAlias

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
    """`branch` is None where the sandbox is detached."""

    id: str
    path: str
    branch: str | None
    base: str


class LLMStarted(SpawnEvent, frozen=True, kw_only=True):
    """The agent starts on the task; `attempt` counts from 1."""

    agent: str
    attempt: int


class ProgressUpdate(SpawnEvent, frozen=True, kw_only=True):
    """At most every 5 s."""

    state: ProgressState


class PermissionError(SpawnEvent, frozen=True, kw_only=True):  # noqa: A001 - the specification's name
    """The agent's own permissions denied something. `fix` is the change that would allow it; None: there is none."""

    error: str
    fix: str | None


class RecoveryAttempt(SpawnEvent, frozen=True, kw_only=True):
    """The agent goes on with more permissions. `max` is None where there is no limit."""

    attempt: int
    max: int | None


class LLMCompleted(SpawnEvent, frozen=True, kw_only=True):
    status: SpawnStatus


class ConflictsFound(SpawnEvent, frozen=True, kw_only=True):
    """The base has changed in the same places. `small` ones are resolved without an agent."""

    paths: tuple[str, ...]
    small: bool


class PRCreated(SpawnEvent, frozen=True, kw_only=True):
    """`found`: it was there already."""

    url: str
    number: int
    found: bool = False


class SpawnCompleted(SpawnEvent, frozen=True, kw_only=True):
    """The last one, always. `report` is the path of the report."""

    status: SpawnStatus
    exit_code: int
    report: str
