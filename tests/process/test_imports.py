"""A command imports what it uses. Whoever asks for the version, or for help, does not wait for anything else."""

from __future__ import annotations

import sys
from functools import cache

import pytest
import trio

from cuggino.cli.app import app_for

COMMANDS = [name for name in app_for(()) if not name.startswith("-")]

PARTS = {
    *("anyio", "asyncio", "watchdog"),
    *("cuggino.api", "cuggino.demo", "cuggino.doctor", "cuggino.loop.loop", "cuggino.watch.watch"),
    *("cuggino.agents.claude", "cuggino.agents.codex", "cuggino.agents.gemini", "cuggino.agents.opencode"),
    *("cuggino.agents.scripted", "cuggino.spawn.spawn", "cuggino.ci.watch", "cuggino.watch.apart"),
}
"""What is slow to import, or belongs to one command."""

WORK = {"cuggino.loop.loop"}
USES = {
    "run": WORK,
    "watch": WORK | {"cuggino.watch.watch", "watchdog"},
    "demo": WORK | {"cuggino.demo"},
    "doctor": {"cuggino.doctor", "watchdog"},
    "spawn": WORK | {"cuggino.spawn.spawn"},
    "ci": WORK | {"cuggino.ci.watch"},
}
"""The parts that a command may import before it has read its arguments; others: none."""


@cache
def imported(*arguments: str) -> frozenset[str]:
    """The modules that `cuggino ARGUMENTS` has imported at its end."""

    async def run() -> bytes:
        done = await trio.run_process(
            [sys.executable, "-X", "importtime", "-m", "cuggino", *arguments], capture_stdout=True, capture_stderr=True
        )
        return done.stderr

    with_times = trio.run(run).decode().splitlines()
    return frozenset(line.rpartition("|")[2].strip() for line in with_times if line.startswith("import time:"))


def test_the_version_is_printed_before_anything_is_imported() -> None:
    modules = imported("--version")
    assert {name for name in modules if name.startswith("cuggino")} == {"cuggino"}
    assert modules.isdisjoint({"trio", "cyclopts", "msgspec", "asyncio", "pathlib", "typing"})


def test_the_list_of_commands_imports_none_of_them() -> None:
    modules = imported("--help")
    assert {name for name in modules if name.startswith("cuggino.cli.")} == {"cuggino.cli.app", "cuggino.cli.arguments"}
    assert modules.isdisjoint(PARTS | {"msgspec", "wcwidth"})


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_imports_only_the_parts_that_it_uses(command: str) -> None:
    assert imported(command, "--help") & PARTS <= USES.get(command, set())


@pytest.mark.parametrize("command", ["run", "watch", "demo"])
def test_the_tables_name_parts_that_exist(command: str) -> None:
    """Else the tests above could not fail."""
    assert USES[command] <= imported(command, "--help")
