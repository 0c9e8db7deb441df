"""Render the events of a spawn."""

from __future__ import annotations

from cuggino import events
from cuggino.output.page import BOLD_GREEN, BOLD_MAGENTA, BOLD_RED, BOLD_YELLOW, DIM, Page
from cuggino.output.text import duration

_SOURCES = {"file": "the given file", "evaluation": "the evaluation", "default": "the default"}


def spawn_lines(event: events.SpawnEvent, page: Page) -> list[str]:
    """Return the lines that show `event`, none for an unknown kind."""
    match event:
        case events.PermissionError():
            fix = f"; to allow it: {event.fix}" if event.fix is not None else "; it cannot be allowed"
            return page.text(BOLD_YELLOW, f"[Spawn] Denied: {event.error}{fix}")
        case events.RecoveryAttempt():
            of = "" if event.max is None else f" of {event.max}"
            return page.text(BOLD_YELLOW, f"[Spawn] Continuing with more permissions, round {event.attempt}{of}")
        case events.PRCreated():
            action = "already open" if event.found else "created"
            return page.text(BOLD_MAGENTA, f"[Spawn] Pull request #{event.number} {action}: {event.url}")
        case events.ConflictsFound():
            how = "small" if event.small else "needs an agent"
            return page.text(BOLD_YELLOW, f"[Spawn] Conflicts with the base ({how}): {', '.join(event.paths)}")
        case events.SpawnCompleted():
            style = BOLD_GREEN if event.status == "success" else BOLD_RED
            return page.text(style, f"[Spawn] {event.status}, report: {event.report}")
    if step := _step(event):
        return page.text(DIM, f"[Spawn] {step}")
    return []


def _step(event: events.SpawnEvent) -> str | None:
    match event:
        case events.ManifestReady():
            return f"Manifest: {_SOURCES[event.source]}"
        case events.SandboxCreated():
            at = event.base[:7]
            return f"Sandbox {event.path}, {'detached' if event.branch is None else f'branch {event.branch}'} at {at}"
        case events.LLMStarted():
            return f"{event.agent} {'starts' if event.attempt == 1 else f'continues, attempt {event.attempt}'}"
        case events.ProgressUpdate():
            state = event.state
            took = duration((state.last_activity - state.start_time).total_seconds())
            errors = state.permission_errors + state.other_errors
            return (
                f"After {took}: {state.files_read} read, {state.files_written} written, "
                f"{state.commits_made} committed, {errors} errors"
            )
        case events.LLMCompleted():
            return f"Agent ended: {event.status}"
    return None
