"""What a loop does next: a pure function from where it is and how that went to what follows.

A `Course` is the whole of a loop's position. It is written to the session's file before each step, so
that a loop that was interrupted or killed goes on exactly there.
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
"""So many tasks in a row that changed nothing in the tree are a loop that does not get on."""


class Step(StrEnum):
    PLAN = "plan"
    SETUP = "setup"
    CHECK = "check"
    IMPLEMENT = "implement"
    COMMIT = "commit"
    REVIEW = "review"


class Course(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Where a loop is: the step that is to be done, and what later steps need to know."""

    iteration: int = 1
    step: Step = Step.PLAN
    finished: bool = False
    """The implementer has said DONE: what follows is the review, not the next task."""
    message: str = ""
    """What the implementer's marker said: the commit's message."""
    tasks: int = 0
    """Tasks that were done with this plan."""
    unchanged: int = 0
    """Tasks in a row that changed nothing in the tree."""


class Outcome(StrEnum):
    APPROVED = "approved"
    SPEC_ISSUE = "spec-issue"
    MAX_ITERATIONS = "max-iterations"
    FAILED = "failed"


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """The loop is over. `content` is the spec issue's text, or what the failure was."""

    outcome: Outcome
    content: str = ""


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """How a step went: the agent's terminal marker, none for commands; whether the tree has changed under it."""

    marker: LlmTerminalMarkerEvent | None = None
    changed: bool = True


def advance(course: Course, report: Report, *, max_iterations: int, max_tasks: int) -> Course | Ended:
    """The step after `course.step`, which went as `report` says.

    Agents' steps must report one of the markers that their role has.
    """
    marker = report.marker
    if isinstance(marker, SpecIssue):
        return Ended(outcome=Outcome.SPEC_ISSUE, content=marker.content)
    match course.step, marker:
        case Step.PLAN, PlanComplete():
            return Course(iteration=course.iteration, step=Step.SETUP)
        case Step.SETUP, None:
            return _to(course, Step.CHECK)
        case Step.CHECK, None:
            return _to(course, Step.REVIEW if course.finished else Step.IMPLEMENT)
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
            return _runaway(course, max_tasks) or _to(course, Step.CHECK)
        case Step.REVIEW, Approved():
            return Ended(outcome=Outcome.APPROVED)
        case Step.REVIEW, RequestChanges():
            if course.iteration >= max_iterations:
                return Ended(outcome=Outcome.MAX_ITERATIONS)
            return Course(iteration=course.iteration + 1)
    raise ValueError(f"{type(marker).__name__} is no way out of the step {course.step!r}")


def _to(course: Course, step: Step) -> Course:
    return msgspec.structs.replace(course, step=step)


def _runaway(course: Course, max_tasks: int) -> Ended | None:
    if course.finished:
        return None
    if course.tasks > max_tasks:
        return Ended(
            outcome=Outcome.FAILED,
            content=f"The implementer reported PROGRESS {course.tasks} times in one plan without coming to DONE; "
            f"limits.maxTasks allows {max_tasks}.",
        )
    if course.unchanged >= UNCHANGED_TASKS:
        return Ended(
            outcome=Outcome.FAILED,
            content=f"The implementer reported PROGRESS {course.unchanged} times in a row "
            "and the working tree did not change.",
        )
    return None
