"""What follows when an agent did not finish its turn: ask again, retry, wait, or give up. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TypeAlias

import msgspec

from cuggino.config import Limits
from cuggino.errors import LlmSessionError, LlmSessionErrorKind

BACKOFF_FIRST = 5.0
"""Seconds before the first retry. The delay doubles with each further one."""

BACKOFF_MOST = 300.0
"""Maximum seconds before a retry, without jitter."""

AFTER_RESET = timedelta(seconds=30)
"""How long after the reset of a usage limit work resumes: clocks differ."""


class IdleTimeout(msgspec.Struct, frozen=True):
    """The agent was idle for `seconds`, and no tool was running."""

    seconds: float
    option: str = "limits.idleTimeout"

    def __str__(self) -> str:
        return f"it was silent for {self.seconds:g} s ({self.option})"


class TotalTimeout(msgspec.Struct, frozen=True):
    """The agent ran for `seconds`."""

    seconds: float
    option: str = "limits.agentTimeout"

    def __str__(self) -> str:
        return f"it ran longer than {self.seconds:g} s ({self.option})"


class NoMarker(msgspec.Struct, frozen=True):
    """The agent ended by itself without a terminal marker."""

    exit_status: int
    last_words: str

    def __str__(self) -> str:
        words = f"; its last words: {self.last_words}" if self.last_words else ", and it said nothing"
        return f"it ended with exit status {self.exit_status} and without a marker{words}"


class NoPlan(msgspec.Struct, frozen=True):
    """The agent emitted PLAN_COMPLETE, and there is no plan at `path`."""

    path: str

    def __str__(self) -> str:
        return f"it emitted PLAN_COMPLETE but wrote no plan to {self.path}"


Unfinished: TypeAlias = LlmSessionError | IdleTimeout | TotalTimeout | NoMarker | NoPlan
"""How a run of an agent ended that brought no terminal marker."""


class Attempts(msgspec.Struct, frozen=True, kw_only=True):
    """How many times the agent was asked again in this turn, and how many times it was retried after a failure."""

    nudges: int = 0
    retries: int = 0


class AskAgain(msgspec.Struct, frozen=True, kw_only=True):
    """Ask the agent, in the same conversation, to finish and to emit a marker."""

    attempts: Attempts
    reason: str


class RetryAfter(msgspec.Struct, frozen=True, kw_only=True):
    """Resume the conversation after `delay` seconds."""

    attempts: Attempts
    reason: str
    delay: float


class WaitUntil(msgspec.Struct, frozen=True, kw_only=True):
    """Resume the conversation at `until`."""

    attempts: Attempts
    reason: str
    until: datetime


class GiveUp(msgspec.Struct, frozen=True, kw_only=True):
    """End the turn with an error."""

    message: str
    advice: str = ""
    kind: LlmSessionErrorKind | None = None


def decide_retry(
    ending: Unfinished, attempts: Attempts, limits: Limits, *, now: datetime, jitter: float
) -> AskAgain | RetryAfter | WaitUntil | GiveUp:
    """Return what follows. `jitter` is between 0 and 1, and lengthens a delay by up to a quarter."""
    if isinstance(ending, LlmSessionError) and ending.kind is not LlmSessionErrorKind.CRASHED:
        return _decide_after_error(ending, attempts, limits, now=now, jitter=jitter)
    reason = str(ending.message if isinstance(ending, LlmSessionError) else ending)
    if attempts.nudges >= limits.nudges:
        asked = f", asked again {_times(attempts.nudges)}" if attempts.nudges else ""
        return GiveUp(message=f"The agent did not finish{asked}: {reason}")
    return AskAgain(attempts=msgspec.structs.replace(attempts, nudges=attempts.nudges + 1), reason=reason)


def _decide_after_error(
    error: LlmSessionError, attempts: Attempts, limits: Limits, *, now: datetime, jitter: float
) -> RetryAfter | WaitUntil | GiveUp:
    match error.kind:
        case LlmSessionErrorKind.USAGE_LIMIT if error.resets_at is not None and error.resets_at > now:
            return WaitUntil(attempts=attempts, reason=error.message, until=error.resets_at + AFTER_RESET)
        case LlmSessionErrorKind.OVERLOADED | LlmSessionErrorKind.NETWORK | LlmSessionErrorKind.USAGE_LIMIT:
            if attempts.retries >= limits.retries:
                retried = f" (tried again {_times(attempts.retries)})" if attempts.retries else ""
                return GiveUp(message=f"{error.message}{retried}", advice=error.advice, kind=error.kind)
            delay = min(BACKOFF_MOST, BACKOFF_FIRST * 2 ** min(attempts.retries, 10)) * (1 + jitter / 4)
            more = msgspec.structs.replace(attempts, retries=attempts.retries + 1)
            return RetryAfter(attempts=more, reason=error.message, delay=delay)
    return GiveUp(message=error.message, advice=error.advice, kind=error.kind)


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
