"""Events of a watch over a pull request."""

from __future__ import annotations

from typing import Literal

from cuggino.events.agent import Event


class CiEvent(Event, frozen=True, kw_only=True):
    """An event of a watch over a pull request."""


class CiStateLoaded(CiEvent, frozen=True, kw_only=True):
    """The state file was read (`resumed`), or there is none yet."""

    path: str
    resumed: bool
    iteration: int


class CiPolled(CiEvent, frozen=True, kw_only=True):
    """A poll was read. `pending` are names of checks."""

    iteration: int
    actionable: Literal["failing", "pending", "passing"]
    new_failures: int
    new_threads: int
    pending: tuple[str, ...]


class CiPollFailed(CiEvent, frozen=True, kw_only=True):
    """A poll failed. `attempt` counts from 1; five in a row end the watch."""

    attempt: int
    message: str


class CiPushDetected(CiEvent, frozen=True, kw_only=True):
    """Somebody else pushed: handled checks count as new again."""

    old: str
    new: str


class CiCheckTriaged(CiEvent, frozen=True, kw_only=True):
    check: str
    verdict: Literal["transient", "flake", "real"]
    cause: str


class CiFixStarted(CiEvent, frozen=True, kw_only=True):
    """An agent starts on a check, a thread (`what` is its file) or the conflict with the base."""

    what: str
    kind: Literal["check", "thread", "conflict"]
    attempt: int


class CiFixFinished(CiEvent, frozen=True, kw_only=True):
    """The agent changed `files`; `summary` is its own."""

    what: str
    kind: Literal["check", "thread", "conflict"]
    files: tuple[str, ...]
    summary: str


class CiPushed(CiEvent, frozen=True, kw_only=True):
    branch: str
    commit: str


class CiThreadAnswered(CiEvent, frozen=True, kw_only=True):
    thread: str
    path: str
    fixed: bool


class CiNeedsPerson(CiEvent, frozen=True, kw_only=True):
    """Something is left to the person, which is reported once."""

    what: str
    reason: str


class CiRateLimited(CiEvent, frozen=True, kw_only=True):
    """GitHub limits requests; the next poll is in `seconds`."""

    seconds: float
    message: str


class CiWatchEnded(CiEvent, frozen=True, kw_only=True):
    """Always the last event. `summary` are lines for people; `state_file` is a path."""

    exit: Literal["all_green", "pr_merged", "pr_closed", "iterations", "failed", "interrupted"]
    exit_code: int
    summary: tuple[str, ...]
    state_file: str
