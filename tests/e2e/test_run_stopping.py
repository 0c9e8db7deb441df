"""Stopping a run with the real claude: in time, with nothing left alive, and `--resume` finishes the work."""

from __future__ import annotations

import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio

from tests.e2e.house import APPROVE, DONE, PLAN, ClaudeHouse, bash, claude_house
from tests.e2e.loopback import Say, Script, Stall, Turn, Wait, overloaded
from tests.process.house import Running

pytestmark = pytest.mark.e2e

RUN = ("run", "--focus", "the work")

LATEST = 4.0
"""Maximum seconds for stopping. The agent has 5 s; claude, stopped in its own way, needs less than two."""


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """A moment of a run: the event was printed `times` times, the model was asked `asked` times, the file exists."""

    event: str
    times: int = 1
    asked: int = 1
    file: str = "."
    scripts: Mapping[str, Sequence[Script]] = {}
    config: Mapping[str, Any] = {}
    add: Mapping[str, str] = {}
    plans: int = 1
    """How many planners have started when `--resume` has finished the work."""


def in_a_tool(command: str, *, role: str = "implementer", good: Script = DONE, **more: Any) -> Place:
    """While a command of claude's Bash runs, which is in a session of its own."""
    calls = 2 if role == "reviewer" else 1
    script: Script = [[bash(command, **more)], [Stall()]]
    return Place(event="ToolCall", times=calls, file="begun", scripts={role: [script, good]})


SLEEP = "touch begun; sleep 300"
STUBBORN = "trap '' INT TERM HUP QUIT; touch {project}/begun; sleep 300; : {canary}"
HIDDEN = f'cd /; env -i setsid bash -c "{STUBBORN}" > /dev/null 2>&1 < /dev/null'
SLOWLY: Turn = [block for n in range(300) for block in (Say(f"{n} … "), Wait(0.1))]
ONCE = "test -e begun || { : > begun; exec sleep 300; }"

PLACES = {
    "planning, while text comes": Place(
        event="ToolResult", asked=2, scripts={"planner": [[[bash("true")], SLOWLY], PLAN]}, plans=2
    ),
    "implementing, in a command": in_a_tool(SLEEP),
    "implementing, in one that hides and ignores signals": in_a_tool(HIDDEN),
    "implementing, with a task in the background": in_a_tool(STUBBORN, run_in_background=True),
    "reviewing": in_a_tool(SLEEP, role="reviewer", good=APPROVE),
    "in the check command": Place(event="PlanComplete", file="begun", config={"checkCommand": ONCE}),
    "between attempts of claude's own": Place(
        event="SystemMessage", times=3, scripts={"implementer": [[[overloaded()]], DONE]}
    ),
    "in a backoff": Place(
        event="AgentRetry", scripts={"implementer": [[[overloaded()]], DONE]}, add={"CLAUDE_CODE_MAX_RETRIES": "0"}
    ),
}


async def until_there(running: Running, place: Place, house: ClaudeHouse) -> None:
    await running.until(place.event, place.times)
    while len(house.server.requests) < place.asked or not (house.root / place.file).exists():  # noqa: ASYNC110
        await trio.sleep(0.01)


async def until_calm(house: ClaudeHouse) -> None:
    """After `kill -9` the keepers kill what is left within 3 s."""
    with trio.move_on_after(3):
        while house.left():  # noqa: ASYNC110 - processes that are not ours
            await trio.sleep(0.02)
    assert house.left() == []


async def finish(house: ClaudeHouse, plans: int) -> None:
    finished = await house.run("run", "--resume", "--json")
    assert finished.code == 0, finished.err
    assert finished.names[-1] == "LoopApproved"
    assert house.agents.count("planner") == plans
    assert "done" in (house.root / "work.txt").read_text()
    assert house.commits == ["The work\n"]
    assert house.wip == []
    assert house.left() == []


@pytest.mark.parametrize("where", PLACES)
async def test_ctrl_c_ends_a_run_wherever_it_is_and_resume_finishes_it(
    tmp_path: Path, claude_path: Path, where: str
) -> None:
    place = PLACES[where]
    scripts: Any = place.scripts
    with claude_house(tmp_path, claude_path, **scripts, commit=True, **place.config) as house, trio.fail_after(60):
        house.add |= place.add
        async with house.started(*RUN) as running:
            await until_there(running, place, house)
            assert house.left()
            running.send(signal.SIGINT)
            code, seconds = await running.end()
        assert code == -signal.SIGINT
        assert seconds < LATEST
        assert b"cuggino run --resume" in running.err
        assert house.left() == []
        (house.root / "begun").unlink(missing_ok=True)
        if "checkCommand" in place.config:
            (house.root / "begun").touch()
        await finish(house, place.plans)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
async def test_other_signals_leave_nothing_alive_either(
    tmp_path: Path, claude_path: Path, number: signal.Signals
) -> None:
    place = PLACES["implementing, in one that hides and ignores signals"]
    scripts: Any = place.scripts
    with claude_house(tmp_path, claude_path, **scripts, commit=True) as house, trio.fail_after(60):
        async with house.started(*RUN) as running:
            await until_there(running, place, house)
            running.send(number)
            code, seconds = await running.end()
            assert code == -number
            assert seconds < LATEST
            if number is signal.SIGKILL:
                await until_calm(house)
            assert house.left() == []
        (house.root / "begun").unlink()
        await finish(house, plans=1)


async def test_a_reader_that_goes_away_ends_the_run(tmp_path: Path, claude_path: Path) -> None:
    """`| grep -m1`, `| head -1`. cuggino notices although nothing more is printed."""
    place = in_a_tool(SLEEP)
    scripts: Any = place.scripts
    code = tmp_path / "code"
    run = f"{sys.executable} -m cuggino run --focus x; echo $? > {code}.new; mv {code}.new {code}"
    with claude_house(tmp_path, claude_path, **scripts, commit=True) as house, trio.fail_after(60):
        line = f"({run}) | grep -m1 sleep"
        seen = await trio.run_process(["bash", "-c", line], cwd=house.root, env=house.environment, capture_stdout=True)
        assert seen.stdout == b"\xe2\x96\xb6 Bash: touch begun; sleep 300\n"
        with trio.fail_after(LATEST):
            while not code.exists():  # noqa: ASYNC110 - a file of another process
                await trio.sleep(0.01)
        assert code.read_text() == "141\n"
        assert house.left() == []
        assert len(house.agents) == 2
