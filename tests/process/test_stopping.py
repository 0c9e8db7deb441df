"""A run that is stopped in any way ends on time with the right exit code, leaves no process, and can be resumed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.process.house import APPROVE, DONE, PLAN, House, Step, script, until_exists

RUN = ("run", "--focus", "the work")


SLEEP: Step = {"do": "run", "command": "sleep 300"}
"""A tool of the agent that runs for a long time in a session of its own, like claude's Bash."""


async def until_calm(house: House) -> None:
    """Wait for the last sweep of keepers, for at most the specified three seconds."""
    with trio.move_on_after(3):
        while house.left():  # noqa: ASYNC110 - processes that are not ours
            await trio.sleep(0.02)
    assert house.left() == []


def place(event: str, times: int = 1, /, config: dict[str, Any] | None = None, **roles: list[list[Step]]) -> Any:
    """What a run is doing when this event was printed for the nth time."""
    return event, times, config or {}, roles


ONCE = "test -e ran || { : > ran; exec sleep 300; }"  # exec, since dash may miss a SIGINT while it waits

PLACES = {
    "planning": place("AgentMessage", planner=[[{"do": "say", "text": "hm"}, {"do": "hang"}]]),
    "implementing": place("ToolCall", 2, implementer=[[SLEEP, *DONE]]),
    "reviewing": place("ToolCall", 3, reviewer=[[SLEEP, *APPROVE]]),
    "the check command": place("PlanComplete", config={"checkCommand": ONCE}),
    "the setup command": place("PlanComplete", config={"setupCommand": ONCE}),
    "a backoff": place("AgentRetry", implementer=[[{"do": "fail", "kind": "overloaded"}]]),
    "a usage limit": place("AgentWaiting", implementer=[[{"do": "fail", "kind": "usage-limit", "resetsIn": 3600}]]),
}


PRESSING = """
import os, runpy, signal, sys

name = sys.argv.pop(1)

def press():
    os.kill(os.getpid(), signal.SIGINT)

class OnImport:
    def find_spec(self, module, path=None, target=None):
        if module == name:
            press()

def on_call(frame, event, _argument):
    if event == "call" and frame.f_code.co_name == name:
        press()

sys.meta_path.insert(0, OnImport())
sys.setprofile(on_call)
runpy.run_module("cuggino", run_name="__main__", alter_sys=True)
"""
"""`cuggino`, with a Ctrl+C when the module or the function that its first argument names is imported or called."""


@pytest.mark.parametrize(
    ("command", "moments"),
    [
        (RUN, ("cuggino.main", "inspect", "trio", "cyclopts", "cuggino.cli.run", "cuggino.runtime", "handle_signals")),
        (("watch",), ("cuggino.main", "cuggino.cli.watch", "watchdog", "in_foreground", "handle_signals")),
        (("status",), ("cuggino.main", "cuggino.cli.app", "cuggino.cli.status", "load")),
    ],
)
async def test_ctrl_c_before_a_command_handles_signals_ends_it_silently(
    tmp_path: Path, command: tuple[str, ...], moments: tuple[str, ...]
) -> None:
    house = House(tmp_path)
    for moment in moments:
        done = await house.run(moment, *command, program=("-c", PRESSING))
        assert (moment, done.code, done.out, done.err) == (moment, -signal.SIGINT, "", "")
    assert house.left() == []


@pytest.mark.parametrize("where", PLACES)
async def test_ctrl_c_ends_a_run_at_once_at_any_step_and_resume_finishes_it(tmp_path: Path, where: str) -> None:
    event, times, config, roles = PLACES[where]
    house = House(tmp_path, play=script(**roles), commit=True, **config)
    with trio.fail_after(30):
        async with house.started(*RUN) as running:
            await running.until(event, times)
            if config:
                await until_exists(house.root / "ran")
            running.send(signal.SIGINT)
            code, seconds = await running.end()
        assert code == -signal.SIGINT
        assert seconds < 2.5
        assert house.left() == []
        assert any(name.endswith(".json") for name in house.wip)
        finished = await house.run("run", "--resume", "--json")
    assert finished.code == 0, finished.err
    assert finished.names.count("PlanningStart") == (1 if where == "planning" else 0)
    assert finished.names[-1] == "LoopApproved"
    assert house.wip == []
    assert "the rest" in (house.root / "work.txt").read_text()


async def test_an_agent_that_ignores_signals_is_killed_after_five_seconds_or_a_second_press(
    tmp_path: Path,
) -> None:
    stubborn = [{"do": "ignore-signals"}, {"do": "say", "text": "no"}, {"do": "hang"}]
    house = House(tmp_path, play=script(implementer=[stubborn, stubborn]))
    with trio.fail_after(40):
        async with house.started(*RUN) as running:
            await running.until("AgentMessage")
            running.send(signal.SIGINT)
            code, seconds = await running.end()
        assert (code, 5 <= seconds < 7) == (-signal.SIGINT, True)
        assert b"5 s" in running.err
        assert house.left() == []
        async with house.started("run", "--resume") as running:
            await running.until("AgentMessage")
            running.send(signal.SIGINT)
            await trio.sleep(0.5)  # presses that come together count as one
            running.send(signal.SIGINT)
            code, seconds = await running.end()
        assert (code, seconds < 2) == (-signal.SIGINT, True)
        assert house.left() == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
async def test_other_signals_interrupt_too_and_become_the_exit_status(tmp_path: Path, number: signal.Signals) -> None:
    house = House(tmp_path, play=script(implementer=[[SLEEP, *DONE]]))
    with trio.fail_after(20):
        async with house.started(*RUN) as running:
            await running.until("ToolCall", 2)
            running.send(number)
            code, seconds = await running.end()
    assert (code, seconds < 2.5) == (-number, True)
    assert house.left() == []


WAYS: list[dict[str, Any]] = [
    {},
    {"setsid": True},
    {"doubleFork": True, "setsid": True},
    {"setsid": True, "ignoreSignals": True},
    {"setsid": True, "doubleFork": True, "ignoreSignals": True, "emptyEnvironment": True},
    {"keepOutput": True},
]


def alive(pids: Path) -> list[int]:
    found = []
    for pid in map(int, pids.read_text().split()):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if state != "Z":
            found.append(pid)
    return found


@pytest.mark.parametrize("killed", [False, True], ids=["interrupted", "kill -9"])
async def test_processes_that_an_agent_left_are_killed_however_they_hide(tmp_path: Path, *, killed: bool) -> None:
    pids = tmp_path / "pids"
    leavings = [{"do": "leave", "pids": str(pids), **way} for way in WAYS]
    chain = {"do": "chain", "pids": str(tmp_path / "link")}
    house = House(tmp_path, play=script(implementer=[[*leavings, chain, {"do": "say", "text": "now"}, {"do": "hang"}]]))
    with trio.fail_after(30):
        async with house.started(*RUN) as running:
            await running.until("AgentMessage")
            assert len(alive(pids)) >= len(WAYS)
            running.send(signal.SIGKILL if killed else signal.SIGINT)
            code, _ = await running.end()
            assert code == -(signal.SIGKILL if killed else signal.SIGINT)
            if killed:
                await until_calm(house)
            assert house.left() == []
            assert alive(pids) == []
            assert alive(tmp_path / "link") == []


async def test_processes_that_an_agent_left_are_gone_before_the_next_one_starts(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    leavings = [{"do": "leave", "pids": str(pids), **way} for way in WAYS]
    house = House(tmp_path, play=script(implementer=[[*leavings, *DONE]]))
    with trio.fail_after(20):
        async with house.started(*RUN) as running:
            await running.until("ReviewingStart")
            assert alive(pids) == []
            assert await running.process.wait() == 0


async def test_after_kill_9_the_next_run_resumes_without_planning_again(tmp_path: Path) -> None:
    house = House(tmp_path, play=script(implementer=[[SLEEP, *DONE]]), commit=True)
    with trio.fail_after(30):
        async with house.started(*RUN) as running:
            await running.until("ToolCall", 2)
            running.send(signal.SIGKILL)
            await running.end()
        await until_calm(house)
        finished = await house.run("run", "--resume", "--json")
    assert finished.code == 0, finished.err
    assert "PlanningStart" not in finished.names
    assert house.wip == []


async def test_the_next_run_kills_what_killed_keepers_left(tmp_path: Path) -> None:
    house = House(tmp_path, play=script(implementer=[[SLEEP, *DONE]]))
    with trio.fail_after(30):
        async with house.started(*RUN) as running:
            await running.until("ToolCall", 2)
            running.kill_keepers()
            running.send(signal.SIGKILL)
            await running.end()
        assert house.left() != []
        await house.run("run", "--resume", "--json")
    assert house.left() == []


async def test_a_closed_stdout_ends_a_run_even_if_nothing_is_printed(tmp_path: Path) -> None:
    house = House(tmp_path, play=script(implementer=[[{"do": "say", "text": "go"}, {"do": "hang"}]]))
    command = f"{sys.executable} -m cuggino run --focus x; echo $? > {tmp_path}/c; mv {tmp_path}/c {tmp_path}/code"
    with trio.fail_after(20):
        await trio.run_process(
            ["bash", "-c", f"({command}) | head -1"], cwd=house.root, env=house.environment, capture_stdout=True
        )
        await until_exists(tmp_path / "code")
    assert (tmp_path / "code").read_text() == "141\n"
    assert house.left() == []


async def test_ctrl_c_stops_a_shell_loop_around_it(tmp_path: Path) -> None:
    """It ends by the signal itself: after an exit code of 130 the shell would continue its loop."""
    house = House(tmp_path, play=script(implementer=[[{"do": "say", "text": "go"}, {"do": "hang"}]]))
    loop = f"while :; do {sys.executable} -m cuggino run --focus x; done"
    with trio.fail_after(20):
        process = await trio.lowlevel.open_process(
            ["bash", "-c", loop],
            cwd=house.root,
            env=house.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        assert process.stdout is not None
        seen = b""
        try:
            while b"go" not in seen:
                seen += await process.stdout.receive_some()
            os.killpg(process.pid, signal.SIGINT)  # as the terminal does
            code = await process.wait()
        finally:
            if process.returncode is None:
                os.killpg(process.pid, signal.SIGKILL)
    assert code == -signal.SIGINT
    assert house.left() == []


async def test_nohup_stays_in_effect(tmp_path: Path) -> None:
    house = House(
        tmp_path, play=script(planner=[[{"do": "say", "text": "hm"}, {"do": "think", "seconds": 0.5}, *PLAN]])
    )
    with trio.fail_after(20):
        async with house.started(*RUN, under=("nohup",)) as running:
            await running.until("AgentMessage")
            running.send(signal.SIGHUP)
            code, _ = await running.end()
    assert code == 0
