"""What a loop does next: a pure function of its position and of how the last step went.

A `Course` is a loop's whole position. It is written to the session's file before each step, so a loop that was
interrupted or killed resumes exactly there.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from cuggino.events import (
    Approved,
    Done,
    LlmTerminalMarkerEvent,
    PlanComplete,
    Progress,
    RequestChanges,
    SpecIssue,
)

UNCHANGED_TASKS = 3
"""Tasks in a row without a change in the working tree after which the loop fails."""


class Step(StrEnum):
    PLAN = "plan"
    SETUP = "setup"
    CHECK = "check"
    IMPLEMENT = "implement"
    COMMIT = "commit"
    REVIEW = "review"


class Course(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A loop's position: the next step, and what later steps need to know."""

    iteration: int = 1
    step: Step = Step.PLAN
    finished: bool = False
    """Whether the implementer has sent DONE, so that the review follows instead of the next task."""
    message: str = ""
    """The content of the implementer's marker, used as the commit message."""
    tasks: int = 0
    """Tasks done with this plan."""
    unchanged: int = 0
    """Tasks in a row that left the working tree unchanged."""


class Outcome(StrEnum):
    APPROVED = "approved"
    SPEC_ISSUE = "spec-issue"
    MAX_ITERATIONS = "max-iterations"
    FAILED = "failed"


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """The loop is over. `content` is the text of the spec issue or of the failure."""

    outcome: Outcome
    content: str = ""


class StepReport(msgspec.Struct, frozen=True, kw_only=True):
    """How a step went: the agent's terminal marker (None for commands), and whether the working tree changed.

    `refused`: the last check failed, and must not (`gate`): neither DONE nor an approval counts.
    """

    marker: LlmTerminalMarkerEvent | None = None
    changed: bool = True
    refused: bool = False


def advance(course: Course, report: StepReport, *, max_iterations: int, max_tasks: int) -> Course | Ended:
    """Return the course after `course.step` went as reported.

    Raise ValueError if an agent's step reports a marker that its role does not have.
    """
    marker = report.marker
    if isinstance(marker, SpecIssue):
        return Ended(outcome=Outcome.SPEC_ISSUE, content=marker.content)
    match course.step, marker:
        case Step.PLAN, PlanComplete():
            return Course(iteration=course.iteration, step=Step.SETUP)
        case Step.SETUP, None:
            return _move_to(course, Step.CHECK)
        case Step.CHECK, None if course.finished and report.refused:
            again = msgspec.structs.replace(course, step=Step.IMPLEMENT, finished=False)
            return _check_runaway(again, max_tasks, "DONE, but the check command still fails,") or again
        case Step.CHECK, None:
            return _move_to(course, Step.REVIEW if course.finished else Step.IMPLEMENT)
        case Step.IMPLEMENT, Progress() | Done():
            return Course(
                iteration=course.iteration,
                step=Step.COMMIT,
                finished=isinstance(marker, Done),
                message=marker.content,
                tasks=course.tasks + 1,
                unchanged=0 if report.changed else course.unchanged + 1,
            )
        case Step.COMMIT, None:
            return _check_runaway(course, max_tasks, "PROGRESS") or _move_to(course, Step.CHECK)
        case Step.REVIEW, Approved() if not report.refused:
            return Ended(outcome=Outcome.APPROVED)
        case Step.REVIEW, Approved() | RequestChanges():
            if course.iteration >= max_iterations:
                return Ended(outcome=Outcome.MAX_ITERATIONS)
            return Course(iteration=course.iteration + 1)
    raise ValueError(f"the step {course.step!r} cannot end with {type(marker).__name__}")


def _move_to(course: Course, step: Step) -> Course:
    return msgspec.structs.replace(course, step=step)


def _check_runaway(course: Course, max_tasks: int, what: str) -> Ended | None:
    if course.finished:
        return None
    if course.tasks > max_tasks:
        times = "times in one plan without reaching DONE" if what == "PROGRESS" else "tasks into one plan"
        reason = f"{course.tasks} {times}; limits.maxTasks allows {max_tasks}."
    elif course.unchanged >= UNCHANGED_TASKS:
        reason = f"{course.unchanged} times in a row, but the working tree did not change."
    else:
        return None
    return Ended(outcome=Outcome.FAILED, content=f"The implementer reported {what} {reason}")
