"""Render the events of a watch over a pull request."""

from __future__ import annotations

from cuggino import events
from cuggino.output.page import BOLD, BOLD_GREEN, BOLD_MAGENTA, BOLD_RED, BOLD_YELLOW, CYAN, DIM, Page
from cuggino.output.text import duration, visible

_ENDED = {
    "all_green": (BOLD_GREEN, "all green"),
    "pr_merged": (BOLD_GREEN, "merged"),
    "pr_closed": (BOLD_YELLOW, "closed without being merged"),
    "iterations": (BOLD_YELLOW, "iteration limit reached"),
    "failed": (BOLD_RED, "failed"),
    "interrupted": (BOLD_YELLOW, "interrupted"),
}
_ACTIONABLE = {"failing": BOLD_RED, "pending": DIM, "passing": BOLD_GREEN}


def ci_lines(event: events.CiEvent, page: Page) -> list[str]:
    """Return the lines that show `event`, none for an unknown kind. In the summary foreign text is cut to the width."""
    match event:
        case events.CiFixFinished():
            changed = f"{len(event.files)} changed: {', '.join(event.files)}" if event.files else "nothing changed"
            return page.text(BOLD, _line(f"[CI] {event.what}: {changed}")) + page.text(DIM, event.summary)
        case events.CiWatchEnded():
            style, outcome = _ENDED[event.exit]
            lines = page.text(style, f"[CI] Ended: {outcome}")
            for line in event.summary:
                lines += page.cut(DIM, [f"  {line}"]) if event.exit != "failed" else page.text(style, f"  {line}")
            return lines + page.text(DIM, f"  state: {event.state_file}")
    style, text = _progress(event) or _trouble(event) or (DIM, "")
    return page.text(style, _line(f"[CI] {text}")) if text else []


def _progress(event: events.CiEvent) -> tuple[str, str] | None:
    match event:
        case events.CiStateLoaded():
            how = f"Resuming at iteration {event.iteration}" if event.resumed else "A new watch"
            return DIM, f"{how}: {event.path}"
        case events.CiPolled():
            return _ACTIONABLE[event.actionable], (
                f"{event.iteration}: actionable={event.actionable} new_failures={event.new_failures} "
                f"new_threads={event.new_threads} pending=[{', '.join(event.pending)}]"
            )
        case events.CiCheckTriaged():
            return CYAN, f"{event.check}: {event.verdict}: {event.cause}"
        case events.CiFixStarted(kind="thread"):
            return BOLD, f"An agent starts on the thread at {event.what}"
        case events.CiFixStarted():
            what = f"check {event.what}" if event.kind == "check" else event.what.strip("()")
            return BOLD, f"An agent starts on the {what}, attempt {event.attempt}"
        case events.CiPushed():
            return BOLD_MAGENTA, f"Pushed {event.commit[:7]} to {event.branch}"
        case events.CiThreadAnswered():
            return BOLD_MAGENTA, f"Answered the thread at {event.path} {'with' if event.fixed else 'without'} a commit"
    return None


def _trouble(event: events.CiEvent) -> tuple[str, str] | None:
    match event:
        case events.CiPollFailed():
            return BOLD_RED, f"The poll failed (attempt {event.attempt} of 5): {event.message}"
        case events.CiPushDetected():
            return DIM, f"Somebody pushed: {event.old[:7]} → {event.new[:7]}"
        case events.CiNeedsPerson():
            return BOLD_YELLOW, f"For you: {event.what}: {event.reason}"
        case events.CiRateLimited():
            return BOLD_YELLOW, f"Rate limit of GitHub, waiting {duration(event.seconds)}: {event.message}"
    return None


def _line(text: str) -> str:
    """Return one line: names of checks and messages of others may contain line breaks."""
    return visible(" ".join(text.split("\n")))
