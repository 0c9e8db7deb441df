"""Steps of a watch over a backlog."""

from __future__ import annotations

from typing import Literal, TypeAlias, TypeGuard

from cuggino.events.agent import Event


class WatchLoopEvent(Event, frozen=True, kw_only=True):
    """A step of a watch over a backlog."""


class WatchSpecIssueWaiting(WatchLoopEvent, frozen=True, kw_only=True):
    """There are spec issues: a person must close them."""


class WatchBacklogWaiting(WatchLoopEvent, frozen=True, kw_only=True):
    """No item is ready, and no spec issue is open."""


class WatchIdle(WatchLoopEvent, frozen=True, kw_only=True):
    """Idle for `wait_seconds`. `blocked` is how many items exist but cannot start; null if unknown."""

    wait_seconds: int
    blocked: int | None


class WatchProcessingItem(WatchLoopEvent, frozen=True, kw_only=True):
    """The watch starts on an item."""

    filename: str


class WatchItemCompleted(WatchLoopEvent, frozen=True, kw_only=True):
    """An item was finished and left the backlog."""

    filename: str


class WatchItemNotRemoved(WatchLoopEvent, frozen=True, kw_only=True):
    """An item's loop ended without removing its file."""

    filename: str
    reason: Literal["changed", "spec-issue", "gone"]


class WatchItemFailed(WatchLoopEvent, frozen=True, kw_only=True):
    """An item's loop failed. The watch tries it again after `retry_in` seconds, or not at all if null."""

    filename: str
    message: str
    attempt: int
    retry_in: float | None


class WatchItemBlocked(WatchLoopEvent, frozen=True, kw_only=True):
    """An item is set aside until its content changes or the watch restarts."""

    filename: str
    reason: str


class WatchAuditStarted(WatchLoopEvent, frozen=True, kw_only=True):
    """An audit starts."""


class WatchAuditEnded(WatchLoopEvent, frozen=True, kw_only=True):
    """The audit finished by itself."""


class WatchAuditInterrupted(WatchLoopEvent, frozen=True, kw_only=True):
    """New work or a stop ended the audit; none of its processes is left."""


class WatchAuditFailed(WatchLoopEvent, frozen=True, kw_only=True):
    """The audit failed. The watch continues."""

    message: str


class WatchTbdItemFound(WatchLoopEvent, frozen=True, kw_only=True):
    """A finding was saved to `.cuggino/tbd/`."""

    content: str
    filename: str


class WatchValidationStarted(WatchLoopEvent, frozen=True, kw_only=True):
    """The validation command starts, after `completed` items."""

    completed: int


class WatchValidationPassed(WatchLoopEvent, frozen=True, kw_only=True):
    """The validation command succeeded."""

    completed: int


class WatchValidationFailed(WatchLoopEvent, frozen=True, kw_only=True):
    """The validation command failed. The watch ends."""

    completed: int
    output: str
    exit_code: int


class WatchPollFailed(WatchLoopEvent, frozen=True, kw_only=True):
    """The directories could not be read. `attempt` counts from 1; the third failure in a row ends the watch."""

    attempt: int
    message: str


class WatchStopping(WatchLoopEvent, frozen=True, kw_only=True):
    """The watch was asked to stop. `active` is how many items are in progress."""

    stage: Literal["drain", "interrupt", "kill"]
    active: int


class WatchEnded(WatchLoopEvent, frozen=True, kw_only=True):
    """Always the last event of a watch."""

    reason: Literal["idle", "interrupted", "validation-failed", "poll-failed", "setup-failed"]
    completed: int
    exit_code: int


WatchStep: TypeAlias = (
    WatchSpecIssueWaiting
    | WatchBacklogWaiting
    | WatchIdle
    | WatchProcessingItem
    | WatchItemCompleted
    | WatchItemNotRemoved
    | WatchItemFailed
    | WatchItemBlocked
    | WatchAuditStarted
    | WatchAuditEnded
    | WatchAuditInterrupted
    | WatchAuditFailed
    | WatchTbdItemFound
    | WatchValidationStarted
    | WatchValidationPassed
    | WatchValidationFailed
    | WatchPollFailed
    | WatchStopping
    | WatchEnded
)


def is_watch_loop_event(event: Event) -> TypeGuard[WatchLoopEvent]:
    return isinstance(event, WatchLoopEvent)
