"""`cuggino status` and `cuggino log` beside real runs and watches, after them, and where there was none."""

from __future__ import annotations

import json
import os
import pty
import shlex
import signal
import subprocess
import sys
import termios
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trio

from cuggino.clock import uuid7
from cuggino.events import AgentMessage, LogLine, LoopApproved, LoopStart, WatchBacklogWaiting, WatchItemCompleted
from cuggino.output.jsonlines import encode
from cuggino.project import Project
from tests.process.house import AT_GATE, COMMAND, DONE, PROGRESS, House, script

RUN = ("run", "--focus", "日本語の仕事")


@pytest.fixture(name="house")
def _house(tmp_path: Path) -> Iterator[House]:
    house = House(tmp_path, commit=True)
    yield house
    assert house.left() == []


def at_gate(**more: Any) -> dict[str, Any]:
    """The first implementer waits at the gate after its first task."""
    return script(implementer=[PROGRESS, (AT_GATE, *DONE)], **more)


async def reported(house: House) -> dict[str, Any]:
    """What `cuggino status --json` says."""
    done = await house.run("status", "--json")
    assert (done.code, done.err) == (0, "")
    found = json.loads(done.out)
    assert isinstance(found, dict)
    return found


async def sessions(house: House) -> list[dict[str, Any]]:
    """What `cuggino log --json` lists."""
    done = await house.run("log", "--json")
    assert (done.code, done.err) == (0, "")
    return [json.loads(line) for line in done.out.splitlines()]


def tree(root: Path) -> dict[str, tuple[int, int]]:
    """Every file of a project's state, with its size and when it was last changed."""
    return {str(path): (path.stat().st_size, path.stat().st_mtime_ns) for path in root.rglob("*")}


async def test_reading_changes_nothing(house: House) -> None:
    with trio.fail_after(60):
        assert (await house.run(*RUN)).code == 0
        before = tree(house.state)
        for words in (("status",), ("log",), ("log", "--follow")):
            assert (await house.run(*words)).code == 0
    assert tree(house.state) == before


# ---- status -----------------------------------------------------------------------------------


async def test_status_and_log_of_an_unused_directory_create_nothing(tmp_path: Path) -> None:
    house = House(tmp_path)
    with trio.fail_after(30):
        status, log, follow = [await house.run(*words) for words in (("status",), ("log",), ("log", "--follow"))]
    assert (status.code, status.err) == (0, "")
    assert "nothing" in status.out
    assert (log.code, log.out) == (0, "The logs are empty.\n")
    assert (follow.code, follow.out) == (2, "")
    assert "no log" in follow.err
    assert not house.state.exists()


async def test_status_shows_a_run_in_progress(house: House) -> None:
    house.play(at_gate())
    with trio.fail_after(60):
        async with house.started(*RUN) as run:
            await house.at_gate()
            found = await reported(house)
            page = (await house.run("status")).out.splitlines()
            house.open_gate()
            assert (await run.end())[0] == 0
        after = await reported(house)
    assert found["holder"] | {"since": None} == {
        "pid": run.process.pid,
        "command": "cuggino run",
        "since": None,
        "lives": True,
    }
    (job,) = found["work"]["jobs"]
    assert (job["phase"], job["focus"], job["iteration"], job["maxIterations"]) == (
        "implementing",
        "日本語の仕事",
        1,
        10,
    )
    assert found["sessions"] == []
    assert found["problems"] == []
    assert any(line.startswith("Working on  日本語の仕事") for line in page)
    assert any(line.startswith("Now         implementing, iteration 1/10") for line in page)
    assert (after["holder"], after["work"]) == (None, None)
    assert (after["last"]["outcome"], after["last"]["tasks"]) == ("approved", 2)


async def test_status_shows_a_watch_in_progress_with_its_backlog(house: House) -> None:
    house.play(at_gate())
    house.item("1-日本.md", "# The first\n")
    house.item("2-empty.md", "")
    house.item("3-next.md", "# The next\n")
    with trio.fail_after(60):
        async with house.watching() as watch:
            await house.at_gate()
            working = await reported(house)
            (house.state / "spec-issues" / "mine.md").write_text("unclear\n")
            behind = await reported(house)
            house.open_gate()
            await watch.until("WatchSpecIssueWaiting")
            waiting = await reported(house)
            watch.send(signal.SIGINT)
            await watch.end()
    assert [job["backlogFile"] for job in working["work"]["jobs"]] == ["1-日本.md"]
    assert [(it["name"], it["title"], it["state"]) for it in working["backlog"]] == [
        ("1-日本.md", "The first", "working"),
        ("2-empty.md", "(empty)", "blocked"),
        ("3-next.md", "The next", "ready"),
    ]
    assert behind["specIssues"] == [{"name": "mine.md", "title": "unclear"}]
    assert [it["state"] for it in behind["backlog"]] == ["working", "blocked", "behind-spec-issue"]
    assert (waiting["work"]["phase"], waiting["work"]["completed"]) == ("waiting-for-spec-issues", 1)
    assert waiting["work"]["jobs"] == []


async def test_a_killed_run_is_shown_as_crashed_and_its_session_as_interrupted(house: House) -> None:
    house.play(at_gate())
    with trio.fail_after(60):
        async with house.started(*RUN) as run:
            await house.at_gate()
            run.send(signal.SIGKILL)
            await run.end()
        found = await reported(house)
        (session,) = await sessions(house)
        house.open_gate()
        assert (await house.run("run", "--resume")).code == 0
        (resumed,) = await sessions(house)
    assert found["holder"]["lives"] is False
    assert found["work"] is None
    assert [it["id"] for it in found["sessions"]] == [session["id"]]
    assert (found["last"]["outcome"], session["outcome"], session["focus"]) == (
        "interrupted",
        "interrupted",
        "日本語の仕事",
    )
    assert (resumed["id"], resumed["outcome"], len(resumed["logs"])) == (session["id"], "approved", 2)


async def test_damaged_files_are_reported_and_the_rest_is_shown(house: House) -> None:
    project = Project(house.root)
    project.prepare()
    house.item("a.md")
    for path in (project.lock_file, project.state_file, project.wip / "x.json", project.logs / "x.jsonl"):
        path.write_bytes(b'{"\xff')
    with trio.fail_after(30):
        status, log = await house.run("status"), await house.run("log")
    assert (status.code, status.err, log.code, log.err) == (0, "", 0, "")
    assert "a.md" in status.out
    for problem in ("state.json is damaged", "A session is left out"):
        assert problem in status.out


# ---- log --------------------------------------------------------------------------------------


async def test_a_replay_is_what_was_shown_live(house: House) -> None:
    with trio.fail_after(60):
        run = await house.run(*RUN)
        (session,) = await sessions(house)
        shown = await house.run("log", session["id"][:13])
        (lines,) = [await house.run("log", session["logs"][0], "--json")]
        listed = await house.run("log")
    live, summary, _ = run.out.partition("\nOutcome ")
    assert summary
    assert shown.out == live
    (log,) = (house.state / "logs").iterdir()
    assert lines.out == log.read_text()
    assert listed.out.splitlines()[1].split()[0] == session["id"][:13]
    assert listed.out.endswith("日本語の仕事\n")


async def test_one_of_several_sessions_in_a_log_is_replayed_alone(house: House) -> None:
    house.item("1.md")
    house.item("2.md")
    with trio.fail_after(60):
        assert (await house.watch_until_idle()).code == 0
        second, first = await sessions(house)
        shown = await house.run("log", first["id"], "--json")
    assert [(it["backlogFile"], it["outcome"]) for it in (first, second)] == [
        ("1.md", "approved"),
        ("2.md", "approved"),
    ]
    assert first["logs"] == second["logs"]
    assert shown.names[0] == "LoopStart"
    assert shown.names[-1] == "LoopApproved"
    assert {json.loads(line)["session"] for line in shown.out.splitlines()} == {first["id"]}


async def test_a_running_run_is_followed_to_its_end(house: House) -> None:
    house.play(at_gate())
    with trio.fail_after(60):
        async with house.started(*RUN) as run:
            await house.at_gate()
            (session,) = await sessions(house)
            async with (
                house.started("log", "--follow") as all_of_it,
                house.started("log", "--follow", session["id"]) as one,
            ):
                for follower in (all_of_it, one):
                    await follower.until("ImplementingStart", 2)
                assert "LoopApproved" not in all_of_it.names
                house.open_gate()
                assert (await run.end())[0] == 0
                codes = [(await follower.end())[0] for follower in (all_of_it, one)]
    assert session["outcome"] == "running"
    assert codes == [0, 0]
    reported = [event for event in run.events if type(event).__name__ != "PingEvent"]
    assert all_of_it.events == reported
    assert one.events == reported


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
async def test_following_ends_when_the_run_is_killed_or_by_ctrl_c_and_then_the_run_continues(
    house: House, number: signal.Signals
) -> None:
    house.play(at_gate())
    with trio.fail_after(60):
        async with house.started(*RUN) as run:
            await house.at_gate()
            async with house.started("log", "--follow") as follower:
                await follower.until("ImplementingStart", 2)
                (run if number is signal.SIGKILL else follower).send(number)
                code, seconds = await follower.end()
            assert (code, follower.err) == (0 if number is signal.SIGKILL else -signal.SIGINT, b"")
            assert seconds < 5
            house.open_gate()
            assert (await run.end())[0] == (-signal.SIGKILL if number is signal.SIGKILL else 0)


def write_log(house: House, *lines: LogLine, torn: bytes = b"") -> Path:
    project = Project(house.root)
    project.prepare()
    path = project.logs / f"{uuid7()}.jsonl"
    path.write_bytes(encode(lines) + torn)
    return path


AT = "2026-11-21T22:00:00.000Z"
PAST = (
    LogLine(at=AT, session=None, event=WatchBacklogWaiting()),
    LogLine(at=AT, session="s", event=LoopStart(iteration=1, focus="日本", backlog_file=None, resumed=False)),
    LogLine(at=AT, session="s", event=AgentMessage(text="日本語" * 30)),
    LogLine(at=AT, session="s", event=LoopApproved(iteration=1)),
    LogLine(at=AT, session=None, event=WatchItemCompleted(filename="日本.md")),
)


async def test_an_incomplete_last_line_and_an_unknown_event_are_skipped(house: House) -> None:
    later = b'{"at":"x","session":"s","event":{"_tag":"FromTheFuture"}}\n'
    log = write_log(house, *PAST, torn=later + encode(PAST)[:-20])
    with trio.fail_after(30):
        shown = await house.run("log", log.stem)
        lines = await house.run("log", "s", "--json")
    assert (shown.code, shown.err) == (0, "")
    assert shown.out.count("[Loop] Approved") == 2
    assert shown.out.count("Completed") == 1
    assert len(lines.out.splitlines()) == 7
    assert "FromTheFuture" in lines.out


async def on_a_terminal(house: House, *arguments: str, **environment: str) -> str:
    """What a terminal of 40 columns gets."""
    master, slave = pty.openpty()
    try:
        termios.tcsetwinsize(slave, (24, 40))
        await trio.run_process(
            [sys.executable, *COMMAND, *arguments],
            cwd=house.root,
            env=house.environment | environment,
            stdin=subprocess.DEVNULL,
            stdout=slave,
        )
        os.set_blocking(master, False)
        return os.read(master, 1 << 16).decode()
    finally:
        os.close(master)
        os.close(slave)


async def test_on_a_terminal_there_is_colour_but_neither_a_status_line_nor_a_bell(house: House) -> None:
    log = write_log(house, *PAST)
    with trio.fail_after(30):
        shown = await on_a_terminal(house, "log", log.stem)
        status = await on_a_terminal(house, "status")
        plain = await on_a_terminal(house, "status", NO_COLOR="1") + await on_a_terminal(house, "log", NO_COLOR="1")
    assert "\x1b[1;32m[Loop] Approved in iteration 1\x1b[0m" in shown
    for text in (shown, status):
        assert "\x1b[" in text
        assert "\x1b[K" not in text
        assert "\a" not in text
    assert "\x1b" not in plain


async def test_a_closed_pipe_ends_the_command_quietly(house: House) -> None:
    log = write_log(house, *PAST * 5000)
    with trio.fail_after(30):
        words = shlex.join([sys.executable, *COMMAND, "log", log.stem])
        done = await trio.run_process(
            ["sh", "-c", f"{{ {words}; echo $? >&2; }} | head -1"],
            cwd=house.root,
            env=house.environment,
            capture_stdout=True,
            capture_stderr=True,
        )
    assert done.stderr == b"141\n"
    assert done.stdout.count(b"\n") == 1
