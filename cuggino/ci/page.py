"""One look at a pull request, in lines for people."""

from __future__ import annotations

from pathlib import Path

from cuggino.ci.decide import View, newest
from cuggino.ci.pull import PullRequest
from cuggino.ci.state import one_line
from cuggino.output.page import BOLD, BOLD_GREEN, BOLD_RED, BOLD_YELLOW, DIM, Page

_STYLES = {"passed": BOLD_GREEN, "failed": BOLD_RED, "pending": BOLD_YELLOW, "cancelled": BOLD_YELLOW, "ignored": DIM}


def render_look(pull: PullRequest, seen: View, requests: int, watched: Path | None, page: Page) -> list[str]:
    """`requests` were made for it; `watched` is the state file of a watch, if there is one."""
    lines = page.cut(BOLD, [f"#{pull.number} {one_line(pull.title)} ({pull.state.lower()}, {pull.mergeable.lower()})"])
    lines += page.cut(DIM, [f"{pull.branch} → {pull.base}, {pull.url}"])
    for check in newest(pull.checks):
        source = f" ({check.workflow}, {check.event})" if check.workflow else ""
        lines += page.cut(_STYLES[check.outcome], [f"  {check.outcome:<9} {check.name}{source}: {check.word}"])
    if not pull.checks:
        lines += page.text(DIM, "  no checks")
    for thread in (*seen.threads, *seen.open):
        last = thread.comments[-1]
        act = "to act on" if thread in seen.threads else "for you"
        where = thread.path if thread.line is None else f"{thread.path}:{thread.line}"
        lines += page.cut(DIM, [f"  thread, {act}: {where}, {last.author or 'gone'}: {one_line(last.body)}"])
    lines += page.cut(BOLD_GREEN if seen.green else BOLD, [seen.status])
    counted = f"{requests} request{'' if requests == 1 else 's'}"
    lines += page.text(DIM, f"GitHub: {counted}; {pull.remaining} of {pull.limit} points are left in this hour.")
    return lines + (page.text(DIM, f"A watch's state: {watched}") if watched is not None else [])
