"""The status line, as text: what goes on, and how long ago something was last shown."""

from __future__ import annotations

from cuggino import events
from cuggino.output.text import duration, shorten

FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_AUDITING = "Auditing"


def activity(event: events.Event, before: str) -> str:
    """What goes on after `event`; empty when nothing does. `before` is what went on until now.

    The audit runs beside the waiting for files, which alone is nothing.
    """
    match event:
        case events.LoopTerminalEvent() | events.PermissionError() | events.SpawnCompleted():
            return ""  # nobody works now; a person may be asked
        case events.LLMStarted():
            return "Working"
        case events.AgentWaiting() | events.AgentRetry():
            return "Waiting"
        case events.SystemMessage() if not before:  # a warning while nothing goes on: no agent need be alive
            return ""
        case events.LlmAgentEvent() | events.LlmMarkerEvent():
            return before if before == _AUDITING else "Working"
        case events.LoopPhaseEvent() | events.WatchProcessingItem():
            return "Working"
        case events.WatchItemFailed() if event.retry_in is not None:
            return "Waiting"
        case events.WatchAuditStarted():
            return _AUDITING
        case events.WatchSpecIssueWaiting() | events.WatchBacklogWaiting() | events.WatchIdle():
            return before if before == _AUDITING else ""
        case events.WatchValidationStarted():
            return "Validating"
        case events.WatchStopping() | events.WatchTbdItemFound() | events.WatchPollFailed():
            return before
        case events.WatchLoopEvent():  # the end of an item, of the audit, of a validation, of it all
            return ""
    return before


def status(activity: str, *, seconds: float, frame: int, width: int) -> str:
    """`⠹ Working… (1m 30s)`, at least one column short of the width: a full line would wrap."""
    return shorten(f"{FRAMES[frame % len(FRAMES)]} {activity}… ({duration(seconds)})", width - 1)
