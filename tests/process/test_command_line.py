"""What `cuggino` does with arguments before a command works: help, unknown options, wrong values."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
import trio

from tests.process.house import COMMAND, House


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


async def test_without_arguments_it_prints_help_which_suggests_plan_first(house: House) -> None:
    with trio.fail_after(60):
        finished = await house.run()
    assert (finished.code, finished.err) == (0, "")
    commands = [line.split()[1] for line in finished.out.splitlines() if line.startswith("│ ") and line[2] != " "]
    assert commands[:3] == ["plan", "setup", "run"]
    assert not house.state.exists()


@pytest.mark.parametrize("command", ["run", "spawn list", "--json run"])
async def test_help_of_a_command(house: House, command: str) -> None:
    words = [word for word in command.split() if word != "--json"]
    with trio.fail_after(60):
        helped = await house.run("help", *command.split())
        asked = await house.run(*words, "--help")
    assert helped.code == 0
    assert helped.out == asked.out
    assert f"Usage: cuggino {words[0]}" in helped.out


async def test_help_of_an_unknown_command(house: House) -> None:
    with trio.fail_after(60):
        finished = await house.run("help", "wacth")
    assert finished.code == 2
    assert 'Did you mean "watch"?' in finished.out + finished.err


@pytest.mark.parametrize(
    ("option", "near"), [("--foo", ""), ("--versoin", "--version"), ("--hlep", "--help"), ("-x", "")]
)
async def test_an_unknown_option_is_named_as_one_with_the_nearest(house: House, option: str, near: str) -> None:
    with trio.fail_after(60):
        finished = await house.run(option)
    assert (finished.code, finished.out) == (2, "")
    first = finished.err.splitlines()[0]
    assert first == f"cuggino: Unknown option: {option}.{f' Did you mean {near}?' if near else ''}"


@pytest.mark.parametrize(
    "arguments",
    [
        ("watch", "--until-idle", "--validate-every", "1.5"),
        ("watch", "--until-idle", "--jobs=2.0"),
        ("spawn", "the work", "--max-permission-escalations", "1e0"),
        ("ci", "watch", "--max-iterations", "true"),
    ],
    ids=lambda arguments: arguments[0],
)
async def test_what_is_not_an_integer_is_refused_instead_of_rounded(house: House, arguments: tuple[str, ...]) -> None:
    with trio.fail_after(60):
        finished = await house.run(*arguments)
    assert finished.code == 2
    assert "expected an integer, got" in " ".join((finished.out + finished.err).replace("│", "").split())
    assert not house.state.exists()


async def test_help_whose_reader_is_gone_ends_silently(house: House) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        with trio.fail_after(60):
            done = await trio.run_process(
                [sys.executable, *COMMAND, "--help"],
                cwd=house.root,
                env=house.environment,
                stdout=writing,
                capture_stderr=True,
                check=False,
            )
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (141, b"")
