"""The status line, as text: what goes on, and how long ago something was last shown."""

from __future__ import annotations

from cuggino import events
from cuggino.output.text import duration, shorten

FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"


def activity(event: events.Event, before: str) -> str:
    """What goes on after `event`; empty when nothing does. `before` is what went on until now."""
    match event:
        case events.LoopTerminalEvent():
            return ""
        case events.AgentWaiting() | events.AgentRetry():
            return "Waiting"
        case events.LlmAgentEvent() | events.LlmMarkerEvent() | events.LoopPhaseEvent():
            return "Working"
    return before


def status(activity: str, *, seconds: float, frame: int, width: int) -> str:
    """`⠹ Working… (1m 30s)`, at least one column short of the width: a full line would wrap."""
    return shorten(f"{FRAMES[frame % len(FRAMES)]} {activity}… ({duration(seconds)})", width - 1)
