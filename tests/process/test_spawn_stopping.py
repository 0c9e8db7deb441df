"""Spawns that are stopped by timeouts, signals or kill -9 keep their work and leave no processes behind."""

from __future__ import annotations

import os
import signal
import sys
from datetime import datetime
from pathlib import Path

import pytest
import trio

from cuggino.events import LogLine, SpawnCompleted
from tests.process.house import Running, Step, turn
from tests.process.spawn_house import HELD, WORK, SpawnHouse, tasks

STRAY: Step = {"do": "leave", "setsid": True, "doubleFork": True, "ignoreSignals": True}
BEGUN: tuple[Step, ...] = (
    {"do": "write", "path": "begun.txt", "text": "a part\n"},
    {"do": "say", "text": "I have begun."},
    STRAY,
)
REST: tuple[Step, ...] = (
    {"do": "read", "path": "begun.txt"},
    {"do": "append", "path": "begun.txt", "text": "the rest\n"},
    {"do": "say", "text": "Finished."},
)
AFTER = turn(*REST, when={"resumed": True, "exists": "begun.txt"})


def _kept(house: SpawnHouse) -> dict[str, str]:
    """Assert that the work so far is on the branch and no process is left. Return the report."""
    assert house.left() == []
    report = house.report
    assert f"**Branch:** {house.branch}" in report[""]
    assert report["Changes"] == "- `begun.txt` (+1, -0) - new"
    assert house.shown(f"{house.branch}:begun.txt") == "a part\n"
    assert f"cuggino spawn retry {house.spawned.name}" in report["What went wrong"]
    assert [path.name for path in house.spawned.glob(".*")] == []
    return report


async def _ends_well(house: SpawnHouse) -> None:
    """Assert that `retry` resumes in the same sandbox and, if the agent had begun, in the same conversation."""
    before = house.sandboxes
    await house.retry()
    assert house.shown(f"{house.branch}:begun.txt") == "a part\nthe rest\n"
    assert house.names.count("SandboxCreated") == 1
    assert len(before) == 1
    assert len(house.spawns) == 1
    assert house.left() == []


# ---- timeouts ---------------------------------------------------------------------------------


async def test_a_silent_agent_is_stopped(tmp_path: Path) -> None:
    house = SpawnHouse(tmp_path, tasks((*BEGUN, {"do": "hang"}), AFTER))
    await house.spawn(*house.given(), "--idle-timeout", "2", code=5)
    report = _kept(house)
    assert "**Status:** Stopped: silent for too long" in report[""]
    assert "silent for 2 s (--idle-timeout)" in report["What went wrong"]
    assert report["The agent's last lines"].splitlines()[-2:] == ["I have begun.", "```"]
    assert (
        "stopped at --idle-timeout: resume it with `cuggino spawn retry ID`" in (await house.run("spawn", "list")).out
    )
    await _ends_well(house)


async def test_a_running_tool_counts_as_activity(tmp_path: Path) -> None:
    house = SpawnHouse(tmp_path, tasks(({"do": "run", "command": "sleep 3"}, *WORK)))
    await house.spawn(*house.given(), "--idle-timeout", "2")


async def test_the_total_time_is_half_for_a_simple_task_and_ends_a_tool(tmp_path: Path) -> None:
    last: Step = {"do": "say", "text": "\n".join(map(str, range(60)))}
    house = SpawnHouse(tmp_path, tasks((*BEGUN, last, {"do": "run", "command": "sleep 600"})))
    await house.spawn(*house.given(complexity="low"), "--total-timeout", "6", "--idle-timeout", "2", code=5)
    report = _kept(house)
    assert "**Status:** Stopped: took too long" in report[""]
    lines = report["The agent's last lines"].splitlines()[1:-1]
    assert len(lines) == 50
    assert "▶ Bash" in lines[lines.index("59") :]
    assert 2.9 < _worked(house.log) < 6


def _worked(lines: list[LogLine]) -> float:
    """Return the seconds between the events LLMStarted and LLMCompleted."""
    times = {type(line.event).__name__: datetime.fromisoformat(line.at) for line in lines}
    return (times["LLMCompleted"] - times["LLMStarted"]).total_seconds()


async def test_an_agent_that_ignores_signals_is_stopped(tmp_path: Path) -> None:
    house = SpawnHouse(tmp_path, tasks(({"do": "ignore-signals"}, *BEGUN, {"do": "hang"})))
    await house.spawn(*house.given(), "--idle-timeout", "2", code=5)
    _kept(house)


# ---- signals ----------------------------------------------------------------------------------


async def _stopped(running: Running, number: signal.Signals = signal.SIGINT) -> None:
    running.send(number)
    code, seconds = await running.end()
    assert code == -number, running.err
    assert seconds < 6
    completed = running.events[-1]
    assert isinstance(completed, SpawnCompleted)
    assert (completed.status, completed.exit_code) == ("interrupted", 128 + number)


async def test_ctrl_c_during_the_evaluation(tmp_path: Path) -> None:
    play = tasks((*BEGUN, *REST), evaluator=[turn(STRAY, HELD)])
    house = SpawnHouse(tmp_path, play)
    async with house.spawning() as running:
        await house.held()
        await _stopped(running)
    house.release()
    assert house.left() == []
    report = house.report
    assert "**Status:** Interrupted" in report[""]
    assert "**Branch:**" not in report[""]
    assert house.sandboxes == []
    await house.retry()
    assert house.shown(f"{house.branch}:begun.txt") == "a part\nthe rest\n"


async def test_ctrl_c_during_the_setup_command(tmp_path: Path) -> None:
    held = f"{HELD['command']}; echo set up > begun.txt"
    house = SpawnHouse(tmp_path, tasks(BEGUN), setupCommand=held)
    async with house.spawning(*house.given()) as running:
        await house.held()
        await _stopped(running)
    assert house.left() == []
    house.release()
    (house.root / ".cuggino.json").write_text('{"agent": "scripted", "setupCommand": "echo set up > set-up.txt"}')
    await house.retry()
    assert house.shown(f"{house.branch}:set-up.txt") == "set up\n"
    assert house.shown(f"{house.branch}:begun.txt") == "a part\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
async def test_a_signal_while_the_agent_works(tmp_path: Path, number: signal.Signals) -> None:
    house = SpawnHouse(tmp_path, tasks((*BEGUN, HELD), AFTER))
    before = house.snapshot()
    async with house.spawning(*house.given()) as running:
        await house.held()
        await _stopped(running, number)
    house.release()
    report = _kept(house)
    assert "**Status:** Interrupted" in report[""]
    assert house.snapshot() == before
    assert len(house.sandboxes) == 1
    if number is signal.SIGINT:
        await _ends_well(house)


@pytest.mark.parametrize(("presses", "limit"), [(1, 8), (2, 4)])
async def test_a_second_ctrl_c_does_not_wait_for_an_agent_that_ignores_the_first(
    tmp_path: Path, presses: int, limit: float
) -> None:
    house = SpawnHouse(tmp_path, tasks(({"do": "ignore-signals"}, *BEGUN, {"do": "hang"})))
    async with house.spawning(*house.given()) as running:
        await running.until("AgentMessage")
        running.send(signal.SIGINT)
        if presses == 2:
            while b"Ctrl+C again" not in running.err:  # noqa: ASYNC110 - another process
                await trio.sleep(0.02)
            running.send(signal.SIGINT)
        code, seconds = await running.end()
    assert code == -signal.SIGINT
    assert seconds < limit
    _kept(house)


async def test_ctrl_c_during_the_check_of_a_merge(tmp_path: Path) -> None:
    house = SpawnHouse(tmp_path, tasks((*BEGUN, {"do": "say", "text": "It is all."})), checkCommand=HELD["command"])
    before = house.snapshot()
    async with house.spawning(*house.given(), "--integrate", "merge") as running:
        await house.held()
        await _stopped(running)
    house.release()
    _kept(house)
    assert house.snapshot() == before
    (house.root / ".cuggino.json").write_text('{"agent": "scripted", "checkCommand": "test -e begun.txt"}')
    await house.retry()
    assert (house.root / "begun.txt").read_text() == "a part\n"
    assert house.names.count("LLMStarted") == 1
    assert house.branches == ["main"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
async def test_a_stopped_merge_is_not_taken_for_the_agents_work(tmp_path: Path, number: signal.Signals) -> None:
    gone = "test ! -e $HOME/agent || { " + str(HELD["command"]) + "; }"
    steps = (*BEGUN, {"do": "run", "command": "touch $HOME/agent; until test -e $HOME/moved; do sleep 0.02; done"})
    house = SpawnHouse(tmp_path, tasks(steps), checkCommand=gone)
    async with house.spawning(*house.given(), "--integrate", "merge") as running:
        await running.until("ToolCall", 2)
        (house.root / "list.txt").write_text("the person's\n")
        house.commit("meanwhile")
        (house.home / "moved").touch()
        await house.held()
        assert (house.sandboxes[0] / "list.txt").read_text() == "the person's\n"
        running.send(number)
        code, _ = await running.end()
    assert code == -number
    house.release()
    if number is signal.SIGINT:
        _kept(house)
        assert house.git("log", "--format=%s", "main~1..", house.branch, "--not", "main") == "Do the work.\n"
    (house.root / ".cuggino.json").write_text('{"agent": "scripted"}')
    await house.retry()
    assert (house.root / "begun.txt").read_text() == "a part\n"
    assert house.git("log", "-m", "--first-parent", "--format=", "--name-only", "-1", "main").split() == ["begun.txt"]
    second = house.git("rev-parse", "main^2").strip()
    assert house.git("diff-tree", "-r", "--no-commit-id", "--name-only", second).split() == ["begun.txt"]


# ---- an agent that fails ----------------------------------------------------------------------


@pytest.mark.parametrize("end", [{"do": "fail", "kind": "execution"}, {"do": "die"}, {"do": "fail", "kind": "bad-key"}])
async def test_the_work_of_a_failed_agent_is_kept(tmp_path: Path, end: Step) -> None:
    house = SpawnHouse(tmp_path, tasks((*BEGUN, end), AFTER))
    await house.spawn(*house.given(), code=1)
    report = _kept(house)
    assert "**Status:** Failed" in report[""]
    await _ends_well(house)


# ---- kill -9 ----------------------------------------------------------------------------------


@pytest.mark.parametrize("cleaner", ["the keepers", "spawn", "watch"])
async def test_after_a_kill_the_keepers_or_the_next_command_stop_what_is_left(tmp_path: Path, cleaner: str) -> None:
    house = SpawnHouse(tmp_path, tasks((*BEGUN, HELD), AFTER))
    async with house.spawning(*house.given()) as running:
        await running.until("ToolCall", 2)
        if cleaner != "the keepers":
            running.kill_keepers()
        running.send(signal.SIGKILL)
        await running.end()
    if cleaner == "the keepers":
        with trio.fail_after(5):
            while house.left():  # noqa: ASYNC110 - another process
                await trio.sleep(0.05)
    else:
        assert house.left() != []
    listed = (await house.run("spawn", "list")).out
    assert "interrupted: resume it with `cuggino spawn retry ID`" in listed
    if cleaner == "watch":
        async with house.watching() as watch:
            await watch.until("WatchIdle")
            assert [it for it in house.left() if "quick_watch" not in it] == []
    await _ends_well(house)
    assert [path.name for path in house.spawned.glob(".*")] == []


async def test_killed_while_the_sandbox_is_made(tmp_path: Path) -> None:
    house = SpawnHouse(tmp_path, tasks((*BEGUN, *REST)))
    tools = tmp_path / "tools"
    tools.mkdir()
    slow = tools / "git"
    slow.write_text(f'#!/bin/sh\ncase "$*" in *read-tree*) {HELD["command"]};; esac\nPATH=${{PATH#*:}} exec git "$@"\n')
    slow.chmod(0o755)
    path = f"{tools}:{os.environ['PATH']}"
    process = await trio.lowlevel.open_process(
        [sys.executable, "-m", "cuggino", "spawn", "Do it.", *house.given()],
        cwd=house.root,
        env={**house.environment, "PATH": path},
    )
    await house.held()
    process.kill()
    await process.wait()
    house.release()
    await house.retry()
    assert house.shown(f"{house.branch}:begun.txt") == "a part\nthe rest\n"
    house.git("fsck", "--strict")


async def test_killed_while_the_sandbox_is_removed(tmp_path: Path) -> None:
    """The branch was to stay. `retry` does not take a half-deleted folder for the agent's work."""
    house = SpawnHouse(tmp_path, tasks(({"do": "write", "path": "list.txt", "text": "agent\n"},)))
    (house.root / "list.txt").write_text("in the way of the merge\n")
    await house.spawn(*house.given(), "--integrate", "merge", code=1)
    tip = house.git("rev-parse", house.branch)
    record = house.spawned / "sandbox.json"
    record.write_text(record.read_text().replace('"worked"', '"removing"'))
    (house.sandboxes[0] / "list.txt").unlink()
    again = await house.retry(code=1)
    assert "The sandbox does not exist any more" in again.out
    assert f"Its work is on the branch {house.branch}." in again.out
    assert house.git("rev-parse", house.branch) == tip
    assert house.sandboxes == []
    assert house.left() == []
