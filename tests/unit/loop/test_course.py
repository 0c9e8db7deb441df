"""What a loop does next, as a pure function."""

from __future__ import annotations

import pytest

from cuggino.events import Approved, Done, LlmTerminalMarkerEvent, PlanComplete, Progress, RequestChanges, SpecIssue
from cuggino.loop.course import Course, Ended, Outcome, Step, StepReport, advance

PROGRESS, DONE, APPROVED = Progress(content="a"), Done(content="b"), Approved(content="")
CHANGES = RequestChanges(content="")


def step_on(
    course: Course, marker: LlmTerminalMarkerEvent | None = None, *, changed: bool = True, tasks: int = 50
) -> Course:
    following = advance(course, StepReport(marker=marker, changed=changed), max_iterations=3, max_tasks=tasks)
    assert isinstance(following, Course)
    return following


def end(course: Course, marker: LlmTerminalMarkerEvent | None = None, *, tasks: int = 50) -> Ended:
    following = advance(course, StepReport(marker=marker), max_iterations=3, max_tasks=tasks)
    assert isinstance(following, Ended)
    return following


def test_the_steps_from_plan_to_approval() -> None:
    course, steps = Course(), []
    for marker in (PlanComplete(content=""), None, None, PROGRESS, None, None, DONE, None, None):
        steps.append(course.step.value)
        course = step_on(course, marker)
    assert steps == ["plan", "setup", "check", "implement", "commit", "check", "implement", "commit", "check"]
    assert course.step is Step.REVIEW
    assert end(course, APPROVED) == Ended(outcome=Outcome.APPROVED)


def test_a_request_for_changes_starts_the_next_iteration_with_a_plan() -> None:
    reviewing = Course(iteration=2, step=Step.REVIEW, finished=True, tasks=4, unchanged=1, message="m")
    assert step_on(reviewing, CHANGES) == Course(iteration=3)


def test_in_the_last_iteration_changes_end_the_loop_and_approval_still_counts() -> None:
    reviewing = Course(iteration=3, step=Step.REVIEW, finished=True)
    assert end(reviewing, CHANGES).outcome is Outcome.MAX_ITERATIONS
    assert end(reviewing, APPROVED).outcome is Outcome.APPROVED


@pytest.mark.parametrize("step", [Step.PLAN, Step.IMPLEMENT, Step.REVIEW])
def test_a_spec_issue_of_any_role_ends_the_loop(step: Step) -> None:
    assert end(Course(step=step), SpecIssue(content="why")) == Ended(outcome=Outcome.SPEC_ISSUE, content="why")


def test_more_than_max_tasks_is_a_failure() -> None:
    committing = Course(step=Step.COMMIT, tasks=2)
    assert step_on(committing, tasks=2).step is Step.CHECK
    failed = end(committing, tasks=1)
    assert failed.outcome is Outcome.FAILED
    assert "limits.maxTasks allows 1" in failed.content


def test_three_tasks_in_a_row_without_a_change_are_a_failure() -> None:
    course = Course(step=Step.IMPLEMENT)
    for changed in (False, False, True, False, False):
        course = step_on(step_on(step_on(course, PROGRESS, changed=changed)))
        assert course.step is Step.IMPLEMENT
    course = step_on(course, PROGRESS, changed=False)
    assert "did not change" in end(course).content


def test_done_without_a_change_does_not_fail() -> None:
    course = Course(step=Step.IMPLEMENT, unchanged=2)
    assert step_on(step_on(course, DONE, changed=False)).step is Step.CHECK


def test_a_new_plan_resets_the_counts_of_tasks() -> None:
    course = step_on(Course(iteration=2, step=Step.PLAN, tasks=9), PlanComplete(content=""))
    assert (course.tasks, course.unchanged, course.finished, course.iteration) == (0, 0, False, 2)


def test_a_marker_that_the_step_cannot_end_with_is_a_bug() -> None:
    with pytest.raises(ValueError, match="Approved"):
        advance(Course(), StepReport(marker=APPROVED), max_iterations=1, max_tasks=1)


def refused(course: Course, marker: LlmTerminalMarkerEvent | None = None, *, tasks: int = 50) -> Course | Ended:
    return advance(course, StepReport(marker=marker, refused=True), max_iterations=3, max_tasks=tasks)


def test_done_with_a_failing_check_goes_back_to_an_implementer() -> None:
    checking = Course(step=Step.CHECK, finished=True, tasks=2)
    assert refused(checking, tasks=2) == Course(step=Step.IMPLEMENT, tasks=2)
    failed = refused(checking, tasks=1)
    assert isinstance(failed, Ended)
    assert "limits.maxTasks allows 1" in failed.content
    unchanged = refused(Course(step=Step.CHECK, finished=True, unchanged=3))
    assert isinstance(unchanged, Ended)
    assert "did not change" in unchanged.content


def test_a_check_before_a_task_may_fail() -> None:
    assert refused(Course(step=Step.CHECK)) == Course(step=Step.IMPLEMENT)


def test_an_approval_with_a_failing_check_starts_the_next_iteration() -> None:
    assert refused(Course(step=Step.REVIEW, finished=True), APPROVED) == Course(iteration=2)
    last = refused(Course(iteration=3, step=Step.REVIEW, finished=True), APPROVED)
    assert last == Ended(outcome=Outcome.MAX_ITERATIONS)
