"""What a watch does next, as a pure function."""

from __future__ import annotations

import pytest

from cuggino.events import WatchBacklogWaiting, WatchSpecIssueWaiting
from cuggino.watch.course import (
    Action,
    AwaitItem,
    End,
    Recount,
    Take,
    Validate,
    Wait,
    WatchSnapshot,
    WatchState,
    after_validation,
    decide,
)

NOTHING = WatchSnapshot(spec_issues=0, ready=(), blocked=0)
READY = WatchSnapshot(spec_issues=0, ready=("a", "b"), blocked=1)
ISSUE = WatchSnapshot(spec_issues=1, ready=("a", "b"), blocked=1)


@pytest.mark.parametrize(
    ("snapshot", "action"),
    [
        (None, Recount()),
        (NOTHING, Wait(WatchBacklogWaiting())),
        (READY, Take("a")),
        (ISSUE, Wait(WatchSpecIssueWaiting())),
        (WatchSnapshot(spec_issues=0, ready=(), blocked=2), Wait(WatchBacklogWaiting())),
    ],
)
def test_a_watch_takes_the_first_ready_item_unless_a_spec_issue_is_open(
    snapshot: WatchSnapshot | None, action: Action
) -> None:
    assert decide(WatchState(), snapshot) == action


@pytest.mark.parametrize(
    ("snapshot", "code"),
    [
        (NOTHING, 0),
        (ISSUE, 4),
        (WatchSnapshot(spec_issues=0, ready=(), blocked=2), 1),
        (WatchSnapshot(spec_issues=1, ready=(), blocked=2), 4),
    ],
)
def test_until_idle_ends_instead_of_waiting(snapshot: WatchSnapshot, code: int) -> None:
    assert decide(WatchState(until_idle=True), snapshot) == End("idle", code)


def test_until_idle_does_not_end_while_something_is_ready() -> None:
    assert decide(WatchState(until_idle=True), READY) == Take("a")


def test_blocked_items_and_behind_a_spec_issue_all_are_not_ready() -> None:
    assert (NOTHING.not_ready, READY.not_ready, ISSUE.not_ready) == (0, 1, 3)


def test_a_validation_precedes_the_next_item_and_moves_its_threshold() -> None:
    state = WatchState(validates=True, finished=9)
    assert decide(state, READY) == Take("a")
    state = WatchState(validates=True, finished=12)  # three finished together
    assert decide(state, READY) == Validate()
    state = after_validation(state, 12, passed=True)
    assert (state.validated, state.threshold) == (12, 20)
    assert decide(state, READY) == Take("a")
    assert decide(WatchState(validates=True, finished=19, validated=12, threshold=20), READY) == Take("a")
    assert decide(WatchState(validates=True, finished=20, validated=12, threshold=20), READY) == Validate()


def test_what_ends_during_a_validation_counts_for_the_next_one_also_for_the_last() -> None:
    state = WatchState(validates=True, finished=13, until_idle=True)  # 12 when the validation began
    state = after_validation(state, 12, passed=True)
    assert (state.validated, state.threshold) == (12, 20)
    assert decide(state, NOTHING) == Validate()
    assert decide(after_validation(state, 13, passed=True), NOTHING) == End("idle", 0)


def test_while_no_place_is_free_an_item_is_awaited_and_nothing_is_counted() -> None:
    assert decide(WatchState(places=2, active=2), None) == AwaitItem()
    assert decide(WatchState(places=2, active=1), None) == Recount()
    assert decide(WatchState(places=2, active=1), NOTHING) == Wait(None)


def test_without_a_command_nothing_is_validated() -> None:
    assert decide(WatchState(finished=100), READY) == Take("a")


@pytest.mark.parametrize(
    ("state", "end"),
    [
        (WatchState(draining=True, validates=True, finished=1), End("interrupted", 130)),
        (WatchState(failure="poll-failed", validates=True, finished=1), End("poll-failed", 3)),
        (WatchState(until_idle=True, validates=True, finished=1), End("idle", 0)),
    ],
)
def test_a_last_validation_runs_if_an_item_was_finished_since_the_last_one(state: WatchState, end: End) -> None:
    assert decide(state, NOTHING) == Validate()
    assert decide(after_validation(state, 1, passed=True), NOTHING) == end
    assert decide(after_validation(state, 1, passed=False), NOTHING) == End("validation-failed", 1)


def test_an_agent_that_cannot_be_set_up_ends_the_watch_without_validation() -> None:
    assert decide(WatchState(failure="setup-failed", validates=True, finished=3), READY) == End("setup-failed", 1)
