"""Removing a sandbox loses no work and leaves nothing behind. Real git."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import trio
import trio.testing

from cuggino.errors import SandboxError
from cuggino.git.locked import repository_lock
from cuggino.project import Project
from cuggino.sandbox import records
from cuggino.sandbox.provision import provision
from cuggino.sandbox.records import SandboxStage
from cuggino.sandbox.removal import remove, remove_tree, uncommitted
from cuggino.sandbox.sandbox import Sandbox
from cuggino.sandbox.settle import settle
from cuggino.watch.places.sandbox import prune
from tests.process.sandbox.person import LAUNCHER, Person, commit, git, listing, permits, write


@pytest.fixture(params=[(), LAUNCHER], ids=["worktree", "clone"])
async def sandbox(person: Person, request: pytest.FixtureRequest) -> Sandbox:
    write(person.root / ".specs" / "app.md", "be better\n")
    return await provision(person.project, person.config(launcher=request.param, include=(".env",)))


@pytest.fixture
async def tip(sandbox: Sandbox) -> str:
    """The commit of settled work."""
    return await settle_work(sandbox)


async def settle_work(sandbox: Sandbox, name: str = "kept") -> str:
    write(sandbox.folder / name, "work\n")
    return f"{(await settle(sandbox, permits(), 'Work')).tip}"


def gone(person: Person, sandbox: Sandbox) -> bool:
    assert listing(person.top / ".git" / "worktrees") == []
    assert not os.path.lexists(sandbox.folder)
    assert [record.stage for record in records.load_all(person.project)] == [SandboxStage.REMOVED]
    return person.branches == ["main"]


def record_of(person: Person, sandbox: Sandbox) -> records.SandboxRecord:
    record = records.find(person.project, sandbox.id)
    assert record is not None
    return record


async def removed(person: Person, sandbox: Sandbox, *, force: bool = False) -> bool:
    await remove(person.project, sandbox, force=force)
    return gone(person, sandbox)


async def refused(person: Person, sandbox: Sandbox, reason: str) -> None:
    with pytest.raises(SandboxError, match=reason):
        await remove(person.project, sandbox, force=False)


@pytest.mark.parametrize("what", ["new", "kept", ".specs/app.md", ".env", "folder/file"])
async def test_uncommitted_work_is_only_removed_by_force(person: Person, sandbox: Sandbox, what: str) -> None:
    if what == "folder/file":
        (sandbox.folder / what).unlink()
    else:
        write(sandbox.folder / what, "mine\n")
    await refused(person, sandbox, f"not committed: {what}")
    assert await uncommitted(sandbox) == [what]
    assert record_of(person, sandbox).stage is SandboxStage.MADE
    assert await removed(person, sandbox, force=True)


@pytest.mark.parametrize("command", [("update-ref", "refs/remotes/origin/theirs"), ("merge", "-q")])
async def test_work_that_is_pushed_or_merged_can_be_removed(
    person: Person, sandbox: Sandbox, tip: str, command: tuple[str, ...]
) -> None:
    await refused(person, sandbox, "neither pushed nor merged")
    git(person.top, *command, tip)
    assert await removed(person, sandbox)
    assert person.log(tip) == ["Work", "first"]


async def test_commits_beside_the_branch_prevent_removal(person: Person) -> None:
    sandbox = await provision(person.project, person.config())
    git(sandbox.folder, "checkout", "-q", "--detach")
    write(sandbox.folder / "kept", "work\n")
    beside = commit(sandbox, "beside", "kept")
    await refused(person, sandbox, "neither pushed nor merged")
    git(person.top, "tag", "kept", beside)
    assert await removed(person, sandbox)


async def test_commits_in_a_clone_that_are_not_settled_prevent_removal(person: Person) -> None:
    sandbox = await provision(person.project, person.config(launcher=LAUNCHER))
    write(sandbox.folder / "kept", "work\n")
    commit(sandbox, "not settled", "kept")
    await refused(person, sandbox, "not committed: kept")


@pytest.mark.parametrize("worked", [False, True])
async def test_when_the_directory_was_deleted_only_work_on_the_branch_prevents_removal(
    person: Person, sandbox: Sandbox, worked: bool
) -> None:
    if worked:
        await settle_work(sandbox)
    shutil.rmtree(sandbox.folder)
    assert not record_of(person, sandbox).exists
    if worked:
        await refused(person, sandbox, "neither pushed nor merged")
    assert await removed(person, sandbox, force=worked)


@pytest.mark.parametrize("how", ["the repository was moved", "no git directory", "no HEAD"])
async def test_where_git_cannot_say_what_is_committed_nothing_is_removed_without_force(
    person: Person, sandbox: Sandbox, how: str
) -> None:
    write(sandbox.folder / "kept", "the only copy\n")
    project = person.project
    if how == "the repository was moved":
        project = Project(person.top.rename(person.top.with_name("moved")))
    elif how == "no git directory":
        shutil.rmtree(sandbox.git_dir)
    else:
        (sandbox.git_dir / "HEAD").write_text("ref: refs/heads/nowhere\n")
    with pytest.raises(SandboxError, match="cannot be compared") as error:
        await remove(project, sandbox, force=False)
    assert str(sandbox.git_dir) in error.value.message
    assert (sandbox.folder / "kept").read_text() == "the only copy\n"
    await remove(project, sandbox, force=True)
    assert not sandbox.folder.exists()
    assert [record.stage for record in records.load_all(project)] == [SandboxStage.REMOVED]


async def test_a_sandbox_without_a_record_is_found(person: Person, sandbox: Sandbox) -> None:
    shutil.rmtree(person.project.spawns)
    (found,) = await records.unrecorded(person.project)
    assert found.sandbox == sandbox
    assert await removed(person, found.sandbox)
    assert await records.unrecorded(person.project) == ()


async def test_ignored_files_and_read_only_directories_are_removed(
    person: Person, sandbox: Sandbox, tmp_path: Path
) -> None:
    outside = write(tmp_path / "outside" / "file", "kept\n")
    write(sandbox.folder / "build" / "cache" / "module", "x")
    (sandbox.folder / "build" / "link").symlink_to(outside.parent)
    for folder in (sandbox.folder / "build" / "cache", sandbox.folder / "build"):
        folder.chmod(0o555)
    assert await removed(person, sandbox)
    assert outside.read_text() == "kept\n"


@pytest.mark.parametrize("step", range(4))
async def test_a_removal_that_was_killed_is_finished(person: Person, sandbox: Sandbox, tip: str, step: int) -> None:
    """Once the decision is on record nothing is checked again, wherever the removal was killed."""
    write(sandbox.folder / "kept", "not wanted\n")
    records.save(person.project, sandbox, SandboxStage.REMOVING, tip=tip)
    if step >= 1:
        (sandbox.folder / "kept").unlink()
    if step >= 2:
        shutil.rmtree(sandbox.folder)
    if step >= 3:
        await remove_tree(sandbox, tip=tip)
    assert await removed(person, sandbox)
    assert await removed(person, sandbox)


async def test_a_commit_after_the_decision_keeps_the_branch(person: Person, sandbox: Sandbox, tip: str) -> None:
    records.save(person.project, sandbox, SandboxStage.REMOVING, tip=tip)
    shutil.rmtree(sandbox.folder)
    later = git(person.top, "commit-tree", "-m", "A person's", "-p", tip, f"{tip}^{{tree}}").strip()
    git(person.top, "update-ref", f"refs/heads/{sandbox.branch}", later)
    await remove(person.project, sandbox, force=True)
    assert person.branches == ["main", sandbox.branch]
    assert not sandbox.git_dir.exists()


@pytest.mark.parametrize("force", [False, True])
async def test_a_killed_removal_that_was_to_keep_the_branch_keeps_it_without_force(
    person: Person, sandbox: Sandbox, force: bool
) -> None:
    """The directory goes. Then the branch is checked as in any sandbox."""
    await settle_work(sandbox)
    records.save(person.project, sandbox, SandboxStage.REMOVING)
    (sandbox.folder / "kept").unlink()
    if force:
        assert await removed(person, sandbox, force=True)
        return
    await refused(person, sandbox, "neither pushed nor merged")
    assert not sandbox.folder.exists()
    assert sandbox.branch in person.branches
    assert record_of(person, sandbox).stage is SandboxStage.INTEGRATED


async def test_a_killed_watch_s_decisions_about_items_are_finished(person: Person) -> None:
    """It had merged and archived an item, and may have started to remove its sandbox. Other sandboxes stay."""

    async def worked(item: str | None, *, merged: bool = True) -> Sandbox:
        sandbox = await provision(person.project, person.config(), title="work", item=item)
        await settle_work(sandbox, f"of-{sandbox.id}")
        if merged:
            git(person.top, "merge", "-q", "--no-edit", str(sandbox.branch))
        records.save(person.project, sandbox, SandboxStage.WORKED)
        return sandbox

    archived, torn = await worked("1.md"), await worked("2.md")
    tip = git(person.top, "rev-parse", str(torn.branch)).strip()
    records.save(person.project, torn, SandboxStage.REMOVING, tip=tip)
    (torn.folder / "kept").unlink()
    (torn.folder / ".git").unlink()
    half_made = await provision(person.project, person.config(), title="work", item="1.md")
    records.save(person.project, half_made, SandboxStage.MAKING)
    (half_made.folder / "kept").unlink()
    removed_by_hand = await worked("3.md", merged=False)
    (person.project.backlog / "4.md").write_text("not archived yet")
    waits, spawned = await worked("4.md"), await worked(None)
    write((await worked("5.md")).folder / "kept", "later\n")
    await prune(person.project)
    stages = {record.sandbox.id: (record.stage, record.exists) for record in records.load_all(person.project)}
    assert {stages.pop(each.id) for each in (archived, torn, half_made)} == {(SandboxStage.REMOVED, False)}
    assert set(stages.values()) == {(SandboxStage.WORKED, True)}
    assert {removed_by_hand.id, waits.id, spawned.id} < set(stages)
    assert not {archived.branch, torn.branch, half_made.branch} & set(person.branches)


async def test_a_branch_that_the_person_has_checked_out_stays(person: Person, sandbox: Sandbox) -> None:
    await settle_work(sandbox)
    git(person.top, "symbolic-ref", "HEAD", f"refs/heads/{sandbox.branch}")
    await remove(person.project, sandbox, force=True)
    assert person.branches == ["main", sandbox.branch]


async def test_a_sandbox_is_found_by_the_start_of_its_id(person: Person) -> None:
    first = await provision(person.project, person.config())
    second = await provision(person.project, person.config())
    assert [record.sandbox for record in records.load_all(person.project)] == [first, second]
    write(person.project.spawns / first.id / "sandbox.json", "{")
    assert [record.sandbox for record in records.load_all(person.project)] == [second]
    assert records.find(person.project, first.id) is None


# ---- the lock ---------------------------------------------------------------------------------


async def test_one_task_at_a_time_has_the_lock_and_waiting_for_it_can_be_cancelled(tmp_path: Path) -> None:
    order: list[str] = []

    async def work(name: str) -> None:
        async with repository_lock(tmp_path):
            order.append(f"{name} starts")
            await trio.lowlevel.checkpoint()
            order.append(f"{name} ends")

    async with repository_lock(tmp_path), trio.open_nursery() as nursery:
        nursery.start_soon(work, "nobody")
        with pytest.raises(RuntimeError, match="already held"):
            await work("the same task")
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert order == []
    async with trio.open_nursery() as nursery:
        for name in "abc":
            nursery.start_soon(work, name)
    assert [word.split()[1] for word in order] == ["starts", "ends"] * 3


async def test_the_lock_excludes_other_processes_and_ends_with_its_holder(tmp_path: Path) -> None:
    program = "import fcntl, sys, time; file = open(sys.argv[1], 'w'); fcntl.flock(file, fcntl.LOCK_EX);"
    program += "print(flush=True); time.sleep(600)"
    command = [sys.executable, "-c", program, str(tmp_path / "cuggino.lock")]
    holder = await trio.lowlevel.open_process(command, stdout=subprocess.PIPE)
    assert holder.stdout is not None
    await holder.stdout.receive_some()
    with trio.move_on_after(0.1) as scope:
        async with repository_lock(tmp_path):
            raise AssertionError("two have it")
    assert scope.cancelled_caught
    holder.kill()
    with trio.fail_after(60):
        async with repository_lock(tmp_path):
            await holder.wait()
    await holder.stdout.aclose()
