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
    PLANNER = "planner"
    IMPLEMENTER = "implementer"
    REVIEWER = "reviewer"
    AUDIT = "audit"

    @property
    def markers(self) -> tuple[type[LlmMarkerEvent], ...]:
        """The markers that count in this role's text; all others stay text."""
        return _MARKERS[self]

    @property
    def read_only(self) -> bool:
        """Held to reading, by the backend's permissions, but for the paths that it is given to write."""
        return self in (Role.REVIEWER, Role.AUDIT)


_MARKERS: dict[Role, tuple[type[LlmMarkerEvent], ...]] = {
    Role.PLANNER: (PlanComplete, SpecIssue),
    Role.IMPLEMENTER: (Note, Progress, Done, SpecIssue),
    Role.REVIEWER: (Approved, RequestChanges, SpecIssue),
    Role.AUDIT: (ToBeDiscussed,),
}
