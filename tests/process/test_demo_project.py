"""The demo's project: made on any machine, and its script plays what the demo promises."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cuggino import config
from cuggino.agents.agent import AgentOptions, Text
from cuggino.agents.scripted import script
from cuggino.agents.scripted.backend import ScriptedBackend
from cuggino.agents.scripted.steps import MarkerStep
from cuggino.demo.project import DemoProject, make
from cuggino.errors import GitError
from cuggino.markers import MarkerParser, tag_name
from cuggino.roles import Role

ROUNDS = (
    *((Role.PLANNER, "PLAN_COMPLETE"), (Role.IMPLEMENTER, "PROGRESS"), (Role.IMPLEMENTER, "DONE")),
    *((Role.REVIEWER, "REQUEST_CHANGES"), (Role.PLANNER, "PLAN_COMPLETE"), (Role.IMPLEMENTER, "DONE")),
    (Role.REVIEWER, "APPROVED"),
    *((Role.PLANNER, "PLAN_COMPLETE"), (Role.IMPLEMENTER, "PROGRESS"), (Role.IMPLEMENTER, "DONE")),
    (Role.REVIEWER, "APPROVED"),
)
"""Two loops, one after the other: who works, and the marker that it ends with."""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DemoProject:
    """Made on a machine whose git knows nobody, signs everything and refuses every commit message."""
    home = tmp_path / "home"
    (home / "hooks").mkdir(parents=True)
    (home / "hooks" / "commit-msg").write_text("#!/bin/sh\nexit 1\n")
    (home / "hooks" / "commit-msg").chmod(0o755)
    (home / ".gitconfig").write_text(
        f"[user]\nuseConfigOnly = true\n[commit]\ngpgSign = true\n[core]\nhooksPath = {home}/hooks\nautocrlf = true\n"
    )
    for name in [name for name in os.environ if name.startswith("GIT_")] + ["CUGGINO_SCRIPT", "XDG_CONFIG_HOME"]:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    made = make(tmp_path / "a project")
    monkeypatch.delenv("GIT_DIR")
    return made


def git(project: DemoProject, *arguments: str) -> str:
    return subprocess.check_output(["git", *arguments], cwd=project.root, text=True)


def check(project: DemoProject) -> tuple[int, str]:
    command = config.load(project.root / ".cuggino.json").check_command
    assert command is not None
    done = subprocess.run(["/bin/sh", "-c", command], cwd=project.root, capture_output=True, text=True, timeout=60)
    return done.returncode, done.stderr


def test_the_first_commit_has_the_specification_and_no_code(project: DemoProject) -> None:
    assert git(project, "log", "--format=%an: %s") == "cuggino demo: Specify how a bill is split\n"
    files = git(project, "ls-files").splitlines()
    assert files == [".cuggino.json", ".gitignore", ".specs/bill.md", "README.md", "tests/__init__.py"]


def test_only_the_backlog_is_not_committed(project: DemoProject) -> None:
    status = git(project, "status", "--porcelain", "--untracked-files=all").splitlines()
    assert status == [f"?? {item.relative_to(project.root)}" for item in project.items]
    assert [item.name[0] for item in project.items] == ["1", "2"]
    assert all(item.read_text() for item in project.items)


def test_its_configuration_is_one_and_its_check_works_before_there_is_code(project: DemoProject) -> None:
    loaded = config.load(project.root / ".cuggino.json")
    assert (loaded.agent, loaded.commit) == ("scripted", True)
    assert loaded.setup_command is not None
    assert "Ran 0 tests" in check(project)[1]


def test_its_script_is_one_and_ends_each_turn_as_the_loop_wants(project: DemoProject) -> None:
    file = project.root / ".cuggino" / "script.json"
    turns = script.decode(file.read_bytes(), str(file))
    for role in (Role.PLANNER, Role.IMPLEMENTER, Role.REVIEWER):
        last = [turn.steps[-1] for turn in turns[role]]
        assert [step.name for step in last if isinstance(step, MarkerStep)] == [
            name for who, name in ROUNDS if who is role
        ]
        assert all(turn.times == 1 for turn in turns[role])


def test_its_script_writes_a_program_that_its_own_check_approves_of(project: DemoProject, tmp_path: Path) -> None:
    """Each agent in turn, as the loop starts them, with the loop's commits; then the program is used."""
    file = project.root / ".cuggino" / "script.json"
    file.write_text(file.read_text().replace('"seconds": 0.4', '"seconds": 0'))
    backend = ScriptedBackend()
    checks = []
    for role, name in ROUNDS:
        result = tmp_path / "result.md"
        options = AgentOptions(role=role, cwd=project.root, prompt="go", output=tmp_path / "output", writable=(result,))
        launch = backend.launch(options)
        done = subprocess.run(launch.argv, cwd=project.root, input=launch.stdin, capture_output=True, timeout=60)
        decoder, parser = backend.decoder(options), MarkerParser(role.markers)
        texts = [
            item.text for line in done.stdout.splitlines() for item in decoder.feed(line) if isinstance(item, Text)
        ]
        markers = [event for text in texts for event in (*parser.feed(text), *parser.end())]
        assert tag_name(type(markers[-1])) == name  # type: ignore[arg-type]
        decoder.finish(done.returncode, done.stderr.decode())
        if role is Role.IMPLEMENTER:
            git(project, "add", "--all", "--", ".", ":!.specs", ":!.cuggino")
            git(project, "commit", "--quiet", "--message", markers[-1].content)  # type: ignore[union-attr]
            assert git(project, "show", "--stat", "HEAD").count("|") <= 2
        else:
            assert result.read_text().startswith("#")
        if name in ("DONE", "APPROVED"):
            checks.append(check(project))
    assert [status for status, _ in checks] == [0] * 5
    assert len(git(project, "log", "--format=%s").splitlines()) == 6
    shares = subprocess.check_output([sys.executable, "bill.py", "10.00", "3"], cwd=project.root, text=True)
    assert shares == "3.34\n3.33\n3.33\n"


def test_without_git_it_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(GitError, match="Install git"):
        make(tmp_path / "project")


def test_the_data_of_the_demo_needs_no_encoding() -> None:
    """So that it is read alike in every locale."""
    for file in (Path(script.__file__).parents[2] / "demo" / "files").rglob("*"):
        if file.is_file():
            assert file.read_bytes().isascii()
            assert file.suffix != ".json" or json.loads(file.read_text())
