"""`cuggino doctor` as a process, on machines that lack something."""

from __future__ import annotations

import json
import shutil
import signal
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio

from cuggino.doctor.finding import Diagnosis, Finding, Level
from tests.process.house import AT_GATE, House, script, turn


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path, commit=True)


class Examined:
    """The result of `cuggino doctor`."""

    def __init__(self, code: int, found: Diagnosis) -> None:
        self.code = code
        self.findings = {it.name: it for it in found.findings}
        assert found.healthy is (code == 0)
        assert found.healthy is not bool(self.at(Level.FAILURE))

    def __getitem__(self, name: str) -> Finding:
        return self.findings[name]

    def at(self, level: Level) -> list[str]:
        return [it.name for it in self.findings.values() if it.level is level]


async def examine(house: House, cwd: Path | None = None, **environment: str | None) -> Examined:
    """Run `cuggino doctor --json`; None removes a variable from the environment."""
    changed = {**house.environment, **environment}
    kept = {name: value for name, value in changed.items() if value is not None}
    with trio.fail_after(20):
        done = await house.run("doctor", "--json", cwd=cwd, environment=kept)
    assert done.err == ""
    assert house.left() == []
    return Examined(done.code, msgspec.json.decode(done.out, type=Diagnosis))


def configure(house: House, **config: Any) -> None:
    (house.root / ".cuggino.json").write_text(json.dumps(config))


def path(house: House, programs: Iterable[str] = (), **own: str) -> str:
    """Make a PATH with `sh`, `sleep`, these programs of the machine, and scripts of our own."""
    directory = house.home.parent / "bin"
    directory.mkdir()
    for name in ("sh", "sleep", *programs):
        found = shutil.which(name)
        assert found is not None
        (directory / name).symlink_to(found)
    for name, text in own.items():
        (directory / name).write_text(f"#!/bin/sh\n{text}\n")
        (directory / name).chmod(0o755)
    return str(directory)


def trace(*directories: Path) -> dict[str, tuple[int, int]]:
    """Return the time and size of every file."""
    files = (file for directory in directories for file in directory.rglob("*"))
    return {str(file): (file.stat().st_mtime_ns, file.stat().st_size) for file in files if file.is_file()}


async def test_with_nothing_missing_all_is_ok_and_nothing_is_changed(house: House) -> None:
    before = trace(house.root, house.home)
    found = await examine(house)
    assert found.code == 0
    assert found.at(Level.WARNING) == []
    assert list(found.findings) == [
        *("python", "system", "configuration", "directory", "space", "watching", "processes", "lock"),
        *("git", "repository", "commits", "specs", "scripted"),
    ]
    assert found["commits"].text == "as tester <tester>"
    assert trace(house.root, house.home) == before


async def test_people_get_a_line_for_each_finding(house: House) -> None:
    with trio.fail_after(20):
        done = await house.run("doctor")
    assert done.code == 0
    assert done.err == ""
    lines = done.out.splitlines()
    assert all(line.startswith("ok  ") for line in lines[:13])
    assert lines[13:] == ["", "cuggino can work here."]


async def test_an_empty_directory_can_be_examined_and_stays_empty(house: House, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    found = await examine(house, cwd=empty, PATH=path(house, ["git"]))
    assert found.code == 1
    assert found.at(Level.FAILURE) == ["claude"]
    assert found.at(Level.WARNING) == ["repository", "specs"]
    assert found["repository"].fix == "git init"
    assert "npm install -g" in found["claude"].fix
    assert list(empty.iterdir()) == []


async def test_an_invalid_configuration_is_reported_and_the_rest_is_still_examined(house: House) -> None:
    (house.root / ".cuggino.json").write_text('{"agent": "claud"}')
    found = await examine(house)
    assert found.at(Level.FAILURE) == ["configuration"]
    assert found.at(Level.WARNING) == ["agents"]
    assert "$.agent: " in found["configuration"].text
    assert "git" in found.at(Level.OK)


async def test_git_is_needed_only_for_commits(house: House) -> None:
    bare = path(house)
    found = await examine(house, PATH=bare)
    assert found.at(Level.FAILURE) == ["git"]
    configure(house, agent="scripted")
    found = await examine(house, PATH=bare)
    assert found.code == 0
    assert found.at(Level.WARNING) == ["git"]


async def test_git_without_an_identity_is_a_failure(house: House) -> None:
    (house.home / ".gitconfig").write_text("[user]\nuseConfigOnly = true\n")
    found = await examine(house, GIT_COMMITTER_EMAIL=None, GIT_COMMITTER_NAME=None)
    assert found.at(Level.FAILURE) == ["commits"]
    assert "git config --global user.email" in found["commits"].fix
    house.git("config", "user.email", "ada@example.com")
    house.git("config", "user.name", "Ada")
    found = await examine(house, **dict.fromkeys(name for name in house.environment if name.startswith("GIT_")))
    assert found["commits"].text == "as Ada <ada@example.com>"


async def test_what_would_make_a_commit_fail_is_reported_with_its_fix(house: House) -> None:
    lock = house.root / ".git" / "index.lock"
    lock.touch()
    found = await examine(house)
    assert found.at(Level.FAILURE) == ["commits"]
    assert str(lock) in found["commits"].fix
    lock.unlink()
    house.git("config", "commit.gpgsign", "true")
    found = await examine(house)
    assert found.at(Level.WARNING) == ["commits"]
    assert "passphrase" in found["commits"].text


async def test_a_missing_repository_or_commit_is_a_failure(house: House) -> None:
    shutil.rmtree(house.root / ".git")
    found = await examine(house)
    assert found.at(Level.FAILURE) == ["repository"]
    house.git("init", "-q")
    found = await examine(house)
    assert found.at(Level.FAILURE) == ["repository"]
    assert "no commit yet" in found["repository"].text
    assert found["repository"].fix.startswith("git commit")


async def test_claude_is_asked_only_for_its_version(house: House, tmp_path: Path) -> None:
    configure(house, agent="claude", agents={"reviewer": "scripted"})
    asked = tmp_path / "asked"
    programs = path(house, ["git"], claude=f'echo "$@" >> {asked}; echo "2.1.197 (Claude Code)"')
    found = await examine(house, PATH=programs, ANTHROPIC_API_KEY="key", IS_SANDBOX="1")
    assert found.code == 0
    assert found["claude"].text.startswith("2.1.197 (Claude Code)")
    assert found["claude login"].text == "ANTHROPIC_API_KEY is set"
    assert "scripted" in found.findings
    assert asked.read_text() == "--version\n"
    found = await examine(house, PATH=programs, IS_SANDBOX="1")
    assert found.at(Level.FAILURE) == ["claude login"]


@pytest.mark.parametrize(
    ("program", "level", "message"),
    [
        ("trap '' INT TERM; sleep 60 & sleep 60", Level.WARNING, "version within 1.2 s"),
        ("echo 'needs Node 18' >&2; exit 1", Level.FAILURE, "needs Node 18"),
    ],
)
async def test_a_program_that_does_not_answer_or_fails_is_ended_and_reported(
    house: House, program: str, level: Level, message: str
) -> None:
    configure(house, agent="claude")
    started = trio.current_time()
    found = await examine(house, PATH=path(house, ["git"], claude=program), ANTHROPIC_API_KEY="key", IS_SANDBOX="1")
    assert trio.current_time() - started < 5
    assert found.at(level) == ["claude"]
    assert found.code == (level is Level.FAILURE)
    assert message in found["claude"].text


@pytest.mark.parametrize("name", ["codex", "gemini", "opencode"])
async def test_every_backend_s_program_must_be_in_path(house: House, name: str) -> None:
    configure(house, agent=name)
    found = await examine(house, PATH=path(house, ["git"]))
    assert found.at(Level.FAILURE) == [name]
    assert f"`{name}` was not found in PATH" in found[name].text
    assert "npm install -g" in found[name].fix


async def test_gh_is_checked_for_pull_requests_without_asking_github(house: House, tmp_path: Path) -> None:
    configure(house, agent="scripted", spawn={"integrate": "pr"})
    asked = tmp_path / "asked"
    found = await examine(house, PATH=path(house, ["git"], gh=f'echo "$@" >> {asked}; echo "gh version 2.40.0 (2023)"'))
    assert found["gh"].text == "2.40.0 (2023)"
    assert found.at(Level.FAILURE) == ["gh login"]
    assert found["gh login"].fix == "gh auth login"
    assert asked.read_text() == "--version\n"
    (tmp_path / "bin" / "gh").unlink()
    found = await examine(house, PATH=str(tmp_path / "bin"), GH_TOKEN="token")
    assert found.at(Level.FAILURE) == ["gh"]


async def test_a_file_in_place_of_the_directory_ends_it_with_the_fix(house: House) -> None:
    house.state.write_text("")
    done = await house.run("doctor")
    assert done.code == 1
    assert f"{house.state} is a file, but cuggino needs a directory there.\nDelete it or move it away." in done.err


async def test_a_running_command_is_reported_and_not_disturbed(house: House) -> None:
    house.play(script(implementer=[turn(AT_GATE)]))
    with trio.fail_after(30):
        async with house.started("run", "-f", "it") as running:
            await house.at_gate()
            with trio.fail_after(20):
                done = await house.run("doctor", "--json")
            finding = Examined(done.code, msgspec.json.decode(done.out, type=Diagnosis))["lock"]
            assert finding.level is Level.OK
            assert f"`cuggino run` is running here, process {running.process.pid}" in finding.text
            running.send(signal.SIGKILL)
            await running.process.wait()
    finding = (await examine(house))["lock"]
    assert finding.level is Level.WARNING
    assert "died here" in finding.text


async def test_nobody_is_advised_to_make_the_home_directory_a_repository(house: House) -> None:
    found = await examine(house, cwd=house.home, PATH=path(house, ["git"]))
    assert "home directory" in found["repository"].fix
    assert "git init" not in found["repository"].fix
