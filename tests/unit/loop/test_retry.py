"""The decision after an agent that did not finish: ask again, retry, wait or give up."""

from __future__ import annotations

from datetime import timedelta

import pytest

from cuggino.agents.retry import (
    AFTER_RESET,
    AskAgain,
    GiveUp,
    NoMarker,
    NoPlan,
    Overlong,
    Retry,
    Silent,
    Tally,
    Unfinished,
    WaitUntil,
    decide,
)
from cuggino.config import Limits
from cuggino.errors import LlmSessionError, LlmSessionErrorKind
from tests.unit.stage import START

LIMITS = Limits(nudges=2, retries=3)


def decision(
    ending: Unfinished, tally: Tally | None = None, *, jitter: float = 0.0
) -> AskAgain | Retry | WaitUntil | GiveUp:
    return decide(ending, tally or Tally(), LIMITS, now=START, jitter=jitter)


def error(kind: LlmSessionErrorKind, **more: object) -> LlmSessionError:
    return LlmSessionError("it failed", kind, advice="fix it", **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "ending",
    [
        Silent(30),
        Overlong(60),
        NoMarker(0, "I think I am done."),
        NoPlan("wip/x.plan.md"),
        error(LlmSessionErrorKind.CRASHED),
    ],
)
def test_an_unfinished_agent_is_asked_again_up_to_the_limit(ending: Unfinished) -> None:
    first = decision(ending)
    assert isinstance(first, AskAgain)
    second = decision(ending, first.tally)
    assert isinstance(second, AskAgain)
    third = decision(ending, second.tally)
    assert isinstance(third, GiveUp)
    assert "asked again 2 times" in third.message
    assert third.kind is None


def test_giving_up_shows_how_the_agent_ended() -> None:
    given_up = decision(NoMarker(0, "I think I am done."), Tally(nudges=2))
    assert isinstance(given_up, GiveUp)
    assert "exit status 0" in given_up.message
    assert "I think I am done." in given_up.message


@pytest.mark.parametrize(
    "kind", [LlmSessionErrorKind.OVERLOADED, LlmSessionErrorKind.NETWORK, LlmSessionErrorKind.USAGE_LIMIT]
)
def test_an_overloaded_provider_is_retried_with_doubled_delays(kind: LlmSessionErrorKind) -> None:
    tally = Tally()
    delays: list[float] = []
    for _ in range(3):
        retry = decision(error(kind), tally)
        assert isinstance(retry, Retry)
        tally, delays = retry.tally, [*delays, retry.delay]
    assert delays == [5.0, 10.0, 20.0]
    given_up = decision(error(kind), tally)
    assert isinstance(given_up, GiveUp)
    assert (given_up.kind, given_up.advice) == (kind, "fix it")
    assert "tried again 3 times" in given_up.message


def test_jitter_lengthens_a_delay_by_up_to_a_quarter() -> None:
    retry = decision(error(LlmSessionErrorKind.NETWORK), jitter=1.0)
    assert isinstance(retry, Retry)
    assert retry.delay == 6.25


def test_a_delay_is_at_most_300_seconds() -> None:
    late = decide(error(LlmSessionErrorKind.NETWORK), Tally(retries=5000), Limits(retries=9999), now=START, jitter=0.0)
    assert isinstance(late, Retry)
    assert late.delay == 300.0


def test_a_usage_limit_is_waited_out_and_uses_up_no_retry() -> None:
    resets = START + timedelta(hours=3)
    wait = decision(error(LlmSessionErrorKind.USAGE_LIMIT, resets_at=resets), Tally(nudges=1, retries=3))
    assert wait == WaitUntil(tally=Tally(nudges=1, retries=3), reason="it failed", until=resets + AFTER_RESET)


def test_a_reset_in_the_past_counts_as_an_overload() -> None:
    past = START - timedelta(seconds=1)
    assert isinstance(decision(error(LlmSessionErrorKind.USAGE_LIMIT, resets_at=past)), Retry)


@pytest.mark.parametrize("kind", [LlmSessionErrorKind.SETUP, LlmSessionErrorKind.REFUSED])
def test_an_error_that_a_person_must_fix_is_not_retried(kind: LlmSessionErrorKind) -> None:
    assert decision(error(kind)) == GiveUp(message="it failed", advice="fix it", kind=kind)
