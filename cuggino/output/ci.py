"""Render the events of a watch over a pull request."""

from __future__ import annotations

from cuggino import events
from cuggino.output.page import BOLD, BOLD_GREEN, BOLD_MAGENTA, BOLD_RED, BOLD_YELLOW, CYAN, DIM, Page
from cuggino.output.text import duration, visible

_ENDED = {
    "all_green": (BOLD_GREEN, "all green"),
    "pr_merged": (BOLD_GREEN, "merged"),
    "pr_closed": (BOLD_YELLOW, "closed without merging"),
    "iterations": (BOLD_YELLOW, "iterations used up"),
    "failed": (BOLD_RED, "failed"),
    "interrupted": (BOLD_YELLOW, "stopped"),
}
_ACTIONABLE = {"failing": BOLD_RED, "pending": DIM, "passing": BOLD_GREEN}


def ci_lines(event: events.CiEvent, page: Page) -> list[str]:
    """Return the lines that show `event`, none for an unknown kind."""
    match event:
        case events.CiPolled():
            pending = ", ".join(event.pending)
            result = (
                f"[CI] {event.iteration}: actionable={event.actionable} new_failures={event.new_failures} "
                f"new_threads={event.new_threads} pending=[{pending}]"
            )
            return page.text(_ACTIONABLE[event.actionable], _line(result))
        case events.CiCheckTriaged():
            return page.text(CYAN, _line(f"[CI] {event.check}: {event.verdict}: {event.cause}"))
        case events.CiFixStarted():
            return page.text(BOLD, _line(f"[CI] Working on the {_PREFIXES[event.kind]}{event.what}{_attempt(event)}"))
        case events.CiFixFinished():
            done = f"{len(event.files)} changed: {', '.join(event.files)}" if event.files else "nothing changed"
            return page.text(BOLD, _line(f"[CI] {event.what}: {done}")) + page.text(DIM, event.summary)
        case events.CiPushed():
            return page.text(BOLD_MAGENTA, _line(f"[CI] Pushed {event.commit[:7]} to {event.branch}"))
        case events.CiThreadAnswered():
            how = "with a commit" if event.fixed else "without a change"
            return page.text(BOLD_MAGENTA, _line(f"[CI] Answered the thread at {event.path}: {how}"))
        case events.CiNeedsPerson():
            return page.text(BOLD_YELLOW, _line(f"[CI] For you: {event.what}: {event.reason}"))
        case events.CiWatchEnded():
            style, outcome = _ENDED[event.exit]
            lines = page.text(style, f"[CI] Ended: {outcome}")
            for line in event.summary:
                lines += page.cut(DIM, [f"  {line}"]) if event.exit != "failed" else page.text(style, f"  {line}")
            return lines + page.text(DIM, f"  state: {event.state_file}")
    return page.text(*_step(event))


_PREFIXES = {"check": "check ", "thread": "thread at ", "conflict": ""}


def _attempt(event: events.CiFixStarted) -> str:
    return "" if event.kind == "thread" else f", attempt {event.attempt}"


def _step(event: events.CiEvent) -> tuple[str, str]:
    match event:
        case events.CiStateLoaded():
            how = f"Resuming at iteration {event.iteration}" if event.resumed else "New watch"
            return DIM, f"[CI] {how}: {event.path}"
        case events.CiPollFailed():
            return BOLD_RED, _line(f"[CI] Poll failed (attempt {event.attempt} of 5): {event.message}")
        case events.CiPushDetected():
            return DIM, f"[CI] Somebody pushed: {event.old[:7]} → {event.new[:7]}"
        case events.CiRateLimited():
            wait = duration(event.seconds)
            return BOLD_YELLOW, _line(f"[CI] GitHub limits requests, next poll in {wait}: {event.message}")
    return DIM, ""


def _line(text: str) -> str:
    """Join lines: checks' names and foreign text may contain line breaks."""
    return visible(" ".join(text.split("\n")))
