"""Shell completion, installed into a home of its own and used by real shells: with the Tab key, in a terminal."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import pytest
import trio
from cyclopts.completion import CompletionContext

from cuggino.cli.completion import names_in
from cuggino.loop.session import Session
from cuggino.project import Project
from tests.process.house import House
from tests.process.pseudo_terminal import terminal

READY = "READY>"


@pytest.fixture
def house(tmp_path: Path) -> House:
    """With `cuggino` in PATH."""
    house = House(tmp_path)
    program = tmp_path / "bin" / "cuggino"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m cuggino "$@"\n')
    program.chmod(0o755)
    return house


def path(house: House) -> str:
    return f"{house.home.parent / 'bin'}:{os.environ['PATH']}"


async def install(house: House, shell: str) -> str:
    with trio.fail_after(20):
        done = await house.run("--install-completion", shell)
    assert done.code == 0
    assert done.err == ""
    return done.out


def needs(shell: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(shutil.which(shell) is None, reason=f"there is no {shell} here")


SHELLS = [
    pytest.param("bash", ("bash", "--noprofile", "-i"), marks=needs("bash")),
    pytest.param("zsh", ("zsh", "-i"), marks=needs("zsh")),
]


RC = {"bash": f"PS1='{READY}'\n", "zsh": f"PROMPT='{READY}'\nautoload -Uz compinit && compinit -u\n"}


async def prepare(house: House, shell: str) -> None:
    (house.home / f".{shell}rc").write_text(RC[shell])
    await install(house, shell)


@pytest.mark.parametrize(("shell", "argv"), SHELLS)
async def test_commands_and_options_are_completed(house: House, shell: str, argv: Sequence[str]) -> None:
    await prepare(house, shell)
    with trio.fail_after(30):
        async with terminal(house, *argv, size=(40, 200), PATH=path(house), TERM="dumb") as at:
            await at.until(READY)
            at.type(b"cuggino doc\t")
            await at.until("cuggino doctor ")
            at.type(b"--js\t")
            await at.until("--json")


@pytest.mark.parametrize(("shell", "argv"), SHELLS)
async def test_the_id_of_a_session_is_completed(house: House, shell: str, argv: Sequence[str]) -> None:
    project = Project(house.root)
    project.prepare()
    session = Session.create(project, "the CSV export")
    await prepare(house, shell)
    with trio.fail_after(30):
        async with terminal(house, *argv, size=(40, 200), PATH=path(house), TERM="dumb") as at:
            await at.until(READY)
            at.type(f"cuggino run --resume {session.id[:5]}\t".encode())
            await at.until(session.id[5:])


@needs("fish")
async def test_fish_completes_commands_options_and_sessions(house: House) -> None:
    project = Project(house.root)
    project.prepare()
    session = Session.create(project, "the CSV export")
    await install(house, "fish")

    def offered(line: str) -> str:
        return subprocess.run(
            ["fish", "-c", 'complete -C "$argv"', line],
            cwd=house.root,
            env=house.environment | {"PATH": path(house)},
            check=True,
            capture_output=True,
            text=True,
            timeout=30,
        ).stdout

    assert offered("cuggino doc").startswith("doctor\t")
    assert offered("cuggino run --js").startswith("--json")
    assert offered("cuggino run --resume ") == f"{session.id}\tthe CSV export\n"


async def test_installing_twice_leaves_one_line_in_the_shells_file(house: House) -> None:
    (house.home / ".bashrc").write_text("alias ll='ls -l'\n")
    await install(house, "bash")
    said = await install(house, "bash")
    lines = (house.home / ".bashrc").read_text().splitlines()
    assert lines[0] == "alias ll='ls -l'"
    assert len(lines) == 3
    script = house.home / ".local" / "share" / "bash-completion" / "completions" / "cuggino"
    assert f'. "{script}"' in lines[2]
    assert str(script) in said


async def test_a_home_directory_that_cannot_be_written_is_an_error(house: House) -> None:
    (house.home / ".local").write_text("")
    with trio.fail_after(20):
        done = await house.run("--install-completion", "bash")
    assert done.code == 1
    assert "Traceback" not in done.err
    assert str(house.home / ".local") in done.err


def test_only_items_of_the_backlog_are_suggested(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    context = cast(CompletionContext, None)
    monkeypatch.chdir(house.root)
    assert names_in(lambda project: project.backlog)(context) == []
    assert not house.state.exists()
    for name in ("2.md", "1.md", ".1.md.swp", "1.md~"):
        house.item(name)
    (house.backlog / "folder").mkdir()
    assert names_in(lambda project: project.backlog)(context) == ["1.md", "2.md"]


async def test_outside_of_a_project_nothing_is_suggested(house: House, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with trio.fail_after(20):
        done = await house.run("__complete", "run", "--resume", "", cwd=tmp_path / "empty")
    assert (done.code, done.err) == (0, "")
    assert done.out == "\n\x1fbegin\n"
    assert list((tmp_path / "empty").iterdir()) == []
