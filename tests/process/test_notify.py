"""`notify` in the configuration, with real programs: they cannot disturb the loop."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
import trio

from cuggino.events import LogLine, decode_log_line
from tests.process.house import AT_GATE, DONE, House, script, turn


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


def configure(house: House, code: str, *events: str) -> None:
    """Notify with a Python program; `reported` in it is a file in the project's root."""
    command = [sys.executable, "-c", f"import sys, time, pathlib; reported = pathlib.Path('reported')\n{code}"]
    write(house, command, *events)


def write(house: House, command: list[str], *events: str) -> None:
    config: dict[str, Any] = {"agent": "scripted", "notify": {"command": command, "events": list(events)}}
    (house.root / ".cuggino.json").write_text(json.dumps(config))


APPEND = "with reported.open('a') as file: file.write(sys.stdin.read())"


def reported(house: House) -> list[LogLine]:
    path = house.root / "reported"
    return [decode_log_line(line) for line in path.read_bytes().splitlines()] if path.exists() else []


def complaints(house: House) -> list[str]:
    texts = (getattr(line.event, "text", "") for line in house.logged())
    return [text for text in texts if "notify.command" in text]


async def test_the_program_gets_the_log_lines_of_the_configured_events(house: House) -> None:
    configure(house, APPEND, "PlanningStart", "LoopApproved")
    with trio.fail_after(30):
        done = await house.run("run", "-f", "it")
    assert done.code == 0
    lines = reported(house)
    assert [type(line.event).__name__ for line in lines] == ["PlanningStart", "LoopApproved"]
    logged = {(line.session, str(line.event)) for line in house.logged()}
    assert all((line.session, str(line.event)) in logged for line in lines)
    assert complaints(house) == []
    assert house.wip == []
    assert house.left() == []


async def test_a_program_that_ignores_signals_is_killed_two_seconds_after_the_loop(house: House) -> None:
    configure(house, "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN); time.sleep(60)", "PlanningStart")
    with trio.fail_after(30):
        async with house.started("run", "-f", "it") as running:
            await running.until("LoopApproved")
            code, seconds = await running.end()
    assert code == 0
    assert 1.5 < seconds < 6
    assert house.left() == []
    assert house.wip == []


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        (
            [sys.executable, "-c", "import sys; print('no bell\\nhere', file=sys.stderr); sys.exit(3)"],
            "it exited with 3: here.",
        ),
        (["no-such-bell"], "No such file or directory"),
    ],
)
async def test_the_first_failure_of_the_program_is_reported_with_its_reason(
    house: House, command: list[str], reason: str
) -> None:
    write(house, command, "PlanningStart", "ReviewingStart")
    with trio.fail_after(30):
        done = await house.run("run", "-f", "it")
    assert (done.code, done.err) == (0, "")
    (complaint,) = complaints(house)
    assert reason in complaint
    assert complaint in done.out


async def test_a_flood_does_not_slow_the_loop(house: House) -> None:
    notes = [{"do": "marker", "name": "NOTE", "text": str(number)} for number in range(2000)]
    house.play(script(implementer=[turn(*notes, *DONE, times=0)]))
    seconds = []
    for wanted in ("LoopFailed", "Note"):
        write(house, ["sh", "-c", "cat >> reported"], wanted)
        with trio.fail_after(60):
            begun = trio.current_time()
            async with house.started("run", "-f", "it") as running:
                await running.until("LoopApproved")
                seconds.append(trio.current_time() - begun)
                code, _ = await running.end()
        assert code == 0
        assert running.names.count("Note") == 2000
    without, flooded = seconds
    assert flooded < 4 * without + 4  # a hundredth of a second for each would be twenty
    contents = [int(line.event.content) for line in reported(house)]  # type: ignore[union-attr]
    assert 0 < len(contents) < 1000, "how many of them depends on the machine"
    assert contents == sorted(contents)
    assert len(complaints(house)) == 1
    assert "events were dropped" in complaints(house)[0]


async def test_the_program_and_its_children_are_stopped_with_the_loop(house: House) -> None:
    """After two Ctrl+C nothing waits for the program."""
    house.play(script(implementer=[turn(AT_GATE)]))
    write(house, ["sh", "-c", "setsid sleep 60 & touch ringing; sleep 60"], "ImplementingStart")
    with trio.fail_after(30):
        async with house.started("run", "-f", "it") as running:
            await house.at_gate()
            while not (house.root / "ringing").exists():  # noqa: ASYNC110 - a file of another process
                await trio.sleep(0.01)
            running.send(signal.SIGINT)
            while b"Stopping" not in running.err:  # noqa: ASYNC110 - two signals at once may be one
                await trio.sleep(0.01)
            running.send(signal.SIGINT)
            code, seconds = await running.end()
    assert code == -signal.SIGINT
    assert seconds < 2
    assert house.left() == []
