"""From the watch's events to lines for people: what it does, what it waits for, and how it stops."""

from __future__ import annotations

from cuggino import events
from cuggino.output.page import BOLD_GREEN, BOLD_MAGENTA, BOLD_YELLOW, CYAN, DIM, RED, Page
from cuggino.output.text import duration, visible_name


def needs_a_person(event: events.Event) -> bool:
    """Whether nothing will go on until a person does something: worth a bell."""
    return isinstance(event, events.WatchSpecIssueWaiting | events.WatchBacklogWaiting)


def watch_lines(event: events.WatchLoopEvent, page: Page) -> list[str]:
    """The lines that show `event`, none for a kind that is not known. Names and reasons are shown whole."""
    match event:
        case events.WatchAuditStarted():
            return page.text(CYAN, "[Watch] Audit started")
        case events.WatchAuditEnded():
            return page.text(CYAN, "[Watch] Audit ended")
        case events.WatchAuditInterrupted():
            return page.text(CYAN, "[Watch] Audit interrupted")
        case events.WatchTbdItemFound():  # the whole of it was shown when the agent wrote it
            saved = f"Saved to: .cuggino/tbd/{visible_name(event.filename)}"
            first_line = event.content.strip().partition("\n")[0]
            return page.cut(BOLD_MAGENTA, [f"[Watch] Finding: {first_line}"]) + page.text(BOLD_MAGENTA, saved)
        case events.WatchValidationFailed():
            after = f"after {_count(event.completed, 'item')}"
            return page.command(RED, f"[Watch] Validation failed {after}, exit {event.exit_code}", event.output)
        case events.WatchStopping():
            return page.text(BOLD_YELLOW, f"[Watch] {_stopping(event)}")
        case events.WatchEnded():
            style, why = ending(event)
            done, advice = _count(event.completed, "item"), _ADVICE.get(event.reason, "")
            return page.text(style, f"[Watch] Ended, {done} completed: {why}{advice}")
    if failure := _failure(event):
        return page.text(RED, f"[Watch] {failure}")
    if step := _step(event):
        return page.text(DIM, f"[Watch] {step}")
    return []


def _step(event: events.WatchLoopEvent) -> str | None:
    match event:
        case events.WatchSpecIssueWaiting():
            return "Waiting for you: spec issues must be cleared in .cuggino/spec-issues/"
        case events.WatchBacklogWaiting():
            return "Waiting for items: nothing in .cuggino/backlog/ is ready"
        case events.WatchIdle():
            waited = f" (for {duration(event.wait_seconds)})" if event.wait_seconds > 0 else ""
            if not event.blocked:
                return f"Idle: no ready issues{waited}"
            exist = "issue exists" if event.blocked == 1 else "issues exist"
            return f"Idle: {event.blocked} {exist} but none ready{waited}"
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
    "changed": "stays in the backlog: it was edited meanwhile, and will be done again",
    "spec-issue": "stays in the backlog: it is taken again when the spec issue is cleared",
    "gone": "was taken out of the backlog meanwhile",
}


def _failure(event: events.WatchLoopEvent) -> str | None:
    match event:
        case events.WatchItemFailed():
            again = "not tried again" if event.retry_in is None else f"again in {duration(event.retry_in)}"
            name = visible_name(event.filename)
            return f"{name} failed (attempt {event.attempt}, {again}): {event.message.strip()}"
        case events.WatchItemBlocked():
            until = "It is taken again when its content changes, or when the watch starts anew."
            return f"{visible_name(event.filename)} is set aside: {event.reason.strip()}\n{until}"
        case events.WatchAuditFailed():
            return f"Audit failed, the watch goes on: {event.message.strip()}"
        case events.WatchPollFailed():
            return f"The folders cannot be read (attempt {event.attempt} of 3): {event.message.strip()}"
    return None


def _stopping(event: events.WatchStopping) -> str:
    """What is happening, and what the next press does."""
    items, one = _count(event.active, "item"), event.active == 1
    match event.stage:
        case "drain" if not event.active:
            return "Stopping: no item is being worked on; only a due validation still runs. Ctrl+C again interrupts it."
        case "drain":
            return (
                f"Stopping: {items} {'goes on to its' if one else 'go on to their'} end, nothing new starts. "
                f"Ctrl+C again interrupts {'it' if one else 'them'}."
            )
        case "interrupt":
            kept = f" {items} {'stays' if one else 'stay'} in the backlog." if event.active else ""
            return f"Interrupting: what still runs has 5 s to end.{kept} Ctrl+C again kills it now."
        case "kill":
            return "Killing everything that is left. There is nothing more to press."


def ending(event: events.WatchEnded) -> tuple[str, str]:
    """A style by the exit code, and what the reason means."""
    code = event.exit_code
    style = BOLD_GREEN if code == 0 else BOLD_YELLOW if code == 4 or code > 128 else RED
    if event.reason == "idle":
        return style, {0: "nothing is left to do", 4: "spec issues wait for you"}.get(code, "what is left is blocked")
    return style, _ENDED[event.reason]


_ENDED = {
    "interrupted": "it was stopped",
    "validation-failed": "the validation failed",
    "poll-failed": "the folders cannot be read",
    "setup-failed": "an agent cannot be set up",
}
_ADVICE = {
    "validation-failed": ". Mend what it found, then start anew.",
    "poll-failed": ". Make them readable, then start anew.",
    "setup-failed": ", no item is to blame. Mend it, then start anew.",
}


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
