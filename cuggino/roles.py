"""What each role may say and do."""

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
    """The first four are the loop's and the watch's; a worker does one task in a sandbox, an evaluator says what
    that task needs, a triage says why a check has failed."""

    PLANNER = "planner"
    IMPLEMENTER = "implementer"
    REVIEWER = "reviewer"
    AUDIT = "audit"
    WORKER = "worker"
    EVALUATOR = "evaluator"
    TRIAGE = "triage"

    @property
    def markers(self) -> tuple[type[LlmMarkerEvent], ...]:
        """The markers that count in this role's text; all others stay text."""
        return _MARKERS[self]

    @property
    def read_only(self) -> bool:
        """Held to reading, by the backend's permissions, but for the paths that it is given to write."""
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
