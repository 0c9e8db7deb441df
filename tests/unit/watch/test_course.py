"""What the watch does next, without any watch."""

from __future__ import annotations

import pytest

from cuggino.events import WatchBacklogWaiting, WatchSpecIssueWaiting
from cuggino.watch.course import (
    Action,
    End,
    Known,
    Look,
    Standing,
    Take,
    Validate,
    Wait,
    after_validation,
    decide,
)

NOTHING = Known(spec_issues=0, ready=(), blocked=0)
READY = Known(spec_issues=0, ready=("a", "b"), blocked=1)
ISSUE = Known(spec_issues=1, ready=("a", "b"), blocked=1)


@pytest.mark.parametrize(
    ("known", "action"),
    [
        (None, Look()),
        (NOTHING, Wait(WatchBacklogWaiting())),
        (READY, Take("a")),
        (ISSUE, Wait(WatchSpecIssueWaiting())),
        (Known(spec_issues=0, ready=(), blocked=2), Wait(WatchBacklogWaiting())),
    ],
)
def test_a_watch_takes_the_first_ready_item_unless_a_spec_issue_is_open(known: Known | None, action: Action) -> None:
    assert decide(Standing(), known) == action


@pytest.mark.parametrize(
    ("known", "code"),
    [
        (NOTHING, 0),
        (ISSUE, 4),
        (Known(spec_issues=0, ready=(), blocked=2), 1),
        (Known(spec_issues=1, ready=(), blocked=2), 4),
    ],
)
def test_until_idle_ends_where_another_watch_would_wait(known: Known, code: int) -> None:
    assert decide(Standing(until_idle=True), known) == End("idle", code)


def test_until_idle_does_not_end_while_something_is_ready() -> None:
    assert decide(Standing(until_idle=True), READY) == Take("a")


def test_items_that_cannot_be_taken_are_the_blocked_ones_and_behind_an_issue_all() -> None:
    assert (NOTHING.untakeable, READY.untakeable, ISSUE.untakeable) == (0, 1, 3)


def test_a_validation_comes_before_the_next_item_and_its_threshold_moves_past_the_count() -> None:
    standing = Standing(validates=True, finished=9)
    assert decide(standing, READY) == Take("a")
    standing = Standing(validates=True, finished=12)  # three finished together
    assert decide(standing, READY) == Validate()
    standing = after_validation(standing, passed=True)
    assert (standing.validated, standing.threshold) == (12, 20)
    assert decide(standing, READY) == Take("a")
    assert decide(Standing(validates=True, finished=19, validated=12, threshold=20), READY) == Take("a")
    assert decide(Standing(validates=True, finished=20, validated=12, threshold=20), READY) == Validate()


def test_without_a_command_nothing_is_validated() -> None:
    assert decide(Standing(finished=100), READY) == Take("a")


@pytest.mark.parametrize(
    ("standing", "end"),
    [
        (Standing(draining=True, validates=True, finished=1), End("interrupted", 130)),
        (Standing(failure="poll-failed", validates=True, finished=1), End("poll-failed", 3)),
        (Standing(until_idle=True, validates=True, finished=1), End("idle", 0)),
    ],
)
def test_a_last_validation_runs_if_anything_was_finished_since_the_last_one(standing: Standing, end: End) -> None:
    assert decide(standing, NOTHING) == Validate()
    assert decide(after_validation(standing, passed=True), NOTHING) == end
    assert decide(after_validation(standing, passed=False), NOTHING) == End("validation-failed", 1)


def test_an_agent_that_cannot_work_ends_the_watch_without_validation() -> None:
    assert decide(Standing(failure="setup-failed", validates=True, finished=3), READY) == End("setup-failed", 1)
