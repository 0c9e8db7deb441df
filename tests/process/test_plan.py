"""`cuggino plan` in a real terminal: typed text reaches the agent, and afterwards everything is as before."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.process.house import AT_GATE, COMMAND, House, Step, turn
from tests.process.pseudo_terminal import Shell, terminal

OWN_TERMINAL = "/proc/$PPID/fd/0"
"""The agent's stdin, for commands of the agent that change the terminal."""
RAW: Step = {"do": "run", "command": f"stty raw -echo < {OWN_TERMINAL}"}
GREETING: Step = {"do": "say", "text": "What shall we build?"}


def talk(*steps: Step) -> dict[str, Any]:
    """A script of one conversation."""
    return {"interactive": [turn(*steps)]}


PLAN = (sys.executable, *COMMAND, "plan")


@asynccontextmanager
async def planning(folder: Path, *steps: Step, **config: Any) -> AsyncIterator[tuple[House, Shell]]:
    """`cuggino plan` with an agent that does this."""
    house = House(folder, play=talk(*steps), **config)
    with trio.fail_after(20):
        async with terminal(house, *PLAN) as shell:
            yield house, shell


async def test_the_person_and_the_agent_talk_through_the_terminal(tmp_path: Path) -> None:
    ask: Step = {"do": "run", "command": f"read line < {OWN_TERMINAL}; echo $line > typed"}
    async with planning(tmp_path, GREETING, ask, {"do": "say", "text": "Good."}) as (house, shell):
        await shell.until("What shall we build?")
        shell.type(b"a CSV export\n")
        assert await shell.process.wait() == 0
        await shell.until("Good.")
        assert (house.root / "typed").read_text() == "a CSV export\n"
        assert house.left() == []


@pytest.mark.parametrize(
    ("step", "code"), [({"do": "exit", "code": 7}, 7), ({"do": "die", "signal": "SEGV"}, 139), ({"do": "result"}, 0)]
)
async def test_the_exit_code_is_the_agents(tmp_path: Path, step: Step, code: int) -> None:
    async with planning(tmp_path, step) as (_, shell):
        assert await shell.process.wait() == code


@pytest.mark.parametrize("key", [b"\x03", b"\x1c"], ids=["Ctrl+C", "Ctrl+backslash"])
async def test_keys_that_interrupt_are_the_agents(tmp_path: Path, key: bytes) -> None:
    """It handles Ctrl+C in its own way, and dies of Ctrl+\\; cuggino returns its code either way."""
    async with planning(tmp_path, {"do": "on-interrupt", "code": 5}, GREETING, {"do": "hang"}) as (house, shell):
        await shell.until("build?")
        shell.type(key)
        assert await shell.process.wait() == (5 if key == b"\x03" else 128 + signal.SIGQUIT)
        assert house.left() == []


async def test_ctrl_c_ends_nothing_if_the_agent_ignores_it(tmp_path: Path) -> None:
    steps: Sequence[Step] = (
        {"do": "ignore-signals", "signals": ["INT"]},
        GREETING,
        {"do": "run", "command": f"read line < {OWN_TERMINAL}"},
        {"do": "exit", "code": 3},
    )
    async with planning(tmp_path, *steps) as (_, shell):
        await shell.until("▶ Bash")
        shell.type(b"\x03\x03\x03go on\n")
        assert await shell.process.wait() == 3


@pytest.mark.parametrize("end", [{"do": "die"}, {"do": "exit"}], ids=["killed", "careless"])
async def test_the_terminals_settings_are_restored(tmp_path: Path, end: Step) -> None:
    async with planning(tmp_path, GREETING, AT_A_KEY, RAW, {"do": "say", "text": "raw"}, AT_A_KEY, end) as (_, shell):
        before = shell.settings()
        await shell.until("build?")
        shell.type(b"\n")
        await shell.until("raw")
        assert shell.settings() != before
        shell.type(b"\n")
        await shell.process.wait()
        assert shell.settings() == before


AT_A_KEY: Step = {"do": "run", "command": f"head -c 1 < {OWN_TERMINAL}"}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
async def test_a_signal_to_cuggino_ends_the_agent(tmp_path: Path, number: signal.Signals) -> None:
    async with planning(tmp_path, RAW, {"do": "leave", "setsid": True}, GREETING, {"do": "hang"}) as (house, shell):
        before = shell.settings()
        await shell.until("build?")
        os.kill(shell.process.pid, number)
        assert await shell.process.wait() == -number
        assert house.left() == []
        assert shell.settings() == before


async def test_an_agent_that_ignores_signals_is_killed_at_the_second_signal(tmp_path: Path) -> None:
    async with planning(tmp_path, {"do": "ignore-signals"}, GREETING, {"do": "hang"}) as (house, shell):
        await shell.until("build?")
        begun = trio.current_time()
        os.kill(shell.process.pid, signal.SIGTERM)
        await trio.sleep(0.3)  # two at once would count as one
        os.kill(shell.process.pid, signal.SIGTERM)
        assert await shell.process.wait() == -signal.SIGTERM
        assert trio.current_time() - begun < 4
        assert house.left() == []


@pytest.mark.parametrize("end", ["closed window", "kill -9", "the agent's end"])
async def test_nothing_is_left_running(tmp_path: Path, end: str) -> None:
    stray = {"do": "leave", "setsid": True, "doubleFork": True, "ignoreSignals": True}
    hang: Sequence[Step] = () if end == "the agent's end" else ({"do": "hang"},)
    ignoring: Sequence[Step] = ({"do": "ignore-signals"},) if end == "kill -9" else ()
    async with planning(tmp_path, *ignoring, stray, GREETING, *hang) as (house, shell):
        await shell.until("build?")
        if end == "closed window":
            shell.hang_up()
        elif end == "kill -9":
            shell.process.kill()
        await shell.process.wait()
        while end == "kill -9" and house.left():  # noqa: ASYNC110 - the kernel and a guard still work after cuggino's own end
            await trio.sleep(0.01)
        assert house.left() == []


# ---- Ctrl+Z -----------------------------------------------------------------------------------

STOPS_ITSELF: Step = {"do": "run", "command": f"head -c 1 < {OWN_TERMINAL}; kill -STOP $PPID"}
"""Like a program that gets Ctrl+Z as a key. It stops alone."""


@asynccontextmanager
async def planning_below_a_shell(folder: Path, *steps: Step) -> AsyncIterator[tuple[House, Shell]]:
    house = House(folder, play=talk(*steps))
    with trio.fail_after(20):
        async with terminal(house, "bash", "--norc", "--noprofile", "--noediting", "-i") as shell:
            shell.type(f"{' '.join(PLAN)}\n".encode())
            await shell.until("▶ Bash")
            yield house, shell
            await shell.until("build?")
            shell.type(b"echo code-$?; exit\n")
            await shell.until("code-6")
            await shell.process.wait()
            assert house.left() == []


async def test_ctrl_z_returns_to_the_shell_and_fg_resumes(tmp_path: Path) -> None:
    async with planning_below_a_shell(tmp_path, AT_GATE, GREETING, {"do": "exit", "code": 6}) as (house, shell):
        await house.at_gate()
        shell.type(b"\x1a")
        await shell.until("Stopped")
        house.open_gate()
        shell.type(b"fg\n")


async def test_an_agent_that_stops_itself_on_ctrl_z_returns_to_the_shell(tmp_path: Path) -> None:
    async with planning_below_a_shell(tmp_path, STOPS_ITSELF, GREETING, {"do": "exit", "code": 6}) as (_, shell):
        shell.type(b"\n")
        await shell.until("Stopped")
        assert b"build?" not in shell.screen
        shell.type(b"fg\n")


async def test_ctrl_z_without_a_shell_stops_nothing(tmp_path: Path) -> None:
    """No shell with jobs is above: cuggino is all that runs in this window."""
    async with planning(tmp_path, STOPS_ITSELF, GREETING) as (_, shell):
        await shell.until("▶ Bash")
        shell.type(b"\n")
        assert await shell.process.wait() == 0


# ---- what it is started with ------------------------------------------------------------------


async def test_without_a_terminal_it_names_other_commands(tmp_path: Path) -> None:
    house = House(tmp_path)
    finished = await house.run("plan")
    assert finished.code == 2
    assert "needs a terminal" in finished.err
    assert "cuggino backlog add" in finished.err
    assert not house.state.exists()


async def test_a_watch_may_be_running(tmp_path: Path) -> None:
    house = House(tmp_path, play=talk(GREETING))
    with trio.fail_after(20):
        async with house.watching() as running:
            await running.until("WatchBacklogWaiting")
            async with terminal(house, *PLAN) as shell:
                assert await shell.process.wait() == 0


async def test_a_wrong_configuration_and_a_missing_agent_are_errors(tmp_path: Path) -> None:
    house = House(tmp_path, agent="claude")
    for config, code, expected in (
        ('{"agnet": "claude"}', 2, "agnet"),
        ('{"agent": "claude"}', 1, "not found in PATH"),
    ):
        (house.root / ".cuggino.json").write_text(config)
        with trio.fail_after(20):
            async with terminal(house, "env", f"PATH={tmp_path}", *PLAN) as shell:
                assert await shell.process.wait() == code
                await shell.until(expected)


PENDING = "Waiting for me: 2 spec issues and 1 finding."


@pytest.mark.parametrize("waiting", [True, False])
async def test_the_agents_prompt_has_the_paths_and_what_waits_for_the_person(tmp_path: Path, waiting: bool) -> None:
    house = House(tmp_path, specsPath="docs/specs", play={})
    if waiting:
        for name in ("spec-issues/1.md", "spec-issues/2.md", "tbd/3.md"):
            with contextlib.suppress(FileExistsError):
                (house.state / name).parent.mkdir(parents=True)
            (house.state / name).write_text("x")
    places = [str(house.root / "docs/specs"), *(str(house.state / name) for name in ("backlog", "spec-issues", "tbd"))]
    known = ["# Your role: project manager", *places]
    house.play(
        {
            "interactive": [
                turn({"do": "exit", "code": 41}, when={"contains": [*known, PENDING]}),
                turn({"do": "exit", "code": 42}, when={"contains": known}),
            ]
        }
    )
    with trio.fail_after(20):
        async with terminal(house, *PLAN) as shell:
            assert await shell.process.wait() == (41 if waiting else 42)


def test_the_guard_starts_before_the_agent() -> None:
    """It must import only quick modules: it ends the agent even if cuggino dies at once."""
    code = "import sys, cuggino.process.guard; print('trio' in sys.modules, 'cyclopts' in sys.modules)"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed == "False False\n"
