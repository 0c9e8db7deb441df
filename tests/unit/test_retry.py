"""Ask again, wait, or give up."""

from __future__ import annotations

from datetime import timedelta

import pytest

from cuggino.agents.retry import (
    AFTER_RESET,
    AskAgain,
    Attempts,
    GiveUp,
    IdleTimeout,
    NoMarker,
    NoPlan,
    RetryAfter,
    TotalTimeout,
    Unfinished,
    WaitUntil,
    decide_retry,
)
from cuggino.config import Limits
from cuggino.errors import LlmSessionError, LlmSessionErrorKind
from tests.unit.stage import START

LIMITS = Limits(nudges=2, retries=3)


def decided(
    ending: Unfinished, attempts: Attempts | None = None, *, jitter: float = 0.0
) -> AskAgain | RetryAfter | WaitUntil | GiveUp:
    return decide_retry(ending, attempts or Attempts(), LIMITS, now=START, jitter=jitter)


def error(kind: LlmSessionErrorKind, **more: object) -> LlmSessionError:
    return LlmSessionError("it failed", kind, advice="fix it", **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "ending",
    [
        IdleTimeout(30),
        TotalTimeout(60),
        NoMarker(0, "I think I am done."),
        NoPlan("wip/x.plan.md"),
        error(LlmSessionErrorKind.CRASHED),
    ],
)
def test_an_agent_that_did_not_finish_is_asked_again_as_often_as_allowed(ending: Unfinished) -> None:
    first = decided(ending)
    assert isinstance(first, AskAgain)
    second = decided(ending, first.attempts)
    assert isinstance(second, AskAgain)
    third = decided(ending, second.attempts)
    assert isinstance(third, GiveUp)
    assert "asked again 2 times" in third.message
    assert third.kind is None


def test_giving_up_shows_how_the_agent_ended() -> None:
    given_up = decided(NoMarker(0, "I think I am done."), Attempts(nudges=2))
    assert isinstance(given_up, GiveUp)
    assert "exit status 0" in given_up.message
    assert "I think I am done." in given_up.message


@pytest.mark.parametrize(
    "kind", [LlmSessionErrorKind.OVERLOADED, LlmSessionErrorKind.NETWORK, LlmSessionErrorKind.USAGE_LIMIT]
)
def test_an_overloaded_provider_is_tried_again_with_doubled_delays_then_given_up(kind: LlmSessionErrorKind) -> None:
    attempts = Attempts()
    delays: list[float] = []
    for _ in range(3):
        retry = decided(error(kind), attempts)
        assert isinstance(retry, RetryAfter)
        attempts, delays = retry.attempts, [*delays, retry.delay]
    assert delays == [5.0, 10.0, 20.0]
    given_up = decided(error(kind), attempts)
    assert isinstance(given_up, GiveUp)
    assert (given_up.kind, given_up.advice) == (kind, "fix it")
    assert "tried again 3 times" in given_up.message


def test_jitter_lengthens_a_delay_by_a_quarter_at_the_most() -> None:
    retry = decided(error(LlmSessionErrorKind.NETWORK), jitter=1.0)
    assert isinstance(retry, RetryAfter)
    assert retry.delay == 6.25


def test_a_delay_has_an_end() -> None:
    late = decide_retry(
        error(LlmSessionErrorKind.NETWORK), Attempts(retries=5000), Limits(retries=9999), now=START, jitter=0.0
    )
    assert isinstance(late, RetryAfter)
    assert late.delay == 300.0


def test_a_usage_limit_with_a_reset_is_waited_for_and_uses_up_nothing() -> None:
    resets = START + timedelta(hours=3)
    wait = decided(error(LlmSessionErrorKind.USAGE_LIMIT, resets_at=resets), Attempts(nudges=1, retries=3))
    assert wait == WaitUntil(attempts=Attempts(nudges=1, retries=3), reason="it failed", until=resets + AFTER_RESET)


def test_a_reset_that_is_over_is_tried_like_an_overload_so_that_it_cannot_spin() -> None:
    past = START - timedelta(seconds=1)
    assert isinstance(decided(error(LlmSessionErrorKind.USAGE_LIMIT, resets_at=past)), RetryAfter)


@pytest.mark.parametrize("kind", [LlmSessionErrorKind.SETUP, LlmSessionErrorKind.REFUSED])
def test_what_a_person_must_fix_is_not_retried(kind: LlmSessionErrorKind) -> None:
    assert decided(error(kind)) == GiveUp(message="it failed", advice="fix it", kind=kind)
