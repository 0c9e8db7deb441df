"""What a poll means. Each rule against a false green has a test of its own."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cuggino.ci.checks import drop_build_summary, newest_runs
from cuggino.ci.decide import (
    GRACE,
    PollContext,
    Trust,
    View,
    answer_mark,
    ending,
    has_answer,
    is_open,
    refusal_reason,
    view,
)
from cuggino.ci.intervals import CiIntervals
from cuggino.ci.pull_request import Check, PullRequestSnapshot
from cuggino.ci.query import OUTCOMES
from cuggino.ci.state import CiState, Rerun
from tests.unit.ci.world import HEAD, PULL, START, check, comment, replace, suite, thread

STATE = CiState(number=12, head=HEAD, started=START)


def look(*checks: Check, state: CiState = STATE, context: PollContext | None = None, **pull: Any) -> View:
    return view(replace(PULL, checks=checks, **pull), state, context or PollContext())


GREEN = check("test", "SUCCESS")

# ---- green ------------------------------------------------------------------------------------


def test_all_passed_is_green() -> None:
    seen = look(GREEN, check("lint", "SKIPPED"), check("docs", "NEUTRAL"), check("old", "STALE"))
    assert seen.green
    assert seen.status == "actionable=passing new_failures=0 new_threads=0 pending=[]"


@pytest.mark.parametrize("word", ["FAILURE", "ERROR", "TIMED_OUT", "STARTUP_FAILURE", "ACTION_REQUIRED"])
def test_a_failed_check_is_never_green(word: str) -> None:
    seen = look(GREEN, check("lint", word))
    assert (seen.green, seen.actionable, [failure.name for failure in seen.failures]) == (False, "failing", ["lint"])


@pytest.mark.parametrize(
    "word", ["QUEUED", "IN_PROGRESS", "WAITING", "PENDING", "REQUESTED", "EXPECTED", "COMPLETED", "A_NEW_WORD"]
)
def test_a_check_that_has_not_ended_or_has_an_unknown_result_is_pending(word: str) -> None:
    seen = look(GREEN, check("lint", word))
    assert (seen.green, seen.actionable, seen.pending, seen.failures) == (False, "pending", ("lint",), ())


def test_a_cancelled_run_is_not_failed_and_blocks_green() -> None:
    seen = look(GREEN, check("lint", "CANCELLED"))
    assert (seen.green, seen.actionable, seen.failures, seen.cancelled) == (False, "pending", (), ("lint",))


def test_a_conflict_is_never_green_and_something_to_fix() -> None:
    seen = look(GREEN, mergeable="CONFLICTING")
    assert (seen.green, seen.actionable, seen.conflict, seen.new_failures) == (False, "failing", True, 1)
    handled = look(GREEN, mergeable="CONFLICTING", state=replace(STATE, handled_checks=("(merge conflict with main)",)))
    assert (handled.green, handled.actionable, handled.conflict) == (False, "failing", False)


def test_an_unknown_mergeability_is_not_green_yet() -> None:
    assert look(GREEN, mergeable="UNKNOWN").actionable == "pending"


def test_another_head_is_not_green() -> None:
    assert not look(GREEN, head="b" * 40).green


def test_no_checks_are_green_only_after_the_grace() -> None:
    polls = [look(context=PollContext(empty=empty)).green for empty in range(1, GRACE + 3)]
    assert polls == [False, False, False, True, True]
    assert not look(check("lint", "SKIPPED"), context=PollContext(empty=1)).green


def test_a_check_that_any_head_had_and_that_is_gone_blocks_green_until_a_person_accepts_it() -> None:
    state = replace(STATE, expected=("test (ci, push)", "lint (ci, push)"))
    seen = look(GREEN, state=state)
    assert (seen.green, seen.missing, seen.pending) == (False, ("lint (ci, push)",), ("lint (ci, push)",))
    assert look(GREEN, check("lint", "SUCCESS"), state=state).green
    for other in ({"event": "pull_request"}, {"workflow": "nightly"}, STATUS):
        assert not look(GREEN, check("lint", "SUCCESS", **other), state=state).green
    assert look(GREEN, state=replace(state, accepted=("lint (ci, push)",))).green


def test_a_new_head_of_which_nothing_is_known_is_not_green() -> None:
    assert look(GREEN, context=PollContext(settling=True)).actionable == "pending"


def test_a_running_workflow_is_not_green_although_all_its_checks_passed() -> None:
    """A job that waits for another has no check before that one has ended."""
    seen = look(GREEN, suites=(suite("ci", "IN_PROGRESS"), suite("nightly", "QUEUED")))
    rest = ("(the rest of ci)", "(the rest of nightly)")
    assert (seen.green, seen.actionable, seen.pending) == (False, "pending", rest)
    assert look(check("lint", "QUEUED", suite="CS_ci"), suites=(suite("ci", "QUEUED"),)).pending == ("lint",)


@pytest.mark.parametrize("word", ["ACTION_REQUIRED", "STARTUP_FAILURE", "FAILURE", "TIMED_OUT"])
def test_a_workflow_that_has_no_check_run_and_ended_badly_is_never_green(word: str) -> None:
    """It waits for approval, or its file is broken: GitHub shows nothing but the suite."""
    seen = look(GREEN, suites=(suite("ci", word),))
    assert (seen.green, seen.actionable) == (False, "failing")
    assert [(failure.name, failure.checks[0].run) for failure in seen.failures] == [("(workflow ci)", 100)]
    assert not look(GREEN, suites=(suite("", word, run=None, workflow_id=None, app="lint"),)).green


def test_a_workflow_that_was_cancelled_in_the_queue_blocks_green() -> None:
    seen = look(GREEN, suites=(suite("ci", "CANCELLED"),))
    assert (seen.green, seen.actionable, seen.cancelled) == (False, "pending", ("(workflow ci)",))


def test_a_later_run_of_the_workflow_replaces_a_suite_without_check_runs() -> None:
    old = suite("ci", "CANCELLED", id="CS_1")
    assert look(GREEN, suites=(old, suite("ci", "SUCCESS", number=2))).green
    for other in ({"event": "pull_request"}, {"workflow_id": 9}, {"app": "lint"}):
        assert not look(GREEN, suites=(old, suite("ci", "SUCCESS", **{"number": 2, **other}))).green


def test_a_suite_whose_runs_say_how_it_ended_is_not_another_check() -> None:
    seen = look(GREEN, check("lint", "FAILURE", suite="CS_ci"), suites=(suite("ci", "FAILURE"),))
    assert [failure.name for failure in seen.failures] == ["lint"]
    assert look(GREEN, check("docs", "SKIPPED"), suites=(suite("ci", "SKIPPED"), suite("x", "NEUTRAL"))).green


def test_a_suite_of_an_app_that_never_reports_anything_is_not_waited_for() -> None:
    silent = suite("", "QUEUED", id="CS_9", run=None, workflow_id=None, app="bot")
    assert look(GREEN, suites=(silent,)).green
    assert look(GREEN, suites=(replace(silent, word="IN_PROGRESS"),)).pending == ("(checks of bot)",)
    assert look(replace(GREEN, suite="CS_9"), suites=(silent,)).pending == ("(checks of bot)",)


def test_a_thread_to_act_on_is_not_green() -> None:
    seen = look(GREEN, threads=(thread("t", comment(1)),))
    assert (seen.green, seen.actionable, len(seen.threads)) == (False, "passing", 1)
    assert look(GREEN, threads=(thread("t", comment(1)),), state=replace(STATE, handled_threads={"t": "1"})).green


# ---- checks -----------------------------------------------------------------------------------


LATE = START + timedelta(minutes=5)
STATUS: dict[str, Any] = {"app": "", "workflow": "", "event": "", "run": None, "is_status": True}


def run(word: str, attempt: int = 1, number: int = 1, id: int = 1, **more: Any) -> Check:  # noqa: A002
    """A run of the job `a` of workflow 8."""
    return check("a", word, id=id, attempt=attempt, number=number, **{"workflow_id": 8, **more})


@pytest.mark.parametrize("started", [START, LATE, None])
def test_the_newest_run_of_a_check_counts_whenever_it_started(started: Any) -> None:
    """By attempt, then by the number of its workflow's run: a start time may be missing."""
    old = run("FAILURE", 1, 1, id=9, started=started)
    for new in (run("SUCCESS", 2, 1), run("SUCCESS", 1, 2), run("SUCCESS", 2, 2)):
        assert look(old, new).green
        assert look(new, old).green
        assert not look(replace(old, outcome="passed"), replace(new, outcome="failed")).green
    assert not look(run("SKIPPED", started=None), run("FAILURE", 2, started=START)).green
    assert look(run("CANCELLED", started=None), run("SUCCESS", 2, started=START)).green


def test_the_newest_run_of_another_app_is_that_with_the_highest_id() -> None:
    other: dict[str, Any] = {"app": "lint", "workflow": "", "workflow_id": None, "run": None, "number": 0}
    assert look(run("FAILURE", id=1, **other), run("SUCCESS", id=2, **other)).green
    assert not look(run("FAILURE", id=2, **other), run("SUCCESS", id=1, **other)).green


@pytest.mark.parametrize(
    "other",
    [
        {"workflow_id": 9},  # another file with the same `name:`
        {"event": "pull_request"},
        {"app": "lint", "run": None},
        {"id": 2},  # two jobs of one name in one attempt
        STATUS,
        {"attempt": 0, "id": 3},  # GitHub did not say which attempt
    ],
)
def test_different_checks_of_one_name_do_not_hide_each_other(other: dict[str, Any]) -> None:
    for words in (("FAILURE", "SUCCESS"), ("SUCCESS", "FAILURE")):
        seen = look(run(words[0], started=START), run(words[1], **{"started": LATE, **other}))
        assert seen.actionable == "failing"
        assert [len(failure.checks) for failure in seen.failures] == [1]


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(8, 9), st.integers(1, 3), st.integers(1, 3))))
def test_of_each_check_the_newest_runs_are_left(runs: list[tuple[str, int, int, int]]) -> None:
    checks = [
        check(name, "SUCCESS", id=place, workflow_id=flow, attempt=attempt, number=number)
        for place, (name, flow, attempt, number) in enumerate(runs)
    ]
    left = newest_runs(checks)
    assert {(each.name, each.workflow_id) for each in left} == {(name, flow) for name, flow, *_ in runs}
    for each in checks:
        same = [one for one in checks if (one.name, one.workflow_id) == (each.name, each.workflow_id)]
        newest = max((one.attempt, one.number) for one in same)
        assert (each in left) == ((each.attempt, each.number) == newest)


@pytest.mark.parametrize("name", ["test (3.11, ubuntu)", 'a: "b" [c], d', "Prüfung ✓", "build / test: x, y"])
def test_names_decide_whether_a_failure_is_new(name: str) -> None:
    failed = check(name, "FAILURE", id=7, started=START)
    assert [failure.name for failure in look(failed).failures] == [name]
    assert not look(failed, state=replace(STATE, handled_checks=(name,))).failures
    assert look(failed, state=replace(STATE, handled_checks=(name[:-1], f"{name}, {name}"))).failures


def test_a_rerun_run_is_not_a_new_failure_but_its_next_failure_is() -> None:
    state = replace(STATE, reruns=(Rerun(HEAD, "7", "test"),))
    seen = look(check("test", "FAILURE", id=7, started=START), state=state)
    assert (seen.failures, seen.actionable, seen.green) == ((), "failing", False)
    assert look(check("test", "FAILURE", id=8, started=START), state=state).failures
    assert look(check("test", "FAILURE", id=7, started=START), state=replace(state, head="b" * 40)).failures


BUILD = check("buildkite/app", "FAILURE", app="", workflow="", run=None)


@pytest.mark.parametrize(
    ("steps", "green", "actionable"),
    [
        ((check("buildkite/app/test", "SUCCESS"), check("cla", "SUCCESS")), True, "passing"),
        ((check("buildkite/app/test", "SUCCESS"), check("cla", "PENDING")), False, "pending"),
        ((check("buildkite/app/test", "FAILURE"),), False, "failing"),
        ((check("buildkite/other/test", "SUCCESS"),), False, "failing"),
        ((check("cla", "SUCCESS"),), False, "failing"),
        ((), False, "failing"),
    ],
)
def test_buildkites_check_of_the_build_does_not_block(steps: tuple[Check, ...], green: bool, actionable: str) -> None:
    seen = look(BUILD, *steps, context=PollContext(system="buildkite"))
    assert (seen.green, seen.actionable) == (green, actionable)
    assert look(BUILD, *steps, context=PollContext(system="github-actions")).actionable == "failing"
    assert len(drop_build_summary((BUILD, *steps), "unknown")) == 1 + len(steps)


def test_only_success_is_passed() -> None:
    assert set(OUTCOMES.values()) == {"passed", "failed", "ignored", "cancelled"}
    assert [word for word, outcome in OUTCOMES.items() if outcome == "passed"] == ["SUCCESS"]


# ---- threads ----------------------------------------------------------------------------------

OURS: dict[str, Any] = {"own": True, "author": "me", "association": "OWNER"}


def ours(number: int, to: int) -> Any:
    return comment(number, body=f"Done.\n\n{answer_mark(str(to))}", **OURS)


def test_our_answer_is_recognized_by_its_mark_and_our_login_together() -> None:
    assert not is_open(thread("t", comment(1), ours(2, 1)))
    assert is_open(thread("t", comment(1), comment(2, **OURS)))  # the person's own words
    stranger = comment(2, "eve", "NONE", body=f"x {answer_mark('1')}")
    assert is_open(thread("t", comment(1), stranger))
    assert not has_answer(thread("t", comment(1), stranger), "1")
    assert has_answer(thread("t", comment(1), ours(2, 1), comment(3)), "1")
    assert is_open(thread("t", comment(1), ours(2, 1), comment(3)))
    quoting = comment(3, body=f"> {answer_mark('1')}\nno", **OURS)
    assert is_open(thread("t", comment(1), quoting))


@pytest.mark.parametrize(
    ("author", "association", "bot", "acts"),
    [
        ("mia", "OWNER", False, True),
        ("mia", "MEMBER", False, True),
        ("mia", "COLLABORATOR", False, True),
        ("eve", "CONTRIBUTOR", False, False),
        ("eve", "FIRST_TIME_CONTRIBUTOR", False, False),
        ("eve", "NONE", False, False),
        (None, "NONE", False, False),
        (None, "MEMBER", False, False),
        ("lint", "NONE", True, True),
        ("LINT", "NONE", True, True),
        ("other", "NONE", True, False),
        ("other", "MEMBER", True, False),  # a bot of some app is not one of the trusted
        ("lint", "NONE", False, False),  # a person with the bot's name
    ],
)
def test_whose_comments_are_acted_on(author: str | None, association: str, bot: bool, acts: bool) -> None:
    trust = Trust(bots=("lint[bot]",))
    one = thread("t", comment(1, author, association, bot=bot))
    assert trust.acts_on(one, None) is acts
    assert bool(trust.visible(one)) is acts
    seen = look(GREEN, threads=(one,), context=PollContext(trust=trust))
    assert (len(seen.threads), len(seen.open_threads)) == ((1, 0) if acts else (0, 1))


def test_a_stranger_cannot_reopen_a_handled_thread() -> None:
    after_answer = thread("t", comment(1), ours(2, 1), comment(3, "eve", "NONE"))
    assert not Trust().acts_on(after_answer, "1")
    assert not Trust().acts_on(after_answer, None)  # a state file that was lost
    after_handled = thread("t", comment(1), comment(3, "eve", "NONE"))
    assert not Trust().acts_on(after_handled, "1")
    assert Trust().acts_on(thread("t", comment(1), ours(2, 1), comment(3, "eve", "NONE"), comment(4)), "1")


def test_threads_can_be_limited_to_bots_or_to_none() -> None:
    bots, none = Trust(threads="bots", bots=("lint",)), Trust(threads="none", bots=("lint",))
    member, bot = thread("m", comment(1)), thread("b", comment(2, "lint", "NONE", bot=True))
    assert [bots.acts_on(each, None) for each in (member, bot)] == [False, True]
    assert [none.acts_on(each, None) for each in (member, bot)] == [False, False]


def test_resolved_threads_do_not_count() -> None:
    assert not is_open(thread("t", comment(1), resolved=True))
    assert not is_open(thread("t"))


# ---- intervals and ends -----------------------------------------------------------------------


def test_intervals() -> None:
    idle = [60]
    for _ in range(10):
        idle.append(CiIntervals().next(idle[-1], busy=False, limited=None))
    assert idle == [60, 90, 120, 150, 180, 210, 240, 270, 300, 300, 300]
    busy = [300]
    for _ in range(5):
        busy.append(CiIntervals().next(busy[-1], busy=True, limited=None))
    assert busy == [300, 150, 75, 37, 30, 30]
    assert CiIntervals().next(60, busy=True, limited=5) == 300
    assert CiIntervals().next(60, busy=False, limited=900.2) == 901
    assert CiIntervals().next(901, busy=False, limited=None) == 300
    assert CiIntervals().next(901, busy=True, limited=None) == 150


@given(st.integers(1, 10_000), st.booleans())
def test_intervals_stay_within_their_bounds(interval: int, busy: bool) -> None:
    assert 30 <= CiIntervals().next(interval, busy=busy, limited=None) <= 300


@pytest.mark.parametrize(
    ("change", "iterations", "expected"),
    [
        ({}, 1, "all_green"),
        ({"state": "MERGED", "head": None}, 1, "pr_merged"),
        ({"state": "CLOSED", "head": None}, 1, "pr_closed"),
        ({"mergeable": "UNKNOWN"}, 89, None),
        ({"mergeable": "UNKNOWN"}, 90, "iterations"),
        ({}, 90, "all_green"),
    ],
)
def test_endings(change: dict[str, Any], iterations: int, expected: str | None) -> None:
    pull = replace(PULL, checks=(GREEN,), **change)
    assert ending(pull, view(pull, STATE, PollContext()), iterations=iterations, limit=90) == expected


# ---- whose pull request -----------------------------------------------------------------------


def why(*, may_write: bool = True, trust: bool = False, **change: Any) -> str:
    pull: PullRequestSnapshot = replace(PULL, **change)
    return refusal_reason(pull, author_may_write=may_write, trust_author=trust) or ""


def test_a_strangers_pull_request_is_refused_unless_the_author_is_trusted() -> None:
    assert why() == ""
    assert "another repository (eve/r)" in why(foreign=True, head_repository="eve/r")
    assert why(foreign=True, head_repository="eve/r", trust=True) == ""
    assert "eve) cannot write" in why(may_write=False, author="eve")
    assert why(may_write=False, author="eve", trust=True) == ""


def test_a_branch_that_is_deleted_or_cannot_be_pushed_to_is_refused_even_then() -> None:
    assert "does not exist" in why(head=None, trust=True)
    assert "does not exist" in why(head_repository=None, foreign=True, trust=True)
    assert "cannot be pushed to" in why(foreign=True, head_repository="eve/r", may_push=False, trust=True)
    assert why(state="MERGED", head=None) == ""
