"""The status and past sessions as lines for people. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TypeAlias

from cuggino.history.sessions import Outcome, PastSession, first_line, seconds_between
from cuggino.history.status import BacklogItem, InboxFile, OpenSession, Status
from cuggino.history.work import CurrentWork, Job, JobPhase, Phase
from cuggino.output.page import (
    BOLD,
    BOLD_GREEN,
    BOLD_MAGENTA,
    BOLD_RED,
    BOLD_YELLOW,
    CYAN,
    DIM,
    RED,
    Page,
)
from cuggino.output.text import columns, duration, shorten, visible_name

Cell: TypeAlias = tuple[str, str]
"""A style, or an empty string, and a text."""

_LABEL = 12
_GAP = 2
_LEAST = 20
"""Minimum width of a table's last column; on a narrower page, lines wrap."""


def render_status(status: Status, page: Page) -> list[str]:
    """Return what is running, what is empty and what was last, then a table for each list that is not empty."""
    rows = [("Project", ("", status.root)), *_holder(status)]
    if (work := status.work) is not None:
        rows += _work(work, status)
    rows += [
        (name, (DIM, without))
        for name, without, of in (
            ("Backlog", "empty", status.backlog),
            ("Spec issues", "none", status.spec_issues),
            ("Findings", "none", status.findings),
        )
        if not of
    ]
    if (last := status.last) is not None:
        ago = _ago(last.last_event, status.at)
        what = f"{_outcome_words(last)}{ago and f', {ago} ago'}: {_about(last.focus, last.backlog_file)}"
        rows.append(("Last", (_OUTCOMES[last.outcome], what)))
    lines = [_labelled(label, cell, page) for label, cell in rows]
    lines += _section("Backlog", [_item(item) for item in status.backlog], page)
    lines += _section("Spec issues", [_inbox_file(file, BOLD_RED) for file in status.spec_issues], page)
    lines += _section("Findings", [_inbox_file(file, BOLD_MAGENTA) for file in status.findings], page)
    lines += _section("Unfinished sessions", [_session(it, status) for it in status.sessions], page)
    for problem in status.problems:
        lines += page.text(BOLD_YELLOW, f"[System] {problem}")
    return lines


def _holder(status: Status) -> list[tuple[str, Cell]]:
    if (holder := status.holder) is None:
        return [("Running", (DIM, "nothing"))]
    who = f"{holder.command} (process {holder.pid})"
    if holder.lives:
        since = holder.since.astimezone()
        lasted = duration((status.at - holder.since).total_seconds())
        return [("Running", (BOLD_GREEN, f"{who} since {since:%Y-%m-%d %H:%M} ({lasted})"))]
    return [("Running", (BOLD_YELLOW, f"nothing: {who} crashed. The next command cleans up after it."))]


def _work(work: CurrentWork, status: Status) -> list[tuple[str, Cell]]:
    rows = [row for job in work.jobs for row in _job(job, status)]
    if work.phase != "working":
        lasted = _ago(work.since, status.at)
        style = BOLD_YELLOW if work.phase == "waiting-for-spec-issues" else ""
        also = "Meanwhile" if work.jobs else "Now"
        rows.append((also, (style, _PHASES[work.phase] + (lasted and f", for {lasted}"))))
    if work.auditing:
        rows.append(("Audit", (CYAN, "running")))
    if work.stopping is not None:
        rows.append(("Stopping", (BOLD_YELLOW, _STOPPING[work.stopping])))
    if work.completed:
        rows.append(("Completed", ("", _count(work.completed, "item"))))
    if work.cost_usd is not None:
        rows.append(("Cost", ("", _cost(work.cost_usd, work.cost_is_partial) + " so far")))
    return rows


def _job(job: Job, status: Status) -> list[tuple[str, Cell]]:
    titles = {item.name: item.title for item in status.backlog}
    title = titles.get(job.backlog_file or "", "")
    now = _STEPS[job.phase]
    if job.iteration is not None:
        now += f", iteration {job.iteration}" + (f"/{job.max_iterations}" if job.max_iterations else "")
    if lasted := _ago(job.since, status.at):
        now += f", for {lasted}"
    if job.until is not None:
        now += f", until {job.until.astimezone():%H:%M:%S}"
    if job.reason:
        now += f": {first_line(job.reason)}"
    return [
        ("Working on", (BOLD, _about(job.focus, job.backlog_file) + (title and f": {title}"))),
        ("Now", (BOLD_YELLOW if job.phase == "waiting" else "", now)),
    ]


_STEPS: dict[JobPhase, str] = {
    "starting": "starting",
    "planning": "planning",
    "setup": "running the setup command",
    "check": "running the check command",
    "implementing": "implementing",
    "commit": "committing",
    "reviewing": "reviewing",
    "waiting": "waiting",
    "ending": "ending",
}
_PHASES: dict[Phase, str] = {
    "starting": "starting",
    "working": "working",
    "waiting-for-spec-issues": "waiting for you to resolve the spec issues in .cuggino/spec-issues/",
    "waiting-for-items": "waiting for items in .cuggino/backlog/",
    "validating": "validating",
    "ending": "ending",
}
_STOPPING = {
    "drain": "running work continues to its end, nothing new starts",
    "interrupt": "running agents have 5 s to exit",
    "kill": "killing all processes",
}


def _item(item: BacklogItem) -> Sequence[Cell]:
    state = {
        "working": (BOLD_GREEN, "working"),
        "ready": ("", "ready"),
        "behind-spec-issue": (BOLD_YELLOW, "waiting for spec issues"),
        "blocked": (RED, "blocked"),
    }[item.state]
    notes = [f"failed {_count(item.failures, 'time')}"] if item.failures else []
    if item.session is not None:
        notes.append("started")
    text = f"({', '.join(notes)}) {item.title}" if notes else item.title
    return ("", visible_name(item.name)), state, ("", item.reason or text)


def _inbox_file(file: InboxFile, style: str) -> Sequence[Cell]:
    return (style, visible_name(file.name)), ("", file.title)


def _session(session: OpenSession, status: Status) -> Sequence[Cell]:
    names = _short([session.id for session in status.sessions])
    where = f"iteration {session.iteration}, {session.step}"
    cost = _cost(session.cost_usd, partial=False) if session.cost_usd else ""
    return ("", names[session.id]), ("", where), ("", cost), ("", _about(session.focus, session.backlog_file))


# ---- sessions ---------------------------------------------------------------------------------

_OUTCOMES: dict[Outcome, str] = {
    "approved": BOLD_GREEN,
    "ended": "",
    "running": CYAN,
    "spec-issue": BOLD_RED,
    "failed": BOLD_RED,
    "limit": BOLD_YELLOW,
    "max-iterations": BOLD_YELLOW,
    "interrupted": BOLD_YELLOW,
}


def render_sessions(sessions: Sequence[PastSession], page: Page) -> list[str]:
    """Return the sessions as a table."""
    if not sessions:
        return page.paint(DIM, ["The logs are empty."])
    names = _short([session.id for session in sessions])
    head = [(DIM, word) for word in ("SESSION", "STARTED", "OUTCOME", "TIME", "COST", "ITER.", "ABOUT")]
    return _table([head, *(_past(session, names[session.id]) for session in sessions)], page)


def _past(session: PastSession, name: str) -> Sequence[Cell]:
    about = "an audit" if session.kind == "audit" else _about(session.focus, session.backlog_file)
    why = f" ({session.why})" if session.why else ""
    return (
        ("", name),
        ("", _clock(session.started)),
        (_OUTCOMES[session.outcome], session.outcome),
        ("", duration(session.seconds)),
        ("", "" if session.cost_usd is None else _cost(session.cost_usd, session.cost_is_partial, short=True)),
        ("", str(session.iterations) if session.iterations else ""),
        ("", about + why),
    )


def _outcome_words(session: PastSession) -> str:
    why = f" ({session.why})" if session.why else ""
    return session.outcome.replace("-", " ") + why


# ---- words and columns ------------------------------------------------------------------------


def _about(focus: str | None, backlog_file: str | None) -> str:
    """Return the subject on one line. For an item that is the name of its file, since its focus is only a path."""
    return visible_name(backlog_file) if backlog_file is not None else first_line(focus or "(unknown)")


def _cost(usd: float, partial: bool, *, short: bool = False) -> str:
    return f"{('≥' if short else 'at least ') if partial else ''}${usd:,.2f}"


def _ago(at: str, now: datetime) -> str:
    return duration(seconds_between(at, now.isoformat()))


def _clock(at: str) -> str:
    try:
        return f"{datetime.fromisoformat(at).astimezone():%m-%d %H:%M}"  # logs are kept for 30 days
    except ValueError:
        return at


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _short(ids: Sequence[str]) -> dict[str, str]:
    """Return unique prefixes of IDs, all of the same length, which include at least the time of a UUIDv7."""
    length = 13
    while len({name[:length] for name in ids}) < len(set(ids)):
        length += 1
    return {name: name[:length] for name in ids}


def _labelled(label: str, cell: Cell, page: Page) -> str:
    style, text = cell
    head = page.paint(DIM, [f"{label:<{_LABEL}}"])[0]
    return head + _painted(style, shorten(text, max(page.width - _LABEL, _LEAST)), page)


def _section(name: str, rows: Sequence[Sequence[Cell]], page: Page) -> list[str]:
    if not rows:
        return []
    head = page.paint(BOLD, [f"{name} ({len(rows)})"])[0]
    inside = page._replace(width=page.width - _GAP)
    return ["", head, *(" " * _GAP + line for line in _table(rows, inside))]


def _table(rows: Iterable[Sequence[Cell]], page: Page) -> list[str]:
    """Return aligned rows, whose last cells are shortened to the rest of the width."""
    cells = [[(style, shorten(text, page.width)) for style, text in row] for row in rows]
    widths = [max(columns(text) for _, text in column) for column in zip(*cells, strict=True)][:-1]
    left = max(page.width - sum(widths) - _GAP * sum(1 for width in widths if width), _LEAST)
    lines = []
    for *first, (style, text) in cells:
        parts = [
            _painted(style, text, page) + " " * (width - columns(text) + _GAP)
            for (style, text), width in zip(first, widths, strict=True)
            if width
        ]
        lines.append(("".join(parts) + _painted(style, shorten(text, left), page)).rstrip())
    return lines


def _painted(style: str, text: str, page: Page) -> str:
    return page.paint(style, [text])[0] if style else text
