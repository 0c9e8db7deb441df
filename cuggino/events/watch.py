"""What the loop over the backlog does."""

from __future__ import annotations

from typing import Literal

from cuggino.events.agent import Event


class WatchLoopEvent(Event, frozen=True, kw_only=True):
    """What the loop over the backlog does."""


class WatchSpecIssueWaiting(WatchLoopEvent, frozen=True, kw_only=True):
    """Spec issues exist: a person must clear them."""


class WatchBacklogWaiting(WatchLoopEvent, frozen=True, kw_only=True):
    """No spec issue, and nothing is ready."""


class WatchIdle(WatchLoopEvent, frozen=True, kw_only=True):
    """Idle for so many seconds. `blocked` items exist but cannot be taken; None: unknown."""

    wait_seconds: int
    blocked: int | None


class WatchProcessingItem(WatchLoopEvent, frozen=True, kw_only=True):
    filename: str


class WatchItemCompleted(WatchLoopEvent, frozen=True, kw_only=True):
    """It was finished and left the backlog."""

    filename: str


class WatchItemNotRemoved(WatchLoopEvent, frozen=True, kw_only=True):
    """The loop ended and no file was removed."""

    filename: str
    reason: Literal["changed", "spec-issue", "gone"]


class WatchItemFailed(WatchLoopEvent, frozen=True, kw_only=True):
    """The loop failed on it. `retry_in` seconds later it is tried again; None: it is not."""

    filename: str
    message: str
    attempt: int
    retry_in: float | None


class WatchItemBlocked(WatchLoopEvent, frozen=True, kw_only=True):
    """Set aside until its content changes or the watch starts anew."""

    filename: str
    reason: str


class WatchAuditStarted(WatchLoopEvent, frozen=True, kw_only=True):
    pass


class WatchAuditEnded(WatchLoopEvent, frozen=True, kw_only=True):
    """By itself."""


class WatchAuditInterrupted(WatchLoopEvent, frozen=True, kw_only=True):
    """Work arrived, or a stop; nothing of it is alive."""


class WatchAuditFailed(WatchLoopEvent, frozen=True, kw_only=True):
    """The watch goes on."""

    message: str


class WatchTbdItemFound(WatchLoopEvent, frozen=True, kw_only=True):
    """A finding was saved to `.cuggino/tbd/`."""

    content: str
    filename: str


class WatchValidationStarted(WatchLoopEvent, frozen=True, kw_only=True):
    completed: int


class WatchValidationPassed(WatchLoopEvent, frozen=True, kw_only=True):
    completed: int


class WatchValidationFailed(WatchLoopEvent, frozen=True, kw_only=True):
    completed: int
    output: str
    exit_code: int


class WatchPollFailed(WatchLoopEvent, frozen=True, kw_only=True):
    """The folders could not be read; `attempt` counts from 1, three in a row end the watch."""

    attempt: int
    message: str


class WatchStopping(WatchLoopEvent, frozen=True, kw_only=True):
    """A stop was asked for. `active` is how many items are being worked on."""

    stage: Literal["drain", "interrupt", "kill"]
    active: int


class WatchEnded(WatchLoopEvent, frozen=True, kw_only=True):
    """The last one, always."""

    reason: Literal["idle", "interrupted", "validation-failed", "poll-failed", "setup-failed"]
    completed: int
    exit_code: int
