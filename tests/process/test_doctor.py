"""`cuggino doctor`, as a person would start it, on machines that lack something."""

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

from cuggino.doctor.finding import Finding, Level, Report
from tests.process.house import AT_GATE, House, script, turn


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path, commit=True)


class Examined:
    """A doctor that has ended."""

    def __init__(self, code: int, found: Report) -> None:
        self.code = code
        self.findings = {it.name: it for it in found.findings}
        assert found.healthy is (code == 0)
        assert found.healthy is not bool(self.at(Level.FAILURE))

    def __getitem__(self, name: str) -> Finding:
        return self.findings[name]

    def at(self, level: Level) -> list[str]:
        return [it.name for it in self.findings.values() if it.level is level]


async def examine(house: House, cwd: Path | None = None, **environment: str | None) -> Examined:
    """`cuggino doctor --json`; None takes a name out of the environment."""
    changed = {**house.environment, **environment}
    kept = {name: value for name, value in changed.items() if value is not None}
    with trio.fail_after(20):
        done = await house.run("doctor", "--json", cwd=cwd, environment=kept)
    assert done.err == ""
    assert house.left() == []
    return Examined(done.code, msgspec.json.decode(done.out, type=Report))


def configure(house: House, **config: Any) -> None:
    (house.root / ".cuggino.json").write_text(json.dumps(config))


def path(house: House, programs: Iterable[str] = (), **own: str) -> str:
    """A PATH with these programs of the machine, and own ones, which are scripts."""
    folder = house.home.parent / "bin"
    folder.mkdir()
    for name in ("sh", "sleep", *programs):
        found = shutil.which(name)
        assert found is not None
        (folder / name).symlink_to(found)
    for name, text in own.items():
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o755)
    return str(folder)


def trace(*folders: Path) -> dict[str, tuple[int, int]]:
    """Every file, with what changes when it is written."""
    files = (file for folder in folders for file in folder.rglob("*"))
    return {str(file): (file.stat().st_mtime_ns, file.stat().st_size) for file in files if file.is_file()}


async def test_where_nothing_is_missing_all_is_well_and_nothing_is_changed(house: House) -> None:
    before = trace(house.root, house.home)
    found = await examine(house)
    assert found.code == 0
    assert found.at(Level.WARNING) == []
    assert list(found.findings) == [
        *("python", "system", "configuration", "folder", "space", "watching", "processes", "lock"),
        *("git", "repository", "commits", "specs", "scripted"),
    ]
    assert found["commits"].text == "as tester <tester>"
    assert trace(house.root, house.home) == before


async def test_people_get_a_line_for_each(house: House) -> None:
    with trio.fail_after(20):
        done = await house.run("doctor")
    assert done.code == 0
    assert done.err == ""
    lines = done.out.splitlines()
    assert all(line.startswith("ok  ") for line in lines[:13])
    assert lines[13:] == ["", "cuggino can work here."]


async def test_an_empty_folder_can_be_examined_and_stays_empty(house: House, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    found = await examine(house, cwd=empty, PATH=path(house, ["git"]))
    assert found.code == 1
    assert found.at(Level.FAILURE) == ["claude"]
    assert found.at(Level.WARNING) == ["repository", "specs"]
    assert found["repository"].mend == "git init"
    assert "npm install -g" in found["claude"].mend
    assert list(empty.iterdir()) == []


async def test_a_broken_configuration_is_told_and_the_rest_is_examined_all_the_same(house: House) -> None:
    (house.root / ".cuggino.json").write_text('{"agent": "claud"}')
    found = await examine(house)
    assert found.at(Level.FAILURE) == ["configuration"]
    assert found.at(Level.WARNING) == ["agents"]
    assert "claud" in found["configuration"].text
    assert "git" in found.at(Level.OK)


async def test_without_git_commits_fail_and_without_commits_git_is_not_needed(house: House) -> None:
    bare = path(house)
    found = await examine(house, PATH=bare)
    assert found.at(Level.FAILURE) == ["git"]
    configure(house, agent="scripted")
    found = await examine(house, PATH=bare)
    assert found.code == 0
    assert found.at(Level.WARNING) == ["git"]


async def test_git_that_does_not_know_who_commits_is_a_failure(house: House) -> None:
    (house.home / ".gitconfig").write_text("[user]\nuseConfigOnly = true\n")
    found = await examine(house, GIT_COMMITTER_EMAIL=None, GIT_COMMITTER_NAME=None)
    assert found.at(Level.FAILURE) == ["commits"]
    assert "git config --global user.email" in found["commits"].mend
    house.git("config", "user.email", "ada@example.com")
    house.git("config", "user.name", "Ada")
    found = await examine(house, **dict.fromkeys(name for name in house.environment if name.startswith("GIT_")))
    assert found["commits"].text == "as Ada <ada@example.com>"


async def test_what_would_make_a_commit_fail_is_told_with_what_mends_it(house: House) -> None:
    lock = house.root / ".git" / "index.lock"
    lock.touch()
    found = await examine(house)
    assert found.at(Level.FAILURE) == ["commits"]
    assert str(lock) in found["commits"].mend
    lock.unlink()
    house.git("config", "commit.gpgsign", "true")
    found = await examine(house)
    assert found.at(Level.WARNING) == ["commits"]
    assert "passphrase" in found["commits"].text


async def test_a_repository_without_commits_has_nothing_to_compare_with(house: House) -> None:
    shutil.rmtree(house.root / ".git")
    found = await examine(house)
    assert found.at(Level.FAILURE) == ["repository"]
    house.git("init", "-q")
    found = await examine(house)
    assert found.at(Level.FAILURE) == ["repository"]
    assert "no commit yet" in found["repository"].text
    assert found["repository"].mend.startswith("git commit")


async def test_claude_is_asked_for_its_version_and_nothing_else(house: House, tmp_path: Path) -> None:
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


async def test_a_program_that_does_not_answer_is_ended_and_told(house: House) -> None:
    configure(house, agent="claude")
    programs = path(house, ["git"], claude="trap '' INT TERM; sleep 60 & sleep 60")
    begun = trio.current_time()
    found = await examine(house, PATH=programs, ANTHROPIC_API_KEY="key", IS_SANDBOX="1")
    assert trio.current_time() - begun < 5
    assert found.code == 0
    assert found.at(Level.WARNING) == ["claude"]
    assert "did not print its version" in found["claude"].text


async def test_a_program_that_cannot_run_is_told_in_its_own_words(house: House) -> None:
    configure(house, agent="claude")
    programs = path(house, ["git"], claude="echo 'needs Node 18' >&2; exit 1")
    found = await examine(house, PATH=programs, ANTHROPIC_API_KEY="key", IS_SANDBOX="1")
    assert found.at(Level.FAILURE) == ["claude"]
    assert "needs Node 18" in found["claude"].text


@pytest.mark.parametrize("name", ["codex", "gemini", "opencode"])
async def test_every_backend_is_looked_for_and_missed(house: House, name: str) -> None:
    configure(house, agent=name)
    found = await examine(house, PATH=path(house, ["git"]))
    assert found.at(Level.FAILURE) == [name]
    assert f"`{name}` was not found in PATH" in found[name].text
    assert "npm install -g" in found[name].mend


async def test_gh_is_looked_for_where_pull_requests_are_wanted_and_asks_nobody(house: House, tmp_path: Path) -> None:
    configure(house, agent="scripted", spawn={"integrate": "pr"})
    asked = tmp_path / "asked"
    found = await examine(house, PATH=path(house, ["git"], gh=f'echo "$@" >> {asked}; echo "gh version 2.40.0 (2023)"'))
    assert found["gh"].text == "2.40.0 (2023)"
    assert found.at(Level.FAILURE) == ["gh login"]
    assert found["gh login"].mend == "gh auth login"
    assert asked.read_text() == "--version\n"
    (tmp_path / "bin" / "gh").unlink()
    found = await examine(house, PATH=str(tmp_path / "bin"), GH_TOKEN="token")
    assert found.at(Level.FAILURE) == ["gh"]


async def test_a_file_in_the_place_of_the_folder_is_told_with_what_mends_it(house: House) -> None:
    house.state.write_text("")
    found = await examine(house)
    assert "folder" in found.at(Level.FAILURE)
    assert found["folder"].mend == f"mv {house.state} {house.state}.old"


async def test_who_works_here_is_told_and_not_disturbed(house: House) -> None:
    house.play(script(implementer=[turn(AT_GATE)]))
    with trio.fail_after(30):
        async with house.started("run", "-f", "it") as running:
            await house.at_gate()
            with trio.fail_after(20):
                done = await house.run("doctor", "--json")
            finding = Examined(done.code, msgspec.json.decode(done.out, type=Report))["lock"]
            assert finding.level is Level.OK
            assert f"`cuggino run` works here, process {running.process.pid}" in finding.text
            running.send(signal.SIGKILL)
            await running.process.wait()
    finding = (await examine(house))["lock"]
    assert finding.level is Level.WARNING
    assert "has died here" in finding.text
