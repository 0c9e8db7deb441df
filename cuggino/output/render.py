"""Render events as lines for people: pure, and the same live and from a log.

`@renders` enters one function for each kind of event in a table; a kind without one is not shown. The lines contain no
line feeds and no control characters except colours, and each starts and ends in the default colour.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, TypeVar

from cuggino import events
from cuggino.output.ci import ci_lines
from cuggino.output.page import (
    BOLD,
    BOLD_BLUE,
    BOLD_GREEN,
    BOLD_MAGENTA,
    BOLD_RED,
    BOLD_YELLOW,
    DIM,
    DIM_CYAN,
    RED,
    SHOWN_LINES,
    Page,
)
from cuggino.output.spawn import spawn_lines
from cuggino.output.text import duration, first_lines, shorten, visible
from cuggino.output.watch import watch_lines

Kind = TypeVar("Kind", bound=events.Event)
_table: dict[type[events.Event], Callable[[Any, Page], list[str]]] = {}


def render(event: events.Event, *, width: int, colour: bool, at: str | None = None) -> list[str]:
    """Return the lines that show `event` to people; none for a kind that is not shown."""
    function = _table.get(type(event))
    return [] if function is None else function(event, Page(width, colour, at))


def renders(*kinds: type[Kind]) -> Callable[[Callable[[Kind, Page], list[str]]], Callable[[Kind, Page], list[str]]]:
    """Enter the decorated function in the table for these kinds of events."""

    def enter(function: Callable[[Kind, Page], list[str]]) -> Callable[[Kind, Page], list[str]]:
        _table.update(dict.fromkeys(kinds, function))
        return function

    return enter


# ---- what agents do ---------------------------------------------------------------------------


@renders(events.SystemMessage)
def _system(event: events.SystemMessage, page: Page) -> list[str]:
    return page.text(DIM, f"[System] {event.text}")


@renders(events.AgentMessage)
def _message(event: events.AgentMessage, _page: Page) -> list[str]:
    return visible(event.text).split("\n")


_MAIN_INPUT = {
    "Bash": "command",
    "Read": "file_path",
    "Write": "file_path",
    "Edit": "file_path",
    "Glob": "pattern",
    "Grep": "pattern",
    "WebFetch": "url",
    "Task": "description",
}


@renders(events.ToolCall)
def _tool_call(event: events.ToolCall, page: Page) -> list[str]:
    value = _main_input(event)
    return page.cut(DIM_CYAN, [f"▶ {event.name}: {value}" if value else f"▶ {event.name}"])


def _main_input(call: events.ToolCall) -> str:
    if isinstance(call.input, str):
        return call.input.strip()
    if not isinstance(call.input, dict):
        return ""
    value = call.input.get(_MAIN_INPUT.get(call.name))
    if isinstance(value, str):
        return value.strip()
    return next((value.strip() for value in call.input.values() if isinstance(value, str)), "")


@renders(events.ToolResult)
def _tool_result(event: events.ToolResult, page: Page) -> list[str]:
    lines, total = first_lines(event.output, SHOWN_LINES)
    rows = [f"{number:>4}  {shorten(line, page.width - 6)}" for number, line in enumerate(lines, 1)]
    if total > len(lines):
        rows.append(f"(showing {len(lines)} of {total} lines)")
    return page.paint(RED if event.is_error else DIM, rows or ["(no output)"])


@renders(events.UsageReport)
def _usage(event: events.UsageReport, page: Page) -> list[str]:
    cost = "" if event.cost_usd is None else f", ${event.cost_usd:,.2f}"
    return page.text(DIM, f"[Usage] {tokens(event)}{cost}")


def tokens(report: events.UsageReport) -> str:
    """Format as `52,345 in (40,000 cached), 678 out`: all input tokens, and how many of them were cached."""
    total_input = report.input_tokens + report.cache_read_tokens + report.cache_creation_tokens
    cached = f" ({report.cache_read_tokens:,} cached)" if report.cache_read_tokens else ""
    return f"{total_input:,} in{cached}, {report.output_tokens:,} out"


# ---- markers ----------------------------------------------------------------------------------

_MARKERS: dict[type[events.LlmMarkerEvent], tuple[str, str]] = {
    events.Note: ("[NOTE]", BOLD_YELLOW),
    events.RequestChanges: ("[REQUEST_CHANGES]", BOLD_YELLOW),
    events.SpecIssue: ("[SPEC_ISSUE]", BOLD_RED),
    events.Progress: ("[PROGRESS]", BOLD_BLUE),
    events.Done: ("[DONE]", BOLD_GREEN),
    events.Approved: ("[APPROVED]", BOLD_GREEN),
    events.PlanComplete: ("[PLAN_COMPLETE]", BOLD_GREEN),
    events.ToBeDiscussed: ("[TO_BE_DISCUSSED]", BOLD_MAGENTA),
}


@renders(*_MARKERS)
def _marker(event: events.LlmMarkerEvent, page: Page) -> list[str]:
    name, style = _MARKERS[type(event)]
    return ["", *page.text(style, f"{name} {event.content}".rstrip()), ""]


# ---- the loop ---------------------------------------------------------------------------------


@renders(events.LoopStart)
def _start(event: events.LoopStart, page: Page) -> list[str]:
    focus = event.focus.strip().partition("\n")[0]
    return page.cut(DIM, [f"[Loop] {'Resumed with focus' if event.resumed else 'Focus'}: {focus}"])


@renders(events.IterationStart)
def _iteration(event: events.IterationStart, page: Page) -> list[str]:
    return page.text(BOLD, f"[Loop] === Iteration {event.iteration}/{event.max_iterations} ===")


_PHASES: dict[type[events.LoopPhaseEvent], str] = {
    events.PlanningStart: "[Planning] Starting...",
    events.ImplementingStart: "[Implementing] Starting...",
    events.ReviewingStart: "[Reviewing] Starting...",
}


@renders(*_PHASES)
def _phase(event: events.LoopPhaseEvent, page: Page) -> list[str]:
    return page.text(DIM, _PHASES[type(event)])


@renders(events.SetupCommandOutput)
def _setup(event: events.SetupCommandOutput, page: Page) -> list[str]:
    return page.command(DIM, f"[Setup] exit {event.exit_code}", event.output)


@renders(events.CheckCommandOutput)
def _check(event: events.CheckCommandOutput, page: Page) -> list[str]:
    return page.command(BOLD_RED if event.exit_code else DIM, f"[Check] exit {event.exit_code}", event.output)


@renders(events.CommitPerformed)
def _commit(event: events.CommitPerformed, page: Page) -> list[str]:
    first_line = event.message.strip().partition("\n")[0]
    return page.text(BOLD_MAGENTA, f"[Commit] {event.commit_hash[:7]}: {first_line}")


@renders(events.CommitFailed)
def _commit_failed(event: events.CommitFailed, page: Page) -> list[str]:
    return page.text(BOLD_RED, f"[Commit] Failed: {event.message.strip()}")


@renders(events.AgentRetry)
def _retry(event: events.AgentRetry, page: Page) -> list[str]:
    what = f"Retry {event.attempt} in {duration(event.delay)}" if event.delay else f"Asked again ({event.attempt})"
    return page.text(BOLD_YELLOW, f"[Agent] {what}: {event.reason}")


@renders(events.AgentWaiting)
def _waiting(event: events.AgentWaiting, page: Page) -> list[str]:
    until = event.until.astimezone()
    clock = f"{until:%H:%M}"
    if page.at is not None:
        at = datetime.fromisoformat(page.at).astimezone()
        if until.date() != at.date():
            clock = f"{until:%Y-%m-%d %H:%M}"
        clock += f" (for {duration((until - at).total_seconds())})"
    return page.text(BOLD_YELLOW, f"[Agent] Waiting until {clock}: {event.reason}")


@renders(events.LoopApproved)
def _approved(event: events.LoopApproved, page: Page) -> list[str]:
    return page.text(BOLD_GREEN, f"[Loop] Approved in iteration {event.iteration}")


@renders(events.LoopSpecIssue)
def _spec_issue(event: events.LoopSpecIssue, page: Page) -> list[str]:
    saved = f"Saved to: .cuggino/spec-issues/{event.filename}"
    return page.text(BOLD_RED, f"[Loop] Spec issue: {event.content}\n{saved}")


@renders(events.LoopMaxIterations)
def _max_iterations(event: events.LoopMaxIterations, page: Page) -> list[str]:
    return page.text(BOLD_YELLOW, f"[Loop] Max iterations reached ({event.max_iterations})")


@renders(events.LoopLimitReached)
def _limit(event: events.LoopLimitReached, page: Page) -> list[str]:
    return page.text(BOLD_YELLOW, f"[Loop] Limit reached: {limit_value(event)}")


def limit_value(event: events.LoopLimitReached) -> str:
    """Format as `maxCostUsd ($5.02)` or `maxRuntime (2h)`."""
    shown = {"maxCostUsd": f"${event.value:,.2f}", "maxRuntime": duration(event.value)}
    return f"{event.limit} ({shown.get(event.limit, f'{event.value:g}')})"


@renders(events.LoopFailed)
def _failed(event: events.LoopFailed, page: Page) -> list[str]:
    return page.text(BOLD_RED, f"[Loop] Failed in {event.phase}: {event.message}")


# ---- watches and spawns -----------------------------------------------------------------------

renders(*events.WatchLoopEvent.__subclasses__())(watch_lines)
renders(*events.SpawnEvent.__subclasses__())(spawn_lines)
renders(*events.CiEvent.__subclasses__())(ci_lines)
