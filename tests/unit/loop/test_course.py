"""What a loop does next, without any loop."""

from __future__ import annotations

import pytest

from cuggino.events import Approved, Done, LlmTerminalMarkerEvent, PlanComplete, Progress, RequestChanges, SpecIssue
from cuggino.loop.course import Course, Ended, Outcome, Step, StepReport, advance


def go(
    course: Course, marker: LlmTerminalMarkerEvent | None = None, *, changed: bool = True, tasks: int = 50
) -> Course:
    following = advance(course, StepReport(marker=marker, changed=changed), max_iterations=3, max_tasks=tasks)
    assert isinstance(following, Course)
    return following


def end(course: Course, marker: LlmTerminalMarkerEvent | None = None, *, tasks: int = 50) -> Ended:
    following = advance(course, StepReport(marker=marker), max_iterations=3, max_tasks=tasks)
    assert isinstance(following, Ended)
    return following


def test_the_whole_way_from_plan_to_approval() -> None:
    course = Course()
    steps = [course.step]
    for marker in (
        PlanComplete(content=""),
        None,
        None,
        Progress(content="a"),
        None,
        None,
        Done(content="b"),
        None,
        None,
    ):
        course = go(course, marker)
        steps.append(course.step)
    assert steps == [
        Step.PLAN,
        Step.SETUP,
        Step.CHECK,
        Step.IMPLEMENT,
        Step.COMMIT,
        Step.CHECK,
        Step.IMPLEMENT,
        Step.COMMIT,
        Step.CHECK,
        Step.REVIEW,
    ]
    assert end(course, Approved(content="")) == Ended(outcome=Outcome.APPROVED)


def test_a_request_for_changes_begins_the_next_iteration_with_a_plan() -> None:
    reviewing = Course(iteration=2, step=Step.REVIEW, finished=True, tasks=4, unchanged=1, message="m")
    assert go(reviewing, RequestChanges(content="")) == Course(iteration=3)


def test_a_request_for_changes_in_the_last_iteration_ends_the_loop() -> None:
    reviewing = Course(iteration=3, step=Step.REVIEW, finished=True)
    assert end(reviewing, RequestChanges(content="")).outcome is Outcome.MAX_ITERATIONS


def test_approval_in_the_last_iteration_is_approval() -> None:
    assert end(Course(iteration=3, step=Step.REVIEW, finished=True), Approved(content="")).outcome is Outcome.APPROVED


@pytest.mark.parametrize("step", [Step.PLAN, Step.IMPLEMENT, Step.REVIEW])
def test_a_spec_issue_ends_the_loop_from_every_role(step: Step) -> None:
    assert end(Course(step=step), SpecIssue(content="why")) == Ended(outcome=Outcome.SPEC_ISSUE, content="why")


def test_more_tasks_than_allowed_is_a_failure_but_as_many_are_not() -> None:
    committing = Course(step=Step.COMMIT, tasks=2)
    assert go(committing, tasks=2).step is Step.CHECK
    failed = end(committing, tasks=1)
    assert failed.outcome is Outcome.FAILED
    assert "limits.maxTasks allows 1" in failed.content


def test_three_tasks_in_a_row_without_a_change_are_a_failure() -> None:
    course = Course(step=Step.IMPLEMENT)
    for changed in (False, False, True, False, False):
        course = go(go(go(course, Progress(content=""), changed=changed)))
        assert course.step is Step.IMPLEMENT
    course = go(course, Progress(content=""), changed=False)
    assert "did not change" in end(course).content


def test_done_without_a_change_is_no_failure() -> None:
    course = Course(step=Step.IMPLEMENT, unchanged=2)
    assert go(go(course, Done(content=""), changed=False)).step is Step.CHECK


def test_a_new_plan_forgets_the_old_ones_tasks() -> None:
    course = go(Course(iteration=2, step=Step.PLAN, tasks=9), PlanComplete(content=""))
    assert (course.tasks, course.unchanged, course.finished, course.iteration) == (0, 0, False, 2)


def test_a_marker_that_the_step_cannot_end_with_is_a_bug_and_says_so() -> None:
    with pytest.raises(ValueError, match="Approved"):
        advance(Course(), StepReport(marker=Approved(content="")), max_iterations=1, max_tasks=1)
