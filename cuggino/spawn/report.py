"""Render the report that a spawn ends with, as Markdown. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from cuggino.events import SpawnStatus
from cuggino.output.text import duration

_NAMES: dict[SpawnStatus, str] = {
    "success": "Success",
    "failed": "Failed",
    "idle-timeout": "Stopped: silent for too long",
    "total-timeout": "Stopped: took too long",
    "permission-denied": "Stopped: permission denied",
    "interrupted": "Interrupted",
}


class ChangedFile(msgspec.Struct, frozen=True, kw_only=True):
    """A changed file. `added` and `removed` are numbers of lines, None for a binary file; `what` is one word."""

    path: str
    added: int | None
    removed: int | None
    what: str


class SpawnReport(msgspec.Struct, frozen=True, kw_only=True):
    """The contents of a report. `folder` has the logs. Texts may contain anything that an agent wrote."""

    id: str
    title: str
    status: SpawnStatus
    seconds: float
    folder: str
    pull_request: tuple[int, str] | None = None
    branch: str | None = None
    changes: Sequence[ChangedFile] = ()
    summary: str = ""
    problem: str = ""
    """Why it failed, and how to continue."""
    recovery: Sequence[str] = ()
    conflicts: Sequence[str] = ()
    left_out: Sequence[str] = ()
    cost: str = ""
    last_lines: Sequence[str] = ()


def render_report(report: SpawnReport) -> str:
    """Return the report as Markdown, without empty sections."""
    head = [
        f"## Spawn Complete: {_one_line(report.title)} (spawn-id: {report.id})",
        "",
        f"**Status:** {_NAMES[report.status]} ({duration(report.seconds)})",
    ]
    if report.pull_request is not None:
        number, url = report.pull_request
        head.append(f"**PR:** #{number} - {url}")
    elif report.branch is not None:
        head.append(f"**Branch:** {report.branch}")
    sections = [
        _section("Changes", [_change(change) for change in report.changes]),
        _section("Not integrated", [f"- `{path}`: not in `writablePaths`" for path in report.left_out]),
        _section("Summary", report.summary.strip().splitlines()),
        _section("What went wrong", report.problem.strip().splitlines()),
        _section("Recovery", [f"- {line}" for line in report.recovery]),
        _section("Conflicts", [f"- {line}" for line in report.conflicts]),
        _section("Cost", [report.cost] if report.cost else []),
        _section("The agent's last lines", _fenced(report.last_lines)),
        _section("Logs", [f"Debug logs: `{report.folder}`"]),
    ]
    return "\n\n".join(["\n".join(head), *(section for section in sections if section)]) + "\n"


def _section(name: str, lines: Sequence[str]) -> str:
    return "\n".join([f"### {name}", *lines]) if lines else ""


def _change(change: ChangedFile) -> str:
    counts = "binary" if change.added is None or change.removed is None else f"+{change.added}, -{change.removed}"
    return f"- `{_one_line(change.path)}` ({counts}) - {change.what}"


def _fenced(lines: Sequence[str]) -> list[str]:
    if not lines:
        return []
    longest = max((len(line) - len(line.lstrip("`")) for line in lines), default=0)
    fence = "`" * max(3, longest + 1)
    return [fence, *lines, fence]


def _one_line(text: str) -> str:
    return " ".join(text.split())
