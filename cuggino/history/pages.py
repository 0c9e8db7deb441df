"""What is going on and what happened, as lines for people. Pure: from a status or sessions, and a page, to lines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TypeAlias

from cuggino.history.sessions import Outcome, PastSession, first_line, seconds_between
from cuggino.history.status import BacklogItem, OpenSession, Paper, Status
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
"""A style, or none, and a text."""

_LABEL = 12
_GAP = 2
_LEAST = 20
"""Columns that a table's last cell has at least; on a page that is too narrow for it, lines wrap."""


def render_status(status: Status, page: Page) -> list[str]:
    """Who works here and on what, what there is not, what was last; then a table for each thing that there is."""
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
    lines += _section("Spec issues", [_paper(paper, BOLD_RED) for paper in status.spec_issues], page)
    lines += _section("Findings", [_paper(paper, BOLD_MAGENTA) for paper in status.findings], page)
    lines += _section("To go on with", [_session(it, status) for it in status.sessions], page)
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
    return [("Running", (BOLD_YELLOW, f"nothing: {who} died. The next command clears up after it."))]


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
        ("Works on", (BOLD, _about(job.focus, job.backlog_file) + (title and f": {title}"))),
        ("Now", (BOLD_YELLOW if job.phase == "waiting" else "", now)),
    ]


_STEPS: dict[JobPhase, str] = {
    "starting": "starting",
    "planning": "planning",
    "setup": "runs the setup command",
    "check": "runs the check command",
    "implementing": "implementing",
    "commit": "commits",
    "reviewing": "reviewing",
    "waiting": "waits",
    "ending": "ends",
}
_PHASES: dict[Phase, str] = {
    "starting": "starting",
    "working": "works",
    "waiting-for-spec-issues": "waits for you: spec issues must be cleared in .cuggino/spec-issues/",
    "waiting-for-items": "waits for items in .cuggino/backlog/",
    "validating": "validating",
    "ending": "ends",
}
_STOPPING = {
    "drain": "what runs goes on to its end, nothing new starts",
    "interrupt": "what still runs has 5 s to end",
    "kill": "what is left is killed",
}


def _item(item: BacklogItem) -> Sequence[Cell]:
    state = {
        "working": (BOLD_GREEN, "working"),
        "ready": ("", "ready"),
        "behind-spec-issue": (BOLD_YELLOW, "waits for spec issues"),
        "blocked": (RED, "blocked"),
    }[item.state]
    notes = [f"failed {_count(item.failures, 'time')}"] if item.failures else []
    if item.session is not None:
        notes.append("begun")
    text = f"({', '.join(notes)}) {item.title}" if notes else item.title
    return ("", visible_name(item.name)), state, ("", item.reason or text)


def _paper(paper: Paper, style: str) -> Sequence[Cell]:
    return (style, visible_name(paper.name)), ("", paper.title)


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
    """A table: which, when, how it ended, how long, what it cost, how many iterations, what about."""
    if not sessions:
        return page.paint(DIM, ["There is nothing in the logs yet."])
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
    """What it is about, on one line. An item's file says more than the path to it, which is its focus."""
    return visible_name(backlog_file) if backlog_file is not None else first_line(focus or "(not told)")


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
    """The beginnings of ids by which they are told apart, all of one length; with a UUIDv7's time, at least."""
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
    """Cells below each other; the last of a row is shortened to what is left of the width."""
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
