"""The roles of agents: their markers, and which are read-only."""

from __future__ import annotations

from enum import StrEnum

from cuggino.events import (
    Approved,
    Done,
    LlmMarkerEvent,
    Note,
    PlanComplete,
    Progress,
    RequestChanges,
    SpecIssue,
    ToBeDiscussed,
)


class Role(StrEnum):
    """A loop has a planner, an implementer and a reviewer; a watch has an audit.

    A worker does one task in a sandbox, an evaluator decides what that task needs, a triage decides why a check failed.
    """

    PLANNER = "planner"
    IMPLEMENTER = "implementer"
    REVIEWER = "reviewer"
    AUDIT = "audit"
    WORKER = "worker"
    EVALUATOR = "evaluator"
    TRIAGE = "triage"

    @property
    def markers(self) -> tuple[type[LlmMarkerEvent], ...]:
        """The markers that count in this role's text; others stay text."""
        return _MARKERS[self]

    @property
    def read_only(self) -> bool:
        """Whether the backend's permissions deny writing, except to the paths that the agent is given."""
        return self in (Role.REVIEWER, Role.AUDIT, Role.EVALUATOR, Role.TRIAGE)


_MARKERS: dict[Role, tuple[type[LlmMarkerEvent], ...]] = {
    Role.PLANNER: (PlanComplete, SpecIssue),
    Role.IMPLEMENTER: (Note, Progress, Done, SpecIssue),
    Role.REVIEWER: (Approved, RequestChanges, SpecIssue),
    Role.AUDIT: (ToBeDiscussed,),
    Role.WORKER: (),
    Role.EVALUATOR: (),
    Role.TRIAGE: (),
}
