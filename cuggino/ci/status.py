"""`cuggino ci status`: one poll of a pull request, as lines for people."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from cuggino.ci.checks import System, current_checks
from cuggino.ci.decide import PollContext, Trust, View, view
from cuggino.ci.ports import PollFailed, PullRequestApi, RateLimited
from cuggino.ci.pull_request import PullRequestSnapshot
from cuggino.ci.state import CiState, one_line
from cuggino.ci.state_file import StateFile
from cuggino.ci.state_format import ACCEPTED
from cuggino.errors import GitHubError
from cuggino.output.page import BOLD, BOLD_GREEN, BOLD_RED, BOLD_YELLOW, DIM, Page

_STYLES = {"passed": BOLD_GREEN, "failed": BOLD_RED, "pending": BOLD_YELLOW, "cancelled": BOLD_YELLOW, "ignored": DIM}


async def read_status(
    api: PullRequestApi, file: StateFile, system: System, trust: Trust
) -> Callable[[Page], list[str]]:
    """Poll once, and return a function that renders the result.

    Raise GitHubError if the poll fails, StorageError if the state file is broken.
    """
    try:
        pull = await api.poll()
    except PollFailed as failure:
        raise GitHubError(f"The pull request cannot be read: {failure}") from failure
    except RateLimited as limited:
        raise GitHubError(
            f"GitHub accepts no requests for {limited.seconds:.0f} s: {limited.message}",
            advice="Try again after that time.",
        ) from limited
    stored = file.load()
    state = stored or CiState(number=pull.number, head=pull.head or pull.last_head, started=datetime.now(UTC))
    seen = view(pull, state, PollContext(system=system, trust=trust, empty=1))
    return partial(_render, pull, seen, api.requests, None if stored is None else file.path)


def _render(pull: PullRequestSnapshot, seen: View, requests: int, state_file: Path | None, page: Page) -> list[str]:
    lines = page.cut(BOLD, [f"#{pull.number} {one_line(pull.title)} ({pull.state.lower()}, {pull.mergeable.lower()})"])
    lines += page.cut(DIM, [f"{pull.branch} → {pull.base}, {pull.url}"])
    checks = current_checks(pull)
    for check in checks:
        source = f" ({check.workflow}, {check.event})" if check.workflow else ""
        lines += page.cut(_STYLES[check.outcome], [f"  {check.outcome:<9} {check.name}{source}: {check.word}"])
    if not checks:
        lines += page.text(DIM, "  no checks")
    for name in seen.missing:
        lines += page.cut(_STYLES["pending"], [f"  missing   {name}: listed in {ACCEPTED}, it is no longer expected"])
    for thread in (*seen.threads, *seen.open_threads):
        last = thread.comments[-1]
        who = "to act on" if thread in seen.threads else "for you"
        author = last.author or "deleted account"
        lines += page.cut(DIM, [f"  thread, {who}: {thread.place}, {author}: {one_line(last.body)}"])
    lines += page.cut(BOLD_GREEN if seen.green else BOLD, [seen.status])
    counted = f"{requests} request{'' if requests == 1 else 's'}"
    lines += page.text(DIM, f"GitHub: {counted}; {pull.remaining} of {pull.limit} points left this hour.")
    return lines + (page.text(DIM, f"State of a watch: {state_file}") if state_file else [])
