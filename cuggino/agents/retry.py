"""When an agent did not bring its turn to an end: ask again, wait, or give up. Decided by a pure function."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TypeAlias

import msgspec

from cuggino.config import Limits
from cuggino.errors import LlmSessionError, LlmSessionErrorKind

BACKOFF_FIRST = 5.0
BACKOFF_MOST = 300.0
"""Seconds before the first retry, doubled for each further one, and the most it can be."""

AFTER_RESET = timedelta(seconds=30)
"""How long after a usage limit's reset work goes on: clocks differ."""


class Silent(msgspec.Struct, frozen=True):
    """It said nothing for `seconds` and no tool was running."""

    seconds: float
    option: str = "limits.idleTimeout"

    def __str__(self) -> str:
        return f"it was silent for {self.seconds:g} s ({self.option})"


class Overlong(msgspec.Struct, frozen=True):
    """It ran for `seconds`."""

    seconds: float
    option: str = "limits.agentTimeout"

    def __str__(self) -> str:
        return f"it ran longer than {self.seconds:g} s ({self.option})"


class NoMarker(msgspec.Struct, frozen=True):
    """It ended by itself, without the marker that says how."""

    exit_status: int
    last_words: str

    def __str__(self) -> str:
        words = f"; its last words: {self.last_words}" if self.last_words else ", and it said nothing"
        return f"it ended with exit status {self.exit_status} and without a marker{words}"


class NoPlan(msgspec.Struct, frozen=True):
    """It said PLAN_COMPLETE and there is no plan."""

    path: str

    def __str__(self) -> str:
        return f"it said PLAN_COMPLETE but wrote no plan to {self.path}"


Unfinished: TypeAlias = LlmSessionError | Silent | Overlong | NoMarker | NoPlan
"""How a run of an agent ended that brought no terminal marker."""


class Tally(msgspec.Struct, frozen=True, kw_only=True):
    """What was already tried in this turn."""

    nudges: int = 0
    retries: int = 0


class AskAgain(msgspec.Struct, frozen=True, kw_only=True):
    """In the same conversation, to finish and to emit a marker."""

    tally: Tally
    reason: str


class Retry(msgspec.Struct, frozen=True, kw_only=True):
    """After `delay` seconds, where it stopped."""

    tally: Tally
    reason: str
    delay: float


class WaitUntil(msgspec.Struct, frozen=True, kw_only=True):
    """Not before `until`, where it stopped."""

    tally: Tally
    reason: str
    until: datetime


class GiveUp(msgspec.Struct, frozen=True, kw_only=True):
    message: str
    advice: str = ""
    kind: LlmSessionErrorKind | None = None


def decide(
    ending: Unfinished, tally: Tally, limits: Limits, *, now: datetime, jitter: float
) -> AskAgain | Retry | WaitUntil | GiveUp:
    """What follows. `jitter` is between 0 and 1 and lengthens a delay by up to a quarter."""
    if isinstance(ending, LlmSessionError) and ending.kind is not LlmSessionErrorKind.CRASHED:
        return _after_error(ending, tally, limits, now=now, jitter=jitter)
    reason = str(ending.message if isinstance(ending, LlmSessionError) else ending)
    if tally.nudges >= limits.nudges:
        asked = f", asked again {_times(tally.nudges)}" if tally.nudges else ""
        return GiveUp(message=f"The agent did not finish{asked}: {reason}")
    return AskAgain(tally=msgspec.structs.replace(tally, nudges=tally.nudges + 1), reason=reason)


def _after_error(
    error: LlmSessionError, tally: Tally, limits: Limits, *, now: datetime, jitter: float
) -> Retry | WaitUntil | GiveUp:
    match error.kind:
        case LlmSessionErrorKind.USAGE_LIMIT if error.resets_at is not None and error.resets_at > now:
            return WaitUntil(tally=tally, reason=error.message, until=error.resets_at + AFTER_RESET)
        case LlmSessionErrorKind.OVERLOADED | LlmSessionErrorKind.NETWORK | LlmSessionErrorKind.USAGE_LIMIT:
            if tally.retries >= limits.retries:
                tried = f" (tried again {_times(tally.retries)})" if tally.retries else ""
                return GiveUp(message=f"{error.message}{tried}", advice=error.advice, kind=error.kind)
            delay = min(BACKOFF_MOST, BACKOFF_FIRST * 2 ** min(tally.retries, 10)) * (1 + jitter / 4)
            return Retry(
                tally=msgspec.structs.replace(tally, retries=tally.retries + 1), reason=error.message, delay=delay
            )
    return GiveUp(message=error.message, advice=error.advice, kind=error.kind)


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
