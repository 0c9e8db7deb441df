"""From the events of a watch over a pull request to lines for people."""

from __future__ import annotations

from cuggino import events
from cuggino.output.page import BOLD, BOLD_GREEN, BOLD_MAGENTA, BOLD_RED, BOLD_YELLOW, CYAN, DIM, Page
from cuggino.output.text import duration, visible

_ENDED = {
    "all_green": (BOLD_GREEN, "all green"),
    "pr_merged": (BOLD_GREEN, "merged"),
    "pr_closed": (BOLD_YELLOW, "closed without being merged"),
    "iterations": (BOLD_YELLOW, "the iterations are used up"),
    "failed": (BOLD_RED, "it cannot go on"),
    "interrupted": (BOLD_YELLOW, "it was stopped"),
}
_ACTIONABLE = {"failing": BOLD_RED, "pending": DIM, "passing": BOLD_GREEN}


def ci_lines(event: events.CiEvent, page: Page) -> list[str]:
    """The lines that show `event`, none for a kind that is not known. What others wrote is cut to the width."""
    match event:
        case events.CiPolled():
            pending = ", ".join(event.pending)
            told = (
                f"[CI] {event.iteration}: actionable={event.actionable} new_failures={event.new_failures} "
                f"new_threads={event.new_threads} pending=[{pending}]"
            )
            return page.text(_ACTIONABLE[event.actionable], _line(told))
        case events.CiCheckTriaged():
            return page.text(CYAN, _line(f"[CI] {event.check}: {event.verdict}: {event.cause}"))
        case events.CiFixStarted():
            return page.text(BOLD, _line(f"[CI] {_WHAT[event.kind]} {event.what}: an agent begins{_attempt(event)}"))
        case events.CiFixFinished():
            done = f"{len(event.files)} changed: {', '.join(event.files)}" if event.files else "nothing changed"
            return page.text(BOLD, _line(f"[CI] {event.what}: {done}")) + page.text(DIM, event.summary)
        case events.CiPushed():
            return page.text(BOLD_MAGENTA, _line(f"[CI] Pushed {event.commit[:7]} to {event.branch}"))
        case events.CiThreadAnswered():
            how = "with a commit" if event.fixed else "nothing was changed"
            return page.text(BOLD_MAGENTA, _line(f"[CI] Answered the thread at {event.path}: {how}"))
        case events.CiNeedsPerson():
            return page.text(BOLD_YELLOW, _line(f"[CI] For you: {event.what}: {event.reason}"))
        case events.CiWatchEnded():
            style, why = _ENDED[event.exit]
            lines = page.text(style, f"[CI] Ended: {why}")
            for line in event.summary:
                lines += page.cut(DIM, [f"  {line}"]) if event.exit != "failed" else page.text(style, f"  {line}")
            return lines + page.text(DIM, f"  state: {event.state_file}")
    return page.text(*_step(event))


_WHAT = {"check": "The check", "thread": "The thread at", "conflict": "The"}


def _attempt(event: events.CiFixStarted) -> str:
    return "" if event.kind == "thread" else f", attempt {event.attempt}"


def _step(event: events.CiEvent) -> tuple[str, str]:
    match event:
        case events.CiStateLoaded():
            how = f"Going on at iteration {event.iteration}" if event.resumed else "A new watch"
            return DIM, f"[CI] {how}: {event.path}"
        case events.CiPollFailed():
            return BOLD_RED, _line(f"[CI] The poll failed (attempt {event.attempt} of 5): {event.message}")
        case events.CiPushDetected():
            return DIM, f"[CI] Somebody pushed: {event.old[:7]} → {event.new[:7]}"
        case events.CiRateLimited():
            return BOLD_YELLOW, _line(f"[CI] GitHub asks for patience, {duration(event.seconds)}: {event.message}")
    return DIM, ""


def _line(text: str) -> str:
    """One line: checks' names and others' words may hold line breaks."""
    return visible(" ".join(text.split("\n")))
