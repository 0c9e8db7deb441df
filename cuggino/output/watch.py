"""Render the events of a watch over a backlog."""

from __future__ import annotations

from cuggino import events
from cuggino.output.page import BOLD_GREEN, BOLD_MAGENTA, BOLD_YELLOW, CYAN, DIM, RED, Page
from cuggino.output.text import duration, visible_name


def needs_a_person(event: events.Event) -> bool:
    """Return whether the watch waits until a person acts: worth a bell."""
    return isinstance(event, events.WatchSpecIssueWaiting | events.WatchBacklogWaiting)


def watch_lines(event: events.WatchLoopEvent, page: Page) -> list[str]:
    """Return the lines that show `event`, none for an unknown kind. Names and reasons are never cut."""
    match event:
        case events.WatchAuditStarted():
            return page.text(CYAN, "[Watch] Audit started")
        case events.WatchAuditEnded():
            return page.text(CYAN, "[Watch] Audit ended")
        case events.WatchAuditInterrupted():
            return page.text(CYAN, "[Watch] Audit interrupted")
        case events.WatchTbdItemFound():  # shown in full when the agent wrote it
            saved = f"Saved to: .cuggino/tbd/{visible_name(event.filename)}"
            first_line = event.content.strip().partition("\n")[0]
            return page.cut(BOLD_MAGENTA, [f"[Watch] Finding: {first_line}"]) + page.text(BOLD_MAGENTA, saved)
        case events.WatchValidationFailed():
            after = f"after {_count(event.completed, 'item')}"
            return page.command(RED, f"[Watch] Validation failed {after}, exit {event.exit_code}", event.output)
        case events.WatchStopping():
            return page.text(BOLD_YELLOW, f"[Watch] {_stopping(event)}")
        case events.WatchEnded():
            style, reason = watch_outcome(event)
            done, advice = _count(event.completed, "item"), _ADVICE.get(event.reason, "")
            return page.text(style, f"[Watch] Ended, {done} completed: {reason}{advice}")
    if failure := _failure(event):
        return page.text(RED, f"[Watch] {failure}")
    if step := _step(event):
        return page.text(DIM, f"[Watch] {step}")
    return []


def _step(event: events.WatchLoopEvent) -> str | None:
    match event:
        case events.WatchSpecIssueWaiting():
            return "Waiting for you: close the spec issues in .cuggino/spec-issues/"
        case events.WatchBacklogWaiting():
            return "Waiting for items: none ready in .cuggino/backlog/"
        case events.WatchIdle():
            waited = f" (for {duration(event.wait_seconds)})" if event.wait_seconds > 0 else ""
            items = f"{_count(event.blocked, 'item')} in the backlog, none ready" if event.blocked else "no items ready"
            return f"Idle: {items}{waited}"
        case events.WatchProcessingItem():
            return f"Processing {visible_name(event.filename)}"
        case events.WatchItemCompleted():
            return f"Completed {visible_name(event.filename)}"
        case events.WatchItemNotRemoved():
            return f"{visible_name(event.filename)} {_NOT_REMOVED[event.reason]}"
        case events.WatchValidationStarted():
            return f"Validating after {_count(event.completed, 'item')}"
        case events.WatchValidationPassed():
            return f"Validation passed after {_count(event.completed, 'item')}"
    return None


_NOT_REMOVED = {
    "changed": "stays in the backlog: it was edited in the meantime and will run again",
    "spec-issue": "stays in the backlog: it will run again when the spec issue is closed",
    "gone": "was removed from the backlog in the meantime",
}


def _failure(event: events.WatchLoopEvent) -> str | None:
    match event:
        case events.WatchItemFailed():
            retry = "no retry" if event.retry_in is None else f"retry in {duration(event.retry_in)}"
            name = visible_name(event.filename)
            return f"{name} failed (attempt {event.attempt}, {retry}): {event.message.strip()}"
        case events.WatchItemBlocked():
            fix = "Edit it, or restart the watch, to try again."
            return f"{visible_name(event.filename)} is set aside: {event.reason.strip()}\n{fix}"
        case events.WatchAuditFailed():
            return f"Audit failed, the watch continues: {event.message.strip()}"
        case events.WatchPollFailed():
            return f"Cannot read the directories (attempt {event.attempt} of 3): {event.message.strip()}"
    return None


def _stopping(event: events.WatchStopping) -> str:
    """Describe what is happening and what pressing Ctrl+C again does."""
    items, one = _count(event.active, "item"), event.active == 1
    match event.stage:
        case "drain" if not event.active:
            return "Stopping: no item in progress; only a due validation still runs. Ctrl+C again interrupts it."
        case "drain":
            return (
                f"Stopping: finishing {items}, starting nothing new. Ctrl+C again interrupts {'it' if one else 'them'}."
            )
        case "interrupt":
            kept = f" {items} {'stays' if one else 'stay'} in the backlog." if event.active else ""
            return f"Interrupting: running work has 5 s to end.{kept} Ctrl+C again kills it now."
        case "kill":
            return "Killing everything that still runs."


def watch_outcome(event: events.WatchEnded) -> tuple[str, str]:
    """Return a style for the exit code, and the reason in words."""
    code = event.exit_code
    style = BOLD_GREEN if code == 0 else BOLD_YELLOW if code == 4 or code > 128 else RED
    if event.reason == "idle":
        return style, {0: "nothing left to do", 4: "spec issues wait for you"}.get(code, "remaining items are blocked")
    return style, _ENDED[event.reason]


_ENDED = {
    "interrupted": "stopped",
    "validation-failed": "validation failed",
    "poll-failed": "cannot read the directories",
    "setup-failed": "cannot set up an agent",
}
_ADVICE = {
    "validation-failed": ". Fix what it found, then restart.",
    "poll-failed": ". Make them readable, then restart.",
    "setup-failed": ". Fix the agent, then restart; no item is at fault.",
}


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
