"""What `cuggino` does with arguments before a command works: help, unknown options, wrong values."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
import trio

from cuggino.events import LoopStart
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


@pytest.mark.parametrize("arguments", [("the greeting",), ("@.specs/app.md: the greeting",)], ids=["words", "file"])
async def test_the_focus_of_a_run_is_an_argument_like_the_task_of_a_spawn(
    house: House, arguments: tuple[str, ...]
) -> None:
    with trio.fail_after(60):
        finished = await house.run("run", *arguments, "--json")
    assert finished.code == 0, finished.err
    start = finished.events[0]
    assert isinstance(start, LoopStart)
    assert start.focus == arguments[0]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("-f", "@nope.md"), "The focus is in nope.md, which does not exist in"),
        (("@.specs/nope.md, the greeting",), "The focus is in .specs/nope.md, which does not exist in"),
        (("the greeting", "--focus", "the greeting"), "The focus is there twice."),
        (("the greeting", "--resume"), "--resume cannot be combined"),
    ],
    ids=["missing", "missing, then words", "twice", "resumed"],
)
async def test_a_focus_that_nobody_can_read_is_refused_before_anything_starts(
    house: House, arguments: tuple[str, ...], words: str
) -> None:
    with trio.fail_after(60):
        finished = await house.run("run", *arguments)
    assert finished.code == 2
    assert words in finished.err
    assert not house.state.exists()


@pytest.mark.parametrize(
    ("word", "advice"),
    [
        ("lst", "Did you mean `cuggino spawn list`?"),
        ("Cleam", "Did you mean `cuggino spawn clean`?"),
        ("help", "Did you mean `cuggino spawn --help`?"),
        ("--modle", "Unknown option: --modle. Did you mean --model?"),
    ],
)
async def test_a_mistyped_command_of_spawn_does_not_start_an_agent(house: House, word: str, advice: str) -> None:
    with trio.fail_after(60):
        finished = await house.run("spawn", word)
    assert finished.code == 2
    assert advice in finished.err
    assert not house.state.exists()


@pytest.mark.parametrize(
    ("remote", "words"),
    [
        (None, "there is no origin on GitHub."),
        ("https://github.com/somebody/something.git", "not logged in to github.com."),
    ],
    ids=["no origin", "logged out"],
)
async def test_a_pull_request_that_cannot_be_opened_is_refused_before_an_agent_starts(
    house: House, remote: str | None, words: str
) -> None:
    if remote is not None:
        house.git("remote", "add", "origin", remote)
    with trio.fail_after(60):
        finished = await house.run("spawn", "Do the work.", "--integrate", "pr")
    assert finished.code == 2
    assert words in finished.err
    assert "--integrate branch" in finished.err
    assert not house.state.exists()
