"""What is found out from a project's files, and how it looks."""

from __future__ import annotations

import os
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import get_args, get_type_hints

import msgspec
import pytest

from cuggino import events
from cuggino.backlog import digest_of
from cuggino.clock import uuid7
from cuggino.history.logs import LogRecord
from cuggino.history.pages import render_status
from cuggino.history.sessions import Outcome, PastSession
from cuggino.history.status import BacklogItem, InboxFile, Status, gather
from cuggino.history.work import CurrentWork, Job, JobPhase, Phase, SessionFollower
from cuggino.lock import lock
from cuggino.loop.course import Course, Step
from cuggino.loop.session import Session
from cuggino.output.jsonlines import encode
from cuggino.output.page import Page
from cuggino.output.text import columns
from cuggino.project import Project
from cuggino.watch.ledger import Ledger

AT = "2026-11-21T22:00:00.000Z"
NOW = datetime(2026, 11, 21, 22, 5, tzinfo=UTC)


@pytest.fixture(name="project")
def _project(tmp_path: Path) -> Project:
    project = Project(tmp_path.resolve())
    project.prepare()
    return project


def write_log(project: Project, *lines: tuple[str | None, events.PrintableEvent]) -> str:
    """A log that is made now; its id."""
    id_ = uuid7()
    path = project.logs / f"{id_}.jsonl"
    path.write_bytes(encode([events.LogLine(at=AT, session=session, event=event) for session, event in lines]))
    return id_


def start(focus: str, backlog_file: str | None = None) -> events.LoopStart:
    return events.LoopStart(iteration=1, focus=focus, backlog_file=backlog_file, resumed=False)


def look(status: Status, width: int = 80) -> list[str]:
    return render_status(status, Page(width, colour=False))


def row(lines: list[str], label: str) -> str:
    (found,) = [line for line in lines if line.startswith(label)]
    return found.removeprefix(label).strip()


# ---- a log that grows -------------------------------------------------------------------------


def phases(*given: tuple[str | None, events.Event | None]) -> list[str]:
    following = SessionFollower(CurrentWork(phase="starting", since=AT))
    seen = []
    for number, (session, event) in enumerate(given):
        following.add(LogRecord(str(number), session, event))  # type: ignore[arg-type]
        work = following.work
        (now,) = work.jobs or (work,)
        seen.append(f"{now.phase} since {now.since}")
    return seen


def test_the_phase_of_a_loop_follows_from_its_events() -> None:
    assert phases(
        ("s", start("x")),
        ("s", events.IterationStart(iteration=1, max_iterations=3)),
        ("s", events.PlanningStart(iteration=1)),
        ("s", None),
        ("s", events.PlanComplete(content="")),
        ("s", events.SetupCommandOutput(iteration=1, output="", exit_code=0)),
        ("s", events.CheckCommandOutput(iteration=1, output="", exit_code=0)),
        ("s", events.ImplementingStart(iteration=1)),
        ("s", events.Note(content="")),
        ("s", events.Done(content="")),
        ("s", events.Done(content="after its last word: ignored")),
        ("s", events.CommitPerformed(iteration=1, commit_hash="a", message="")),
        ("s", events.ReviewingStart(iteration=1)),
        ("s", events.LoopApproved(iteration=1)),
    ) == [
        *("planning since 0", "planning since 1", "planning since 2", "planning since 2", "setup since 4"),
        *("check since 5", "check since 5", "implementing since 7", "implementing since 7", "commit since 9"),
        *("commit since 9", "check since 11", "reviewing since 12", "ending since 13"),
    ]


def test_a_loop_stops_waiting_for_its_provider_when_the_agent_works_again() -> None:
    retry = events.AgentRetry(iteration=1, attempt=1, reason="overloaded", delay=30)
    waiting = events.AgentWaiting(iteration=1, until=NOW, reason="usage limit")
    seen = phases(
        ("s", start("x")),
        ("s", events.ReviewingStart(iteration=1)),
        ("s", retry),
        ("s", waiting),
        ("other", None),
        ("s", None),
    )
    assert seen[2:] == ["waiting since 2", "waiting since 3", "waiting since 3", "reviewing since 5"]
    asked_again = msgspec.structs.replace(retry, delay=0)
    assert phases(("s", start("x")), ("s", asked_again)) == ["planning since 0"] * 2


def test_the_phase_of_a_watch_follows_from_its_events() -> None:
    failed = events.WatchItemFailed(filename="a.md", message="no", attempt=1, retry_in=30)
    given: list[tuple[str | None, events.Event | None]] = [
        (None, events.WatchBacklogWaiting()),
        (None, events.WatchIdle(wait_seconds=300, blocked=0)),
        (None, events.WatchProcessingItem(filename="a.md")),
        ("s", start("@a.md", "a.md")),
        ("s", events.LoopFailed(iteration=1, phase="planner", message="no")),
        (None, failed),
        (None, events.WatchProcessingItem(filename="a.md")),
        (None, events.WatchItemCompleted(filename="a.md")),
        (None, events.WatchValidationStarted(completed=1)),
        (None, events.WatchValidationPassed(completed=1)),
        (None, events.WatchSpecIssueWaiting()),
        (None, events.WatchItemBlocked(filename="b.md", reason="x")),
    ]
    assert [it.split()[0] for it in phases(*given)] == [
        *("waiting-for-items", "waiting-for-items", "starting", "planning", "ending", "waiting", "starting"),
        *("starting", "validating", "starting", "waiting-for-spec-issues", "starting"),
    ]


def test_an_audit_runs_while_the_watch_waits_and_is_not_a_job() -> None:
    following = SessionFollower(CurrentWork(phase="starting", since=AT))
    seen = []
    for session, event in (
        (None, events.WatchBacklogWaiting()),
        (None, events.WatchAuditStarted()),
        ("audit", None),
        (None, events.WatchStopping(stage="drain", active=0)),
        (None, events.WatchAuditEnded()),
    ):
        following.add(LogRecord(AT, session, event))
        seen.append((following.work.phase, following.work.auditing, following.work.stopping))
    waiting = "waiting-for-items"
    assert seen == [
        (waiting, False, None),
        *[(waiting, True, None)] * 2,
        (waiting, True, "drain"),
        (waiting, False, "drain"),
    ]
    assert following.work.jobs == ()


def test_several_items_are_followed_independently() -> None:
    following = SessionFollower(CurrentWork(phase="starting", since=AT))

    def after(session: str | None, event: events.PrintableEvent, at: str = AT) -> tuple[str, dict[str | None, str]]:
        following.add(LogRecord(at, session, event))
        return following.work.phase, {job.backlog_file: job.phase for job in following.work.jobs}

    retried = events.WatchItemFailed(filename="b.md", message="no", attempt=1, retry_in=30)
    for name in ("a.md", "b.md", "c.md"):
        after(None, events.WatchProcessingItem(filename=name))
    after("b", start("@b.md", "b.md"))
    assert after("a", start("@a.md", "a.md")) == (
        "working",
        {"c.md": "starting", "b.md": "planning", "a.md": "planning"},
    )
    after("a", events.ImplementingStart(iteration=1))
    after("b", events.AgentWaiting(iteration=1, until=NOW, reason="usage limit"))
    after("a", events.Note(content=""))
    both = {"c.md": "starting", "b.md": "waiting", "a.md": "implementing"}
    assert after(None, events.WatchBacklogWaiting()) == ("waiting-for-items", both), "for others, while these go on"
    assert after("b", events.Note(content=""))[1]["b.md"] == "planning"
    assert after(None, events.WatchItemCompleted(filename="c.md"))[1] == {"b.md": "planning", "a.md": "implementing"}
    assert after(None, retried) == ("working", {"a.md": "implementing", "b.md": "waiting"})
    soon, later = "2026-11-21T22:00:29.000Z", "2026-11-21T22:00:31.000Z"
    assert after(None, events.WatchBacklogWaiting(), soon)[1] == {"a.md": "implementing", "b.md": "waiting"}
    assert after(None, events.WatchSpecIssueWaiting(), later)[1] == {"a.md": "implementing"}, (
        "nobody tried b.md again: gone"
    )
    assert after(None, events.WatchItemCompleted(filename="a.md")) == ("starting", {})
    assert after(None, events.WatchEnded(reason="interrupted", completed=2, exit_code=130)) == ("ending", {})


# ---- files ------------------------------------------------------------------------------------


def test_the_status_of_an_unused_directory_is_empty_and_creates_nothing(tmp_path: Path) -> None:
    status = gather(Project(tmp_path), NOW)
    assert status == Status(
        at=NOW,
        root=str(tmp_path),
        holder=None,
        work=None,
        backlog=(),
        spec_issues=(),
        findings=(),
        sessions=(),
        last=None,
        problems=(),
    )
    assert list(tmp_path.iterdir()) == []
    assert row(look(status), "Running") == "nothing"


def test_the_backlog_is_listed_in_order_with_the_state_of_each_item(project: Project) -> None:
    for name, text in (
        ("1-a.md", "\n# Do this\nmore\n"),
        ("2-b.md", "failed before"),
        ("3-日本.md", "blocked"),
        ("4-d.md", "edited after it was blocked"),
        ("5-e.md", " \n"),
        (".hidden", "no item"),
        ("5-e.md~", "no item"),
    ):
        (project.backlog / name).write_text(text)
    ledger = Ledger(project)
    ledger.record_failure("2-b.md", digest_of(project, "2-b.md"))
    ledger.block("3-日本.md", digest_of(project, "3-日本.md"), "it failed 3 times: no")
    ledger.block("4-d.md", "other", "x")
    begun = Session.create(project, "@1-a.md", backlog_file="1-a.md", backlog_hash=digest_of(project, "1-a.md"))

    def item(name: str, title: str, **more: object) -> BacklogItem:
        empty = {"state": "ready", "reason": None, "failures": 0, "session": None}
        return msgspec.convert({"name": name, "title": title, **empty, **more}, BacklogItem)

    status = gather(project)
    assert status.backlog == (
        item("1-a.md", "Do this", session=begun.id),
        item("2-b.md", "failed before", failures=1),
        item("3-日本.md", "blocked", state="blocked", reason="it failed 3 times: no"),
        item("4-d.md", "edited after it was blocked"),
        item("5-e.md", "(empty)", state="blocked", reason="it is empty"),
    )
    assert look(status)[-9:-3] == [
        "Backlog (5)",
        "  1-a.md     ready    (started) Do this",
        "  2-b.md     ready    (failed 1 time) failed before",
        "  3-日本.md  blocked  it failed 3 times: no",
        "  4-d.md     ready    edited after it was blocked",
        "  5-e.md     blocked  it is empty",
    ]


def test_items_wait_for_spec_issues(project: Project) -> None:
    (project.backlog / "a.md").write_text("do it")
    (project.spec_issues / "x.md").write_text("The spec says both\nand more")
    (project.tbd / "y.md").write_bytes(b"\xff finding")
    (project.tbd / os.fsdecode(b"\xff.md")).write_text("")
    status = gather(project)
    assert [item.state for item in status.backlog] == ["behind-spec-issue"]
    assert status.spec_issues == (InboxFile(name="x.md", title="The spec says both"),)
    assert status.findings == (
        InboxFile(name="y.md", title="\ufffd finding"),
        InboxFile(name="\\udcff.md", title="(empty)"),
    )
    msgspec.json.encode(status)


def test_the_work_of_a_living_command_comes_from_its_log_and_session(project: Project) -> None:
    (project.backlog / "a.md").write_text("# Split a bill\n")
    (project.backlog / "b.md").write_text("next")
    with lock(project, "cuggino watch", "marker"):
        old = Session.create(project, "older")
        session = Session.create(project, "@a.md", backlog_file="a.md")
        session.update(course=Course(iteration=2, step=Step.CHECK))
        log = write_log(
            project,
            (None, events.WatchItemCompleted(filename="0.md")),
            (None, events.WatchProcessingItem(filename="a.md")),
            (session.id, start("@a.md", "a.md")),
            (session.id, events.IterationStart(iteration=2, max_iterations=10)),
            (session.id, events.UsageReport(input_tokens=1, cost_usd=0.5)),
            (session.id, events.PlanComplete(content="")),
        )
        status = gather(project, NOW)
    assert status.holder is not None
    assert (status.holder.pid, status.holder.command, status.holder.lives) == (os.getpid(), "cuggino watch", True)
    assert status.work == CurrentWork(
        phase="working",
        since=AT,
        jobs=(
            Job(
                phase="check",
                since=AT,
                session=session.id,
                focus="@a.md",
                backlog_file="a.md",
                iteration=2,
                max_iterations=10,
            ),
        ),
        completed=1,
        cost_usd=0.5,
        log=log,
    )
    assert [item.state for item in status.backlog] == ["working", "ready"]
    assert [it.id for it in status.sessions] == [old.id]
    assert status.last is None
    lines = look(status)
    assert row(lines, "Working on") == "a.md: Split a bill"
    assert row(lines, "Now") == "running the check command, iteration 2/10, for 5m"
    assert row(lines, "Completed") == "1 item"
    assert row(lines, "Cost") == "$0.50 so far"


def test_a_command_that_has_just_started_does_not_own_an_older_log(project: Project) -> None:
    old = project.logs / "01a20036-613d-7871-98ae-4c8044faa5da.jsonl"
    old.write_bytes(encode([events.LogLine(at=AT, session="s", event=start("old"))]))
    with lock(project, "cuggino run", "marker"):
        status = gather(project)
    assert status.work is not None
    assert (status.work.phase, status.work.jobs, status.work.log) == ("starting", (), None)
    assert status.last is not None
    assert (status.last.focus, status.last.outcome) == ("old", "interrupted")


def test_a_killed_command_is_shown_as_crashed_with_its_unfinished_session(project: Project) -> None:
    session = Session.create(project, "日本語の仕事")
    session.update(cost_usd=1.5, elapsed=60.0, course=Course(step=Step.REVIEW))
    write_log(project, (session.id, start("日本語の仕事")))
    dead = {"pid": 2**22 + 1, "startTime": "never", "marker": "m", "command": "cuggino run", "since": AT}
    project.lock_file.write_bytes(msgspec.json.encode(dead))
    status = gather(project, NOW)
    assert status.holder is not None
    assert not status.holder.lives
    assert status.work is None
    (left,) = status.sessions
    assert (left.id, left.focus, left.step, left.cost_usd, left.seconds) == (
        session.id,
        "日本語の仕事",
        Step.REVIEW,
        1.5,
        60.0,
    )
    lines = look(status)
    assert row(lines, "Running").startswith("nothing: cuggino run (process 4194305) crashed.")
    assert row(lines, "Last") == "interrupted, 5m ago: 日本語の仕事"
    assert lines[-1] == f"  {session.id[:13]}  iteration 1, review  $1.50  日本語の仕事"


@pytest.mark.parametrize("spoiled", [b"", b"{", b"\xff\xfe\x00", b"[" * 100_000, b'{"items":{"a":1}}'])
def test_a_damaged_file_is_reported_and_the_rest_is_shown(project: Project, spoiled: bytes) -> None:
    (project.backlog / "a.md").write_text("do it")
    session = Session.create(project, "the work")
    for path in (project.lock_file, project.state_file, project.wip / f"{uuid7()}.json", project.logs / "x.jsonl"):
        path.write_bytes(spoiled)
    write_log(project, (session.id, start("the work")))
    status = gather(project)
    assert [item.name for item in status.backlog] == ["a.md"]
    assert [it.id for it in status.sessions] == [session.id]
    assert status.last is not None
    assert any("state.json" in problem for problem in status.problems)
    assert any("A session is left out" in problem for problem in status.problems)
    assert "\x1b" not in "".join(look(status))
    msgspec.json.encode(status)


def test_files_in_the_place_of_directories_are_reported_and_vice_versa(project: Project) -> None:
    for folder in (project.backlog, project.tbd, project.wip):
        folder.rmdir()
        folder.write_text("no folder")
    project.lock_file.mkdir()
    project.state_file.mkdir()
    (project.logs / "x.jsonl").mkdir()
    problems = gather(project).problems
    expected = (project.lock_file, project.backlog, project.tbd, project.state_file, project.logs / "x.jsonl")
    for path in expected:
        assert any(str(path) in problem for problem in problems), path


# ---- the page ---------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [20, 40, 80])
def test_lines_keep_to_the_width_and_names_cannot_play_tricks(project: Project, width: int) -> None:
    (project.backlog / "日本語日本語日本語\n\x1b[2J.md").write_text("long " * 100 + "\x1b[31m")
    (project.spec_issues / "x.md").write_text("\x07" * 10)
    lines = look(gather(project), width)
    assert "\x1b" not in "".join(lines)
    assert "\x07" not in "".join(lines)
    if width > 40:
        assert max(columns(line) for line in lines) <= width


def test_colours_are_the_page_s_own_and_each_line_stands_alone(project: Project) -> None:
    (project.spec_issues / "x.md").write_text("unclear")
    lines = render_status(gather(project), Page(80, colour=True))
    assert any("\x1b[1;31mx.md\x1b[0m" in line for line in lines)
    assert all(line.count("\x1b[0m") * 2 == line.count("\x1b[") for line in lines)


def test_a_wait_is_shown_with_its_reason_and_its_end(project: Project) -> None:
    with lock(project, "cuggino run", "marker"):
        until = NOW + timedelta(hours=1)
        write_log(
            project, ("s", start("x")), ("s", events.AgentWaiting(iteration=1, until=until, reason="usage limit\nmore"))
        )
        lines = look(gather(project, NOW))
    assert row(lines, "Now") == f"waiting, iteration 1, for 5m, until {until.astimezone():%H:%M:%S}: usage limit"


# ---- the guide --------------------------------------------------------------------------------

GUIDE = Path(__file__).parents[2] / "docs" / "how-to" / "see-what-is-going-on.md"


def test_the_guide_s_examples_are_what_the_program_prints() -> None:
    """Same keys, same order, allowed values: an example that is decoded and encoded is the same again."""
    status, session = re.findall(r"```jsonc\n(.*)\n```", GUIDE.read_text())
    assert msgspec.json.encode(msgspec.json.decode(status, type=Status)).decode() == status
    assert msgspec.json.encode(msgspec.json.decode(session, type=PastSession)).decode() == session


def test_the_guide_names_every_phase_state_and_outcome() -> None:
    text = GUIDE.read_text()
    states = get_args(get_type_hints(BacklogItem)["state"])
    assert [
        word
        for word in (*get_args(Phase), *get_args(JobPhase), *get_args(Outcome), *states, *Step)
        if f"`{word}`" not in text
    ] == []
