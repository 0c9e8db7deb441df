"""The summary of a run or a watch: counted from its events, printed in a few lines at its end."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Literal

import msgspec

from cuggino import events
from cuggino.output.page import BOLD_GREEN, BOLD_RED, BOLD_YELLOW, DIM, Page
from cuggino.output.render import limit_value, tokens
from cuggino.output.text import duration
from cuggino.output.watch import watch_outcome


class ItemCounts(msgspec.Struct, frozen=True, kw_only=True):
    """How many items of the backlog ended how. One that failed first and was completed later counts as completed."""

    completed: int
    failed: int
    blocked: int


class RunSummary(msgspec.Struct, frozen=True, kw_only=True):
    """`end` is None for an interrupted run. `usage` is None if no agent reported it."""

    end: events.LoopTerminalEvent | events.WatchEnded | None
    items: ItemCounts | None
    """None for a run, which has no items."""
    iterations: int
    tasks: int
    commits: int
    check: int | None
    """The exit code of the last check; None if none ran."""
    seconds: float
    usage: events.UsageReport | None
    cost_is_partial: bool
    """Whether an agent reported tokens without a cost: the actual cost is higher than `usage.cost_usd`."""


class RunTally:
    """Counts the events of a run or a watch. In a watch, the ends of loops are not the outcome."""

    def __init__(self) -> None:
        self._loop_end: events.LoopTerminalEvent | None = None
        self._watch_end: events.WatchEnded | None = None
        self._is_watch = False
        self._completed = 0
        self._not_completed: dict[str, Literal["failed", "blocked"]] = {}
        self._iterations = self._tasks = self._commits = 0
        self._implementing = 0
        self._check: int | None = None
        self._usage: events.UsageReport | None = None
        self._cost_is_partial = False

    def add(self, event: events.Event) -> None:
        match event:
            case events.IterationStart():
                self._iterations += 1
            case events.ImplementingStart():
                self._implementing += 1
            case events.Progress() | events.Done() if self._implementing:
                self._implementing -= 1  # an implementer does one task; a second marker is ignored
                self._tasks += 1
            case events.CheckCommandOutput():
                self._check = event.exit_code
            case events.CommitPerformed():
                self._commits += 1
            case events.UsageReport():
                self._cost_is_partial |= event.cost_usd is None
                self._usage = event if self._usage is None else _sum(self._usage, event)
            case events.LoopTerminalEvent():
                self._loop_end = event
            case events.WatchLoopEvent():
                self._is_watch = True
                self._add_watch(event)

    def _add_watch(self, event: events.WatchLoopEvent) -> None:
        match event:
            case events.WatchItemCompleted():
                self._completed += 1
                self._not_completed.pop(event.filename, None)
            case events.WatchItemNotRemoved():
                self._not_completed.pop(event.filename, None)
            case events.WatchItemFailed():
                self._not_completed[event.filename] = "failed"
            case events.WatchItemBlocked():
                self._not_completed[event.filename] = "blocked"
            case events.WatchEnded():
                self._watch_end = event

    def summary(self, *, seconds: float) -> RunSummary:
        """Return the counts so far. `seconds` is how long the run took."""
        others = list(self._not_completed.values())
        items = ItemCounts(completed=self._completed, failed=others.count("failed"), blocked=others.count("blocked"))
        return RunSummary(
            end=self._watch_end if self._is_watch else self._loop_end,
            items=items if self._is_watch else None,
            iterations=self._iterations,
            tasks=self._tasks,
            commits=self._commits,
            check=self._check,
            seconds=seconds,
            usage=self._usage,
            cost_is_partial=self._cost_is_partial,
        )


def _sum(one: events.UsageReport, other: events.UsageReport) -> events.UsageReport:
    costs = [cost for cost in (one.cost_usd, other.cost_usd) if cost is not None]
    return events.UsageReport(
        input_tokens=one.input_tokens + other.input_tokens,
        output_tokens=one.output_tokens + other.output_tokens,
        cache_read_tokens=one.cache_read_tokens + other.cache_read_tokens,
        cache_creation_tokens=one.cache_creation_tokens + other.cache_creation_tokens,
        cost_usd=sum(costs) if costs else None,
    )


def spent(reports: Sequence[events.UsageReport]) -> str:
    """Return one line with the sum of the reports; empty if there are none."""
    if not reports:
        return ""
    used = reduce(_sum, reports)
    cost = _cost(used.cost_usd, is_partial=any(report.cost_usd is None for report in reports))
    return f"{f'{cost}, ' if cost else ''}tokens: {tokens(used)}"


def _cost(dollars: float | None, *, is_partial: bool) -> str:
    return "" if dollars is None else f"{'at least ' if is_partial else ''}${dollars:,.2f}"


def render_summary(summary: RunSummary, page: Page) -> list[str]:
    """Return a line for each count; those of items, tokens and cost only if there are any."""
    style, outcome = _outcome(summary.end)
    rows = [
        ("Iterations", str(summary.iterations)),
        ("Tasks", str(summary.tasks)),
        ("Commits", str(summary.commits)),
        ("Time", duration(summary.seconds)),
    ]
    if summary.check is not None:
        words = f"failed (exit {summary.check})" if summary.check else "passed"
        rows.insert(-1, ("Last check", page.paint(BOLD_RED, [words])[0] if summary.check else words))
    if (items := summary.items) is not None:
        rows.insert(0, ("Items", f"{items.completed} completed, {items.failed} failed, {items.blocked} blocked"))
    if (used := summary.usage) is not None:
        rows.append(("Tokens", tokens(used)))
        if cost := _cost(used.cost_usd, is_partial=summary.cost_is_partial):
            rows.append(("Cost", cost))
    return [
        "",
        *page.cut(style, [f"{'Outcome':<12}{outcome}"]),
        *(page.paint(DIM, [f"{name:<12}"])[0] + value for name, value in rows),
    ]


def _outcome(end: events.LoopTerminalEvent | events.WatchEnded | None) -> tuple[str, str]:
    match end:
        case None:
            return BOLD_YELLOW, "interrupted"
        case events.WatchEnded():
            return watch_outcome(end)
        case events.LoopApproved():
            return BOLD_GREEN, "approved"
        case events.LoopSpecIssue():
            return BOLD_RED, f"spec issue, saved to .cuggino/spec-issues/{end.filename}"
        case events.LoopMaxIterations():
            return BOLD_YELLOW, "max iterations reached"
        case events.LoopLimitReached():
            return BOLD_YELLOW, f"limit reached: {limit_value(end)}"
        case events.LoopFailed():
            message, *_advice = end.message.split("\n")
            return BOLD_RED, f"failed in {end.phase}: {message}"
        case _:
            return BOLD_YELLOW, type(end).__name__
