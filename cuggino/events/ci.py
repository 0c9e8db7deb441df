"""What a watch over a pull request does."""

from __future__ import annotations

from typing import Literal

from cuggino.events.agent import Event


class CiEvent(Event, frozen=True, kw_only=True):
    """A step of a watch over a pull request."""


class CiStateLoaded(CiEvent, frozen=True, kw_only=True):
    """The state file was there (`resumed`) or was made."""

    path: str
    resumed: bool
    iteration: int


class CiPolled(CiEvent, frozen=True, kw_only=True):
    """What a poll has told. `pending` are checks' names."""

    iteration: int
    actionable: Literal["failing", "pending", "passing"]
    new_failures: int
    new_threads: int
    pending: tuple[str, ...]


class CiPollFailed(CiEvent, frozen=True, kw_only=True):
    """Nothing is known of the pull request now; `attempt` counts from 1, five in a row end the watch."""

    attempt: int
    message: str


class CiPushDetected(CiEvent, frozen=True, kw_only=True):
    """The head is another one than was known; handled checks count as new again."""

    old: str
    new: str


class CiCheckTriaged(CiEvent, frozen=True, kw_only=True):
    check: str
    verdict: Literal["transient", "flake", "real"]
    cause: str


class CiFixStarted(CiEvent, frozen=True, kw_only=True):
    """An agent works on a check, a thread (its file) or the conflict with the base."""

    what: str
    kind: Literal["check", "thread", "conflict"]
    attempt: int


class CiFixFinished(CiEvent, frozen=True, kw_only=True):
    """`files` were changed; `summary` is the agent's own."""

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
    """Left to the person; said once."""

    what: str
    reason: str


class CiRateLimited(CiEvent, frozen=True, kw_only=True):
    """GitHub asks for patience; the next poll is `seconds` away."""

    seconds: float
    message: str


class CiWatchEnded(CiEvent, frozen=True, kw_only=True):
    """The last one, always. `summary` are lines for people; `state_file` is its path."""

    exit: Literal["all_green", "pr_merged", "pr_closed", "iterations", "failed", "interrupted"]
    exit_code: int
    summary: tuple[str, ...]
    state_file: str
