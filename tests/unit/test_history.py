"""From the lines of logs to sessions, and from sessions to a table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from cuggino import events
from cuggino.errors import NotFound
from cuggino.history.logs import LogRecord, parse, read
from cuggino.history.pages import render_sessions
from cuggino.history.sessions import History, PastSession, choose, recall
from cuggino.output.jsonlines import encode
from cuggino.output.page import Page
from cuggino.output.text import columns

A = "01a20036-613d-7871-98ae-4c8044faa5da"
B = "01a20069-8ad8-7f7d-b2eb-facc01e89543"


def at(second: int) -> str:
    return f"2026-11-21T22:{second // 60:02}:{second % 60:02}.000Z"


def logged(history: History, log: str, *lines: tuple[int, str | None, events.Event | None]) -> None:
    history.begin(log)
    for second, session, event in lines:
        history.add(LogRecord(at(second), session, event))  # type: ignore[arg-type]


def start(focus: str = "the work", backlog_file: str | None = None, *, resumed: bool = False) -> events.LoopStart:
    return events.LoopStart(iteration=1, focus=focus, backlog_file=backlog_file, resumed=resumed)


def only(sessions: Sequence[PastSession]) -> PastSession:
    (session,) = sessions
    return session


# ---- the fold ---------------------------------------------------------------------------------


def test_a_session_has_its_focus_counts_cost_and_outcome() -> None:
    history = History()
    logged(
        history,
        "log",
        (0, A, start()),
        (0, A, events.IterationStart(iteration=1, max_iterations=3)),
        (1, A, events.ImplementingStart(iteration=1)),
        (2, A, events.Done(content="")),
        (3, A, events.UsageReport(input_tokens=1, cost_usd=0.25)),
        (4, A, events.CommitPerformed(iteration=1, commit_hash="a", message="")),
        (5, A, events.IterationStart(iteration=2, max_iterations=3)),
        (6, A, events.UsageReport(input_tokens=1)),
        (90, A, events.LoopApproved(iteration=2)),
    )
    assert only(history.sessions()) == PastSession(
        id=A,
        kind="loop",
        started=at(0),
        last_event=at(90),
        focus="the work",
        backlog_file=None,
        outcome="approved",
        why=None,
        seconds=90.0,
        iterations=2,
        tasks=1,
        commits=1,
        cost_usd=0.25,
        cost_is_partial=True,
        logs=("log",),
    )


@pytest.mark.parametrize(
    ("end", "outcome", "why"),
    [
        (events.LoopApproved(iteration=1), "approved", None),
        (events.LoopSpecIssue(iteration=1, content="unclear", filename="x.md"), "spec-issue", "x.md"),
        (events.LoopMaxIterations(iteration=1, max_iterations=1), "max-iterations", None),
        (events.LoopLimitReached(iteration=1, limit="maxCostUsd", value=5.0), "limit", "maxCostUsd ($5.00)"),
        (events.LoopFailed(iteration=1, phase="planner", message="no\nadvice"), "failed", "planner: no"),
    ],
)
def test_each_end_has_its_outcome(end: events.LoopTerminalEvent, outcome: str, why: str | None) -> None:
    history = History()
    logged(history, "log", (0, A, start()), (1, A, end))
    session = only(history.sessions(growing="log"))
    assert (session.outcome, session.why) == (outcome, why)


def test_a_session_without_an_end_runs_if_its_log_still_grows_and_was_interrupted_if_not() -> None:
    history = History()
    logged(history, "old", (0, A, start()), (9, A, None))
    logged(history, "new", (20, B, start()))
    assert [it.outcome for it in history.sessions(growing="new")] == ["running", "interrupted"]
    assert [it.outcome for it in history.sessions()] == ["interrupted"] * 2


def test_a_resumed_session_is_one_session_without_its_pauses() -> None:
    history = History()
    logged(history, "first", (0, A, start()), (10, A, events.LoopFailed(iteration=1, phase="planner", message="x")))
    assert only(history.sessions()).outcome == "failed"
    logged(history, "second", (100, A, start(resumed=True)), (101, A, events.UsageReport(cost_usd=1.0)))
    assert only(history.sessions("second")).outcome == "running"
    logged(history, "third", (200, A, start(resumed=True)), (205, A, events.LoopApproved(iteration=1)))
    session = only(history.sessions())
    assert (session.outcome, session.seconds, session.logs) == ("approved", 16.0, ("first", "second", "third"))
    assert (session.started, session.last_event) == (at(0), at(205))


def test_the_sessions_in_a_watchs_log_are_listed_latest_first() -> None:
    history = History()
    logged(
        history,
        "log",
        (0, None, events.WatchProcessingItem(filename="a.md")),
        (1, A, start("@/p/a.md", "a.md")),
        (2, A, events.LoopApproved(iteration=1)),
        (2, None, events.WatchItemCompleted(filename="a.md")),
        (3, B, start("@/p/b.md", "b.md")),
        (4, B, events.LoopFailed(iteration=1, phase="planner", message="overloaded")),
        (5, B, start("@/p/b.md", "b.md", resumed=True)),
        (6, None, events.WatchEnded(reason="interrupted", completed=1, exit_code=130)),
    )
    listed = [(it.id, it.backlog_file, it.outcome) for it in history.sessions()]
    assert listed == [(B, "b.md", "interrupted"), (A, "a.md", "approved")]


@pytest.mark.parametrize(
    ("end", "outcome"),
    [
        (events.WatchAuditEnded(), "ended"),
        (events.WatchAuditInterrupted(), "interrupted"),
        (events.WatchAuditFailed(message="no"), "failed"),
        (None, "interrupted"),
    ],
)
def test_an_audit_is_a_session_of_its_own_kind(end: events.WatchLoopEvent | None, outcome: str) -> None:
    history = History()
    logged(
        history,
        "log",
        (0, A, start()),
        (1, A, events.LoopApproved(iteration=1)),
        (2, None, events.WatchAuditStarted()),
        (2, B, None),
        (3, B, events.UsageReport(cost_usd=2.0)),
        (4, None, end),
    )
    audit, loop = history.sessions()
    assert (audit.kind, audit.outcome, audit.focus, audit.cost_usd) == ("audit", outcome, None, 2.0)
    assert (loop.kind, loop.outcome) == ("loop", "approved")


# ---- lines ------------------------------------------------------------------------------------


def line(event: events.PrintableEvent, session: str | None = A) -> bytes:
    return encode([events.LogLine(at=at(0), session=session, event=event)]).rstrip(b"\n")


def test_a_line_is_parsed_without_the_agents_text() -> None:
    assert parse(line(start())) == LogRecord(at(0), A, start())
    assert parse(line(events.AgentMessage(text="long"))) == LogRecord(at(0), A, None)
    assert parse(line(events.WatchAuditStarted(), None)) == LogRecord(at(0), None, events.WatchAuditStarted())


def test_a_line_with_an_unknown_event_has_no_event() -> None:
    assert parse(b'{"at":"x","session":null,"event":{"_tag":"FromTheFuture","a":[1]}}') == LogRecord("x", None, None)
    assert parse(b'{"at":"x","session":null,"event":{"_tag":"LoopApproved"},"more":1}') == LogRecord("x", None, None)


@pytest.mark.parametrize(
    "raw", [b"", b"{", b"null", b"\xff\xfe", b'{"at":"\xff","session":null,"event":{"_tag":"x"}}', b"[" * 100_000]
)
def test_a_damaged_line_is_ignored(raw: bytes) -> None:
    assert parse(raw) is None


def test_an_incomplete_line_damages_only_itself(tmp_path: Path) -> None:
    log = tmp_path / f"{A}.jsonl"
    whole = line(events.ToolResult(id="1", output="日本\n"))
    log.write_bytes(whole + b"\n" + whole[:40] + b"\n" + line(events.LoopApproved(iteration=1)) + b"\n" + whole)
    assert [type(it.event).__name__ for it in read(log)] == ["NoneType", "LoopApproved"]
    assert only(recall([log, tmp_path / "removed-meanwhile.jsonl"]).sessions()).outcome == "approved"


def test_an_unreadable_log_is_reported_and_the_others_are_read(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").mkdir()
    (tmp_path / "b.jsonl").write_bytes(line(start()) + b"\n")
    history = recall(sorted(tmp_path.iterdir()))
    assert len(history.sessions()) == 1
    assert [problem.partition(" cannot")[0] for problem in history.unreadable] == [str(tmp_path / "a.jsonl")]


# ---- choosing ---------------------------------------------------------------------------------


def test_the_beginning_of_an_id_is_enough_and_a_session_comes_before_its_log() -> None:
    log = A[:13] + "-7000-8000-000000000000"
    assert choose(A[:13], [B, A], [log]) == (A, None)
    assert choose(log, [B, A], [log]) == (None, log)
    assert choose(B.upper(), [B, A], [log]) == (B, None)


@pytest.mark.parametrize(("beginning", "message"), [("01a200", "More than one session"), ("zz", "No session matches")])
def test_a_prefix_of_several_ids_or_of_none_is_an_error(beginning: str, message: str) -> None:
    with pytest.raises(NotFound, match=message):
        choose(beginning, [A, B], [])


# ---- the table --------------------------------------------------------------------------------


def table(*sessions: tuple[str, str, int], width: int = 100) -> list[str]:
    history = History()
    for id_, focus, seconds in sessions:
        logged(history, "log", (0, id_, start(focus)), (seconds, id_, events.LoopApproved(iteration=1)))
    return render_sessions(history.sessions(), Page(width, colour=False))


def test_the_table_is_aligned_and_its_last_column_fills_the_width() -> None:
    rows = table((A, "short", 5), (B, "日本語" * 40, 3605))
    assert [row[:13] for row in rows] == ["SESSION      ", B[:13], A[:13]]
    assert {row.index("approved") for row in rows[1:]} == {rows[0].index("OUTCOME")}
    assert rows[2].endswith("  short")
    assert columns(rows[1]) in (99, 100)
    assert rows[1].endswith("…")


def test_ids_of_one_millisecond_are_shown_as_far_as_they_differ() -> None:
    other = A[:20] + "ff" + A[22:]
    assert [row.split()[0] for row in table((A, "x", 1), (other, "y", 1))[1:]] == [other[:21], A[:21]]


def test_a_focus_cannot_break_the_table() -> None:
    (_, row) = table((A, "one\x1b[2J\ttwo\nthree", 1))
    assert "one␛[2J" in row
    assert "\x1b" not in row
    assert "three" not in row


def test_an_empty_list_says_so() -> None:
    assert table() == ["The logs are empty."]
