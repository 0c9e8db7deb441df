"""Sandboxes are made, also many at once, without touching anything of the person's. Real git."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import msgspec
import pytest
import trio

from cuggino.errors import SandboxError
from cuggino.git.locked import repository_lock
from cuggino.project import Project
from cuggino.sandbox import records
from cuggino.sandbox.environment import git_variables
from cuggino.sandbox.provision import dirty, provision
from cuggino.sandbox.records import SandboxStage
from cuggino.sandbox.removal import remove
from tests.process.sandbox.person import LAUNCHER, Person, files, git, has, listing, write

BOTH = pytest.mark.parametrize("launcher", [(), LAUNCHER], ids=["worktree", "clone"])


@BOTH
async def test_a_sandbox_has_the_base_and_the_lent_files(person: Person, launcher: tuple[str, ...]) -> None:
    write(person.root / ".specs" / "app.md", "be better\n")
    write(person.root / ".specs" / "new.md", "new\n")
    write(person.root / "kept", "not committed\n")
    sandbox = await provision(person.project, person.config(launcher=launcher, include=(".env",)), title="A task")
    assert files(sandbox.folder) == [".env", ".gitignore", ".specs/app.md", ".specs/new.md", "folder/file", "kept"]
    assert (sandbox.folder / "kept").read_text() == "as it was\n"
    assert (sandbox.folder / ".specs" / "app.md").read_text() == "be better\n"
    assert (sandbox.folder / ".env").read_text() == "PASSWORD=swordfish\n"
    assert sandbox.branch == f"spawn/{sandbox.id}" == git(sandbox.folder, "branch", "--show-current").strip()
    assert sandbox.base == git(person.top, "rev-parse", "HEAD").strip()
    assert (sandbox.target, sandbox.title, sandbox.cloned) == ("main", "A task", bool(launcher))
    assert records.find(person.project, sandbox.id) == records.SandboxRecord(sandbox=sandbox, stage=SandboxStage.MADE)
    data = json.loads((person.project.spawns / sandbox.id / "sandbox.json").read_text())
    assert (data["stage"], data["sandbox"]["folder"]) == ("made", str(sandbox.folder))


@BOTH
@pytest.mark.parametrize("state", ["clean", "dirty", "detached", "submodule"])
async def test_nothing_of_the_person_s_changes(
    person: Person, launcher: tuple[str, ...], state: str, tmp_path: Path
) -> None:
    if state == "dirty":
        write(person.root / "kept", "stashed\n")
        git(person.top, "stash")
        write(person.root / "kept", "staged\n")
        git(person.top, "add", "kept")
        write(person.root / "kept", "changed since\n")
        write(person.root / "untracked", "")
    elif state == "detached":
        git(person.top, "checkout", "-q", "--detach")
    elif state == "submodule":
        _with_submodule(person, tmp_path)
    before = person.belongings()
    sandbox = await provision(person.project, person.config(launcher=launcher, include=(".env",)))
    assert person.belongings() == before
    assert sandbox.target == (None if state == "detached" else "main")
    await remove(person.project, sandbox, force=False)
    assert person.belongings() == before
    assert person.branches == ["main"]
    assert left(person) == listing(sandbox.folder) == []


def left(person: Person) -> list[str]:
    """Return the sandboxes that are left of all that were made."""
    return listing(person.top / ".git" / "worktrees") + listing(person.top.parent / "sandboxes")


def _with_submodule(person: Person, folder: Path) -> None:
    inner, library = Person(folder / "inner"), Person(folder / "library")
    allowed = ("-c", "protocol.file.allow=always")
    git(library.top, *allowed, "submodule", "add", "-q", str(inner.top), "inner")
    git(library.top, "commit", "-qam", "with a submodule of its own")
    git(person.top, *allowed, "submodule", "add", "-q", str(library.top), "libraries/the library")
    git(person.top, *allowed, "submodule", "update", "-q", "--init", "--recursive")
    git(person.top, "commit", "-qam", "with a submodule")


@BOTH
async def test_submodules_are_filled_with_the_commits_of_the_base(
    person: Person, launcher: tuple[str, ...], tmp_path: Path
) -> None:
    _with_submodule(person, tmp_path)
    base = git(person.top, "rev-parse", "HEAD").strip()
    commit_in = person.top / "libraries" / "the library"
    write(commit_in / "kept", "newer\n")
    git(commit_in, "commit", "-qam", "newer")
    sandbox = await provision(person.project, person.config(launcher=launcher), base=base)
    library = sandbox.folder / "libraries" / "the library"
    assert (library / "kept").read_text() == "as it was\n"
    assert (library / "inner" / "kept").read_text() == "as it was\n"
    assert git(library, "remote", "get-url", "origin").strip() == str(tmp_path / "library")
    assert git(sandbox.folder, "status", "--short") == ""


async def test_a_submodule_that_the_person_does_not_have_stays_empty(person: Person, tmp_path: Path) -> None:
    _with_submodule(person, tmp_path)
    git(person.top, "submodule", "deinit", "-q", "--all", "--force")
    sandbox = await provision(person.project, person.config())
    assert listing(sandbox.folder / "libraries" / "the library") == []


@BOTH
async def test_a_project_in_a_subfolder_with_a_strange_name(tmp_path: Path, launcher: tuple[str, ...]) -> None:
    person = Person(tmp_path / "ein Projekt, été 日本", "unter ordner/[ü]*")
    write(person.root / ".cuggino.json", "{}")
    write(person.root / ".specs" / "app.md", "be better\n")
    before = person.belongings()
    assert await dirty(person.project) == (".cuggino.json",)
    sandbox = await provision(person.project, person.config(launcher=launcher, include=(".env",)))
    assert sandbox.below == "unter ordner/[ü]*"
    assert files(sandbox.root) == [".env", ".gitignore", ".specs/app.md", "folder/file", "kept"]
    assert (sandbox.root / ".specs" / "app.md").read_text() == "be better\n"
    assert person.belongings() == before


async def test_dirty_returns_the_files_that_a_sandbox_lacks(person: Person) -> None:
    assert await dirty(person.project) == ()
    write(person.root / ".specs" / "app.md", "be better\n")
    write(person.root / ".specs" / "more" / "deep.md", "more\n")
    write(person.root / "folder" / "file", "changed\n")
    write(person.root / "new" / "one", "")
    (person.root / "kept").unlink()
    assert await dirty(person.project) == ("folder/file", "kept", "new")


@BOTH
async def test_specs_that_the_person_deleted_are_not_in_the_sandbox(person: Person, launcher: tuple[str, ...]) -> None:
    (person.root / ".specs" / "app.md").unlink()
    (person.root / ".specs").rmdir()
    sandbox = await provision(person.project, person.config(launcher=launcher))
    assert files(sandbox.folder) == [".gitignore", "folder/file", "kept"]


async def test_a_branch_as_the_base_is_the_target(person: Person) -> None:
    git(person.top, "branch", "develop")
    git(person.top, "update-ref", "refs/remotes/origin/release/2", "HEAD")
    project, config = person.project, person.config()
    for base, target in (("develop", "develop"), ("origin/release/2", "release/2"), ("HEAD~0", "main")):
        assert (await provision(project, config, base=base)).target == target


async def test_a_sandbox_that_cannot_be_made_leaves_nothing(person: Person, tmp_path: Path) -> None:
    empty, unborn = (Project.find(write(tmp_path / name / "file", "").parent) for name in ("empty", "unborn"))
    git(unborn.root, "init", "-q")
    config = person.config()
    inside = msgspec.structs.replace(config, spawn=msgspec.structs.replace(config.spawn, root="below"))
    for reason, project, settings, base in (
        ("'nonsense' does not name a commit", person.project, config, "nonsense"),
        ("'--help' does not name a commit", person.project, config, "--help"),
        ("is in the repository", person.project, inside, None),
        ("leads out of the project", person.project, person.config(include=("../*",)), None),
        ("is not in a git repository", empty, config, None),
        ("has no commit yet", unborn, config, None),
    ):
        with pytest.raises(SandboxError, match=reason):
            await provision(project, settings, base=base)
    assert left(person) == listing(person.project.spawns) == []
    assert person.branches == ["main"]


async def test_no_hook_runs_and_no_filter_that_is_a_script_in_the_tree(person: Person, tmp_path: Path) -> None:
    script = f"#!/bin/sh\ntouch {tmp_path}/ran; cat\n"
    write(person.root / "a-tool", script).chmod(0o755)
    write(person.root / ".gitattributes", "kept filter=own\n")
    git(person.top, "add", ".")
    git(person.top, "commit", "-qm", "attributes")
    git(person.top, "config", "filter.own.smudge", "./a-tool")
    git(person.top, "config", "filter.own.clean", "./a-tool")
    write(person.top / ".git" / "hooks" / "post-checkout", script).chmod(0o755)
    await provision(person.project, person.config())
    assert not (tmp_path / "ran").exists()


# ---- many at once, killed, cancelled ----------------------------------------------------------


async def test_eight_at_once_do_not_disturb_each_other(person: Person) -> None:
    """Worktrees and clones are made and removed."""
    project = person.project
    made = []

    async def one(number: int) -> None:
        sandbox = await provision(project, person.config(launcher=LAUNCHER if number % 4 == 3 else ()))
        made.append(sandbox.id)
        await remove(project, sandbox, force=False)

    before = person.belongings()
    with trio.fail_after(300):
        for _ in range(3):
            async with trio.open_nursery() as nursery:
                for number in range(8):
                    nursery.start_soon(one, number)
    assert len(set(made)) == 24
    assert person.branches == ["main"]
    assert person.belongings() == before


PROGRAM = """
import sys, json, trio
from pathlib import Path
from cuggino.config import Config, SpawnSettings
from cuggino.project import Project
from cuggino.sandbox.provision import provision
async def main():
    project = Project.find(Path(sys.argv[1]))
    config = Config(spawn=SpawnSettings(root=sys.argv[2]))
    async with trio.open_nursery() as nursery:
        for _ in range(int(sys.argv[3])):
            nursery.start_soon(provision, project, config)
trio.run(main)
"""


def _program(person: Person, count: int) -> list[str]:
    root = str(person.top.parent / "sandboxes")
    return [sys.executable, "-P", "-c", PROGRAM, str(person.root), root, str(count)]


async def test_making_and_removing_wait_for_the_repository_s_lock(person: Person) -> None:
    common = person.top / ".git"
    async with trio.open_nursery() as nursery, repository_lock(common):
        nursery.start_soon(provision, person.project, person.config())
        await _until(lambda: records.load_all(person.project) != [])
        await trio.sleep(0.2)
        assert listing(common / "worktrees") == []
    (record,) = records.load_all(person.project)
    assert record.stage is SandboxStage.MADE
    async with trio.open_nursery() as nursery, repository_lock(common):
        nursery.start_soon(partial(remove, person.project, record.sandbox, force=False))
        await _until(lambda: not record.exists)
        await trio.sleep(0.2)
        assert listing(common / "worktrees") == [record.sandbox.id]
    assert person.branches == ["main"]


async def _until(condition: Callable[[], bool]) -> None:
    with trio.fail_after(60):
        while not condition():  # noqa: ASYNC110 - files of another process
            await trio.sleep(0.01)


async def test_several_processes_do_not_disturb_each_other(person: Person) -> None:
    with trio.fail_after(300):
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(trio.run_process, _program(person, 3))
    assert len(person.branches) == 1 + 9
    assert {record.stage for record in records.load_all(person.project)} == {SandboxStage.MADE}


async def test_sandboxes_whose_making_was_killed_can_be_removed(person: Person) -> None:
    """Wherever it was killed, the remains are on record and can be removed without force."""
    before = person.belongings()
    process = await trio.lowlevel.open_process(_program(person, 6), start_new_session=True)
    with trio.fail_after(120):
        await _until(lambda: records.load_all(person.project) != [])
        await trio.sleep(0.1)
    os.killpg(process.pid, signal.SIGKILL)  # git, too
    await process.wait()
    remains = records.load_all(person.project)
    assert remains
    for lock in (person.top / ".git").rglob("*.lock"):  # git itself leaves these when it is killed
        if lock.name != "cuggino.lock":
            lock.unlink()
    for record in remains:
        await remove(person.project, record.sandbox, force=False)
    assert person.belongings() == before
    assert person.branches == ["main"]
    assert left(person) == []


@pytest.mark.parametrize("seconds", [0.02, 0.1, 0.2, 0.4])
async def test_a_cancelled_sandbox_leaves_nothing(person: Person, seconds: float) -> None:
    with trio.move_on_after(seconds) as scope:
        await provision(person.project, person.config(launcher=LAUNCHER))
    if scope.cancelled_caught:
        assert person.branches == ["main"]
        assert left(person) == []
        assert records.load_all(person.project) == []


async def test_a_clone_has_the_history_of_the_base_and_nothing_else(person: Person) -> None:
    git(person.top, "checkout", "-qb", "private")
    write(person.root / "private", "a private word\n")
    git(person.top, "add", ".")
    git(person.top, "commit", "-qm", "private")
    private = git(person.top, "rev-parse", "HEAD").strip()
    git(person.top, "checkout", "-q", "main")
    git(person.top, "remote", "add", "origin", "https://token@example.invalid/o/r.git")
    sandbox = await provision(person.project, person.config(launcher=LAUNCHER))
    assert has(person.top, private)
    assert not has(sandbox.folder, private)
    assert git(sandbox.folder, "remote") == ""
    assert "token" not in (sandbox.folder / ".git" / "config").read_text()
    assert git(sandbox.folder, "fsck", "--strict") == ""


@BOTH
async def test_the_agent_s_own_git_ignores_the_lent_files(person: Person, launcher: tuple[str, ...]) -> None:
    """With the variables of its environment, not even `git add --all` adds them."""
    write(person.root / ".specs" / "app.md", "be better\n")
    write(person.root / ".specs" / "new.md", "new\n")
    write(person.root / "not ignored.env", "x\n")
    config = person.config(launcher=launcher, include=("not ignored.env",))
    sandbox = await provision(person.project, config)
    variables = await git_variables(sandbox)
    assert git(sandbox.folder, "status", "--short", environment={"PATH": os.environ["PATH"], **variables}) == ""
