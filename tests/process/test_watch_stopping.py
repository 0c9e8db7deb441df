"""A watch that is stopped at any point ends on time and leaves no process; the next watch resumes its work."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import msgspec
import pytest
import trio

from cuggino.events import (
    WatchAuditInterrupted,
    WatchEnded,
    WatchItemCompleted,
    WatchLoopEvent,
    WatchStopping,
    WatchValidationFailed,
    WatchValidationPassed,
)
from tests.process.house import AT_GATE, PLAN, House, Running, Step, quick_watch, script, turn, until_exists

DONE: Step = {"do": "marker", "name": "DONE", "text": "nothing to change"}
HANG: Sequence[Step] = ({"do": "say", "text": "here"}, {"do": "hang"})
STRAY: Step = {"do": "leave", "setsid": True, "doubleFork": True, "ignoreSignals": True}
STUBBORN: Sequence[Step] = (STRAY, {"do": "ignore-signals"}, *HANG)
AT_GATE_ONCE = "test -e was || { touch was gate; while test -e gate; do sleep 0.02; done; }"
"""As AT_GATE, but a second run of the command ends at once."""

SIGINT = -signal.SIGINT
PROMPT = 2.5
"""Seconds that ending may take if no agent uses its five seconds."""


def stopping(stage: Literal["drain", "interrupt", "kill"], active: int) -> WatchStopping:
    return WatchStopping(stage=stage, active=active)


def interrupted(completed: int = 0, exit_code: int = 130) -> WatchEnded:
    return WatchEnded(reason="interrupted", completed=completed, exit_code=exit_code)


class Place(msgspec.Struct, kw_only=True):
    """What a watch is doing when it is stopped."""

    roles: dict[str, Any] = {}
    config: dict[str, Any] = {}
    intervals: dict[str, Any] = {}
    item: bool = True
    reached: Callable[[House, Running], Awaitable[None]]
    works: bool = False
    """Whether it runs an item or a validation, which a first press does not end."""
    active: int = 0
    planned: bool = False
    """Whether the item is planned."""


def until(event: str, times: int = 1) -> Callable[[House, Running], Awaitable[None]]:
    async def reached(_house: House, running: Running) -> None:
        await running.until(event, times)

    return reached


async def at_gate(house: House, _running: Running) -> None:
    await house.at_gate()


async def changed_while_waiting(house: House, running: Running) -> None:
    await running.until("WatchIdle")
    house.item("a.md")


LOST: Sequence[Step] = ({"do": "say", "text": "I am lost."},)
PLACES = {
    "waiting": Place(item=False, reached=until("WatchIdle")),
    "debouncing": Place(item=False, intervals={"debounce": 60}, reached=changed_while_waiting),
    "auditing": Place(
        item=False, config={"audit": True}, roles={"audit": [[STRAY, *HANG]]}, reached=until("AgentMessage")
    ),
    "backing off after a failure": Place(
        config={"limits": {"nudges": 0}},
        intervals={"item_retries": [60]},
        roles={"implementer": [LOST]},
        reached=until("WatchItemFailed"),
        planned=True,
    ),
    "backing off from a provider that is overloaded": Place(
        roles={"implementer": [[{"do": "fail", "kind": "overloaded"}]]}, reached=until("AgentRetry"), planned=True
    ),
    "waiting for a provider that stays overloaded": Place(
        config={"limits": {"retries": 0}},
        intervals={"provider_pauses": [60]},
        roles={"implementer": [[{"do": "fail", "kind": "overloaded"}]]},
        reached=until("AgentWaiting"),
        planned=True,
    ),
    "planning": Place(roles={"planner": [[AT_GATE, *PLAN]]}, reached=at_gate, works=True, active=1),
    "implementing": Place(
        roles={"implementer": [[STRAY, AT_GATE, DONE]]}, reached=at_gate, works=True, active=1, planned=True
    ),
    "a check command": Place(
        config={"checkCommand": AT_GATE_ONCE, "validateCommand": "true"},
        reached=at_gate,
        works=True,
        active=1,
        planned=True,
    ),
    "validating": Place(config={"validateCommand": AT_GATE_ONCE}, reached=at_gate, works=True),
}


@asynccontextmanager
async def at(place: Place, folder: Path, *arguments: str) -> AsyncIterator[tuple[House, Running]]:
    """A watch that does this. After the block, no process of it is alive."""
    good: dict[str, Any] = {"implementer": [turn(DONE, times=0)]}
    for role, turns in place.roles.items():
        good[role] = [*turns, *good.get(role, ())]
    house = House(folder, play=script(**good), **place.config)
    if place.item:
        house.item("a.md", "precious")
    with trio.fail_after(30):
        async with house.watching("--validate-every", "1", *arguments, **place.intervals) as running:
            await place.reached(house, running)
            yield house, running
    assert house.left() == []


def after_the_press(running: Running) -> list[WatchLoopEvent]:
    """The watch's events from the first press on."""
    names = [type(event) for event in running.reported]
    return running.reported[names.index(WatchStopping) :]


async def assert_resumes(house: House, place: Place) -> None:
    """Assert that a new watch finishes the item, without planning again if it was planned."""
    assert (house.backlog / "a.md").exists()
    with trio.fail_after(20):
        finished = await house.watch_until_idle()
    assert finished.code == 0, finished.err
    assert WatchItemCompleted(filename="a.md") in finished.events
    assert ("PlanningStart" in finished.names) == (not place.planned)
    assert [name for name, _ in house.archived] == ["a.md"]
    assert house.wip == []


@pytest.mark.parametrize("where", [name for name, place in PLACES.items() if not place.works])
async def test_one_press_ends_every_wait_at_once(tmp_path: Path, where: str) -> None:
    place = PLACES[where]
    async with at(place, tmp_path) as (house, running):
        running.send(signal.SIGINT)
        code, seconds = await running.end()
    assert (code, seconds < PROMPT) == (SIGINT, True)
    audit = [WatchAuditInterrupted()] if where == "auditing" else []
    assert sorted(map(repr, after_the_press(running)[:-1])) == sorted(map(repr, [stopping("drain", 0), *audit]))
    assert running.reported[-1] == interrupted()
    if place.planned:
        await assert_resumes(house, place)


@pytest.mark.parametrize("where", ["planning", "implementing", "a check command"])
async def test_one_press_lets_the_running_item_finish(tmp_path: Path, where: str) -> None:
    async with at(PLACES[where], tmp_path) as (house, running):
        house.item("b.md")
        running.send(signal.SIGINT)
        await running.until("WatchStopping")
        house.open_gate()
        code, _ = await running.end()
    assert code == SIGINT
    reported = [event for event in after_the_press(running) if "Validation" not in type(event).__name__]
    assert reported == [stopping("drain", 1), WatchItemCompleted(filename="a.md"), interrupted(1)]
    assert ("WatchValidationPassed" in running.names) == (where == "a check command")
    assert house.archived == [("a.md", "precious")]
    assert [path.name for path in house.backlog.iterdir()] == ["b.md"]


@pytest.mark.parametrize("exit_code", [0, 7])
async def test_one_press_during_a_validation_waits_for_it(tmp_path: Path, exit_code: int) -> None:
    place = msgspec.structs.replace(
        PLACES["validating"], config={"validateCommand": f"{AT_GATE_ONCE}; exit {exit_code}"}
    )
    async with at(place, tmp_path) as (house, running):
        running.send(signal.SIGINT)
        await running.until("WatchStopping")
        house.open_gate()
        code, _ = await running.end()
    if exit_code == 0:
        expected: list[WatchLoopEvent] = [WatchValidationPassed(completed=1), interrupted(1)]
    else:
        expected = [
            WatchValidationFailed(completed=1, output="", exit_code=7),
            WatchEnded(reason="validation-failed", completed=1, exit_code=1),
        ]
    assert code == (SIGINT if exit_code == 0 else 1)
    assert after_the_press(running) == [stopping("drain", 0), *expected]


@pytest.mark.parametrize("where", [name for name, place in PLACES.items() if place.works])
async def test_a_second_press_interrupts_what_runs(tmp_path: Path, where: str) -> None:
    place = PLACES[where]
    async with at(place, tmp_path) as (house, running):
        running.send(signal.SIGINT)
        await running.until(stopping("drain", place.active))
        running.send(signal.SIGINT)
        code, seconds = await running.end()
    assert (code, seconds < PROMPT) == (SIGINT, True)
    completed = 1 if where == "validating" else 0
    assert after_the_press(running) == [
        stopping("drain", place.active),
        stopping("interrupt", place.active),
        interrupted(completed),
    ]
    assert b"Traceback" not in running.err
    if not completed:
        house.open_gate()
        await assert_resumes(house, place)


@pytest.mark.parametrize("where", PLACES)
async def test_sigterm_interrupts_at_once(tmp_path: Path, where: str) -> None:
    place = PLACES[where]
    async with at(place, tmp_path) as (house, running):
        running.send(signal.SIGTERM)
        code, seconds = await running.end()
    assert (code, seconds < PROMPT) == (-signal.SIGTERM, True)
    assert stopping("interrupt", place.active) in running.reported
    assert running.reported[-1] == interrupted(1 if where == "validating" else 0, exit_code=143)
    assert b"Traceback" not in running.err
    assert [path.name for path in house.backlog.iterdir()] == (
        [] if where in ("waiting", "auditing", "validating") else ["a.md"]
    )


STUBBORN_PLACES = {
    "planning": Place(roles={"planner": [STUBBORN]}, reached=until("AgentMessage"), active=1),
    "auditing": Place(item=False, config={"audit": True}, roles={"audit": [STUBBORN]}, reached=until("AgentMessage")),
    "a check command": Place(
        config={"checkCommand": "trap '' INT TERM HUP; touch gate; while :; do sleep 1; done"},
        reached=at_gate,
        active=1,
    ),
}


@pytest.mark.parametrize("where", STUBBORN_PLACES)
async def test_a_third_press_kills_agents_that_ignore_signals(tmp_path: Path, where: str) -> None:
    place = STUBBORN_PLACES[where]
    async with at(place, tmp_path) as (_house, running):
        for presses in (1, 2, 3):
            assert running.process.returncode is None
            running.send(signal.SIGINT)
            if presses < 3:
                await running.until("WatchStopping", presses)
        code, seconds = await running.end()
    assert (code, seconds < PROMPT) == (SIGINT, True)
    stages = [event.stage for event in running.events if isinstance(event, WatchStopping)]
    assert stages == ["drain", "interrupt", "kill"]
    assert running.reported[-1] == interrupted()


# ---- closed output ----------------------------------------------------------------------------

IDLE: dict[str, Any] = {}
WORKING: dict[str, Any] = {"planner": [[STRAY, *HANG]]}


def house_for(folder: Path, roles: dict[str, Any]) -> House:
    house = House(folder, play=script(**roles))
    if roles:
        house.item("a.md")
    return house


@pytest.mark.parametrize("roles", [IDLE, WORKING], ids=["idle", "working"])
async def test_a_closed_stdout_ends_the_watch(tmp_path: Path, roles: dict[str, Any]) -> None:
    house = house_for(tmp_path, roles)
    code = tmp_path / "code"
    words = [sys.executable, *quick_watch(), "watch"]
    pipe = f'("$@"; echo $? > {code}.new; mv {code}.new {code}) | head -1'
    with trio.fail_after(20):
        await trio.run_process(
            ["bash", "-c", pipe, "watch", *words], cwd=house.root, env=house.environment, capture_stdout=True
        )
        await until_exists(code)
    assert code.read_text() == "141\n"
    assert house.left() == []


IN_THIS_TERMINAL = """
import fcntl, os, sys, termios
os.setsid()
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""


@pytest.mark.parametrize("roles", [IDLE, WORKING], ids=["idle", "working"])
async def test_a_closed_terminal_ends_the_watch(tmp_path: Path, roles: dict[str, Any]) -> None:
    """By SIGHUP or by a failed write, whichever comes first."""
    house = house_for(tmp_path, roles)
    master, slave = os.openpty()
    with trio.fail_after(20):
        process = await trio.lowlevel.open_process(
            [sys.executable, "-c", IN_THIS_TERMINAL, sys.executable, *quick_watch(), "watch"],
            cwd=house.root,
            env=house.environment,
            stdin=slave,
            stdout=slave,
            stderr=slave,
        )
        os.close(slave)
        seen = ""
        while ("here" if roles else "Idle") not in seen:
            await trio.lowlevel.wait_readable(master)
            seen += os.read(master, 65536).decode(errors="replace")
        os.close(master)
        code = await process.wait()
    assert code in (-signal.SIGHUP, 141)
    assert house.left() == []
    last = house.logged()[-1].event
    assert isinstance(last, WatchEnded)
    assert last.reason == "interrupted"


async def test_each_press_reports_what_happens_and_what_the_next_one_does(tmp_path: Path) -> None:
    house = House(tmp_path, play=script(planner=[STUBBORN]))
    house.item("a.md")
    with trio.fail_after(20):
        process = await trio.lowlevel.open_process(
            [sys.executable, *quick_watch(), "watch"],
            cwd=house.root,
            env=house.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        assert process.stdout is not None
        seen = b""
        for word in (b"here", b"interrupts", b"kills", b""):
            while word not in seen:
                seen += await process.stdout.receive_some()
            if word:
                process.send_signal(signal.SIGINT)
        async for chunk in process.stdout:
            seen += chunk
        code = await process.wait()
    assert code == SIGINT
    assert seen.count(b"Ctrl+C") == 2
    assert b"illing" in seen
    assert house.left() == []
