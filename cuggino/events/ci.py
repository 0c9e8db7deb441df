"""Steps of a watch over a pull request."""

from __future__ import annotations

from typing import Literal, TypeAlias, TypeGuard

from cuggino.events.agent import Event


class CiEvent(Event, frozen=True, kw_only=True):
    """An event of a watch over a pull request."""


class CiStateLoaded(CiEvent, frozen=True, kw_only=True):
    """Always the first event of a CI watch: its state file was read (`resumed`) or will be created."""

    path: str
    resumed: bool
    iteration: int


class CiPolled(CiEvent, frozen=True, kw_only=True):
    """The result of a poll. `pending` are the names of unfinished checks."""

    iteration: int
    actionable: Literal["failing", "pending", "passing"]
    new_failures: int
    new_threads: int
    pending: tuple[str, ...]


class CiPollFailed(CiEvent, frozen=True, kw_only=True):
    """A poll failed. `attempt` counts from 1; the fifth failure in a row ends the watch."""

    attempt: int
    message: str


class CiPushDetected(CiEvent, frozen=True, kw_only=True):
    """Somebody else pushed. Checks that were handled before count as new."""

    old: str
    new: str


class CiCheckTriaged(CiEvent, frozen=True, kw_only=True):
    """Why a check failed."""

    check: str
    verdict: Literal["transient", "flake", "real"]
    cause: str


class CiFixStarted(CiEvent, frozen=True, kw_only=True):
    """An agent starts to fix a check, a review thread (`what` is its file) or the conflict with the base."""

    what: str
    kind: Literal["check", "thread", "conflict"]
    attempt: int


class CiFixFinished(CiEvent, frozen=True, kw_only=True):
    """The agent has ended. `files` are those it changed; `summary` is its own."""

    what: str
    kind: Literal["check", "thread", "conflict"]
    files: tuple[str, ...]
    summary: str


class CiPushed(CiEvent, frozen=True, kw_only=True):
    """A fix was pushed to the pull request's branch."""

    branch: str
    commit: str


class CiThreadAnswered(CiEvent, frozen=True, kw_only=True):
    """A review thread was answered, with a commit if `fixed`."""

    thread: str
    path: str
    fixed: bool


class CiNeedsPerson(CiEvent, frozen=True, kw_only=True):
    """A check or thread is left to the person. Reported once."""

    what: str
    reason: str


class CiRateLimited(CiEvent, frozen=True, kw_only=True):
    """GitHub limits requests. The next poll is in `seconds`."""

    seconds: float
    message: str


class CiWatchEnded(CiEvent, frozen=True, kw_only=True):
    """Always the last event of a CI watch. `summary` is lines of text; `state_file` is a path."""

    exit: Literal["all_green", "pr_merged", "pr_closed", "iterations", "failed", "interrupted"]
    exit_code: int
    summary: tuple[str, ...]
    state_file: str


CiStep: TypeAlias = (
    CiStateLoaded
    | CiPolled
    | CiPollFailed
    | CiPushDetected
    | CiCheckTriaged
    | CiFixStarted
    | CiFixFinished
    | CiPushed
    | CiThreadAnswered
    | CiNeedsPerson
    | CiRateLimited
    | CiWatchEnded
)


def is_ci_event(event: Event) -> TypeGuard[CiEvent]:
    return isinstance(event, CiEvent)
