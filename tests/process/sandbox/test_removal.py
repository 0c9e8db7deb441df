"""Nothing is lost by removing a sandbox, and nothing is left of one. Real git."""

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


def gone(person: Person, sandbox: Sandbox) -> bool:
    assert listing(person.top / ".git" / "worktrees") == []
    assert not os.path.lexists(sandbox.folder)
    assert [record.stage for record in records.load_all(person.project)] == [SandboxStage.REMOVED]
    return person.branches == ["main"]


def record_of(person: Person, sandbox: Sandbox) -> records.SandboxRecord:
    record = records.find(person.project, sandbox.id)
    assert record is not None
    return record


async def test_one_that_nothing_was_done_in_goes(person: Person, sandbox: Sandbox) -> None:
    write(sandbox.folder / "build" / "output", "ignored\n")
    await remove(person.project, sandbox, force=False)
    assert gone(person, sandbox)


@pytest.mark.parametrize("what", ["new", "kept", ".specs/app.md", ".env", "folder/file"])
async def test_what_is_not_committed_keeps_it(person: Person, sandbox: Sandbox, what: str) -> None:
    if what == "folder/file":
        (sandbox.folder / what).unlink()
    else:
        write(sandbox.folder / what, "mine\n")
    with pytest.raises(SandboxError, match=f"not committed: {what}"):
        await remove(person.project, sandbox, force=False)
    assert await uncommitted(sandbox) == [what]
    assert record_of(person, sandbox).stage is SandboxStage.MADE
    await remove(person.project, sandbox, force=True)
    assert gone(person, sandbox)


async def test_what_is_in_no_other_place_keeps_it(person: Person, sandbox: Sandbox) -> None:
    write(sandbox.folder / "kept", "work\n")
    settled = await settle(sandbox, permits(), "Work")
    assert settled.tip is not None
    with pytest.raises(SandboxError, match="neither pushed nor merged"):
        await remove(person.project, sandbox, force=False)
    git(person.top, "update-ref", "refs/remotes/origin/theirs", settled.tip)
    await remove(person.project, sandbox, force=False)
    assert gone(person, sandbox)


async def test_what_is_merged_goes(person: Person, sandbox: Sandbox) -> None:
    write(sandbox.folder / "kept", "work\n")
    await settle(sandbox, permits(), "Work")
    git(person.top, "merge", "-q", str(sandbox.branch))
    await remove(person.project, sandbox, force=False)
    assert gone(person, sandbox)
    assert person.log() == ["Work", "first"]


async def test_commits_beside_the_branch_keep_it(person: Person) -> None:
    sandbox = await provision(person.project, person.config())
    git(sandbox.folder, "checkout", "-q", "--detach")
    write(sandbox.folder / "kept", "work\n")
    tip = commit(sandbox, "beside", "kept")
    with pytest.raises(SandboxError, match="neither pushed nor merged"):
        await remove(person.project, sandbox, force=False)
    git(person.top, "tag", "kept", tip)
    await remove(person.project, sandbox, force=False)
    assert gone(person, sandbox)


async def test_a_clone_s_commits_that_were_not_settled_keep_it(person: Person) -> None:
    sandbox = await provision(person.project, person.config(launcher=LAUNCHER))
    write(sandbox.folder / "kept", "work\n")
    commit(sandbox, "not settled", "kept")
    with pytest.raises(SandboxError, match="not committed: kept"):
        await remove(person.project, sandbox, force=False)


async def test_a_folder_that_was_deleted_by_hand(person: Person, sandbox: Sandbox) -> None:
    shutil.rmtree(sandbox.folder)
    assert not record_of(person, sandbox).exists
    await remove(person.project, sandbox, force=False)
    assert gone(person, sandbox)


async def test_a_folder_that_was_deleted_by_hand_though_its_branch_has_work(person: Person, sandbox: Sandbox) -> None:
    write(sandbox.folder / "kept", "work\n")
    await settle(sandbox, permits(), "Work")
    shutil.rmtree(sandbox.folder)
    with pytest.raises(SandboxError, match="neither pushed nor merged"):
        await remove(person.project, sandbox, force=False)
    await remove(person.project, sandbox, force=True)
    assert gone(person, sandbox)


async def test_one_whose_record_is_gone_is_found(person: Person, sandbox: Sandbox) -> None:
    shutil.rmtree(person.project.spawns)
    (found,) = await records.unrecorded(person.project)
    assert found.sandbox == sandbox
    await remove(person.project, found.sandbox, force=False)
    assert gone(person, sandbox)
    assert await records.unrecorded(person.project) == ()


async def test_folders_that_nobody_may_write_to(person: Person, sandbox: Sandbox, tmp_path: Path) -> None:
    outside = write(tmp_path / "outside" / "file", "kept\n")
    write(sandbox.folder / "build" / "cache" / "module", "x")
    (sandbox.folder / "build" / "link").symlink_to(outside.parent)
    for folder in (sandbox.folder / "build" / "cache", sandbox.folder / "build"):
        folder.chmod(0o555)
    await remove(person.project, sandbox, force=False)
    assert gone(person, sandbox)
    assert outside.read_text() == "kept\n"


@pytest.mark.parametrize("step", range(4))
async def test_a_removal_that_broke_off_is_finished(person: Person, sandbox: Sandbox, step: int) -> None:
    """With the record saying that it was decided, nothing is looked at again, wherever it was killed."""
    write(sandbox.folder / "kept", "work\n")
    settled = await settle(sandbox, permits(), "Work")
    write(sandbox.folder / "kept", "not wanted\n")
    records.save(person.project, sandbox, SandboxStage.REMOVING, tip=settled.tip)
    if step >= 1:
        (sandbox.folder / "kept").unlink()
    if step >= 2:
        shutil.rmtree(sandbox.folder)
    if step >= 3:
        await remove_tree(sandbox, tip=settled.tip)
    await remove(person.project, sandbox, force=False)
    assert gone(person, sandbox)
    await remove(person.project, sandbox, force=False)
    assert gone(person, sandbox)


async def test_a_commit_that_came_after_the_decision_keeps_the_branch(person: Person, sandbox: Sandbox) -> None:
    write(sandbox.folder / "kept", "work\n")
    settled = await settle(sandbox, permits(), "Work")
    records.save(person.project, sandbox, SandboxStage.REMOVING, tip=settled.tip)
    shutil.rmtree(sandbox.folder)
    later = git(
        person.top, "commit-tree", "-m", "A person's", "-p", f"{settled.tip}", f"{settled.tip}^{{tree}}"
    ).strip()
    git(person.top, "update-ref", f"refs/heads/{sandbox.branch}", later)
    await remove(person.project, sandbox, force=True)
    assert person.branches == ["main", sandbox.branch]
    assert not sandbox.git_dir.exists()


@pytest.mark.parametrize("force", [False, True])
async def test_of_one_whose_branch_was_to_stay_the_folder_goes_first(
    person: Person, sandbox: Sandbox, force: bool
) -> None:
    """And then it is like any sandbox: its work is in no other place."""
    write(sandbox.folder / "kept", "work\n")
    await settle(sandbox, permits(), "Work")
    records.save(person.project, sandbox, SandboxStage.REMOVING)
    (sandbox.folder / "kept").unlink()
    if force:
        await remove(person.project, sandbox, force=True)
        assert gone(person, sandbox)
        return
    with pytest.raises(SandboxError, match="neither pushed nor merged"):
        await remove(person.project, sandbox, force=False)
    assert not sandbox.folder.exists()
    assert sandbox.branch in person.branches
    assert record_of(person, sandbox).stage is SandboxStage.INTEGRATED


async def test_what_a_killed_watch_had_decided_about_items_is_finished(person: Person) -> None:
    """It had merged and archived an item, and had or had not begun to remove its sandbox; others' stay."""

    async def worked(item: str | None, *, merged: bool = True) -> Sandbox:
        sandbox = await provision(person.project, person.config(), title="work", item=item)
        write(sandbox.folder / f"of-{sandbox.id}", "work\n")
        await settle(sandbox, permits(), "Work")
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
    write(sandbox.folder / "kept", "work\n")
    await settle(sandbox, permits(), "Work")
    git(person.top, "symbolic-ref", "HEAD", f"refs/heads/{sandbox.branch}")
    await remove(person.project, sandbox, force=True)
    assert person.branches == ["main", sandbox.branch]


async def test_a_record_that_cannot_be_read_is_passed_over(person: Person) -> None:
    first = await provision(person.project, person.config())
    second = await provision(person.project, person.config())
    assert [record.sandbox for record in records.load_all(person.project)] == [first, second]
    write(person.project.spawns / first.id / "sandbox.json", "{")
    assert [record.sandbox for record in records.load_all(person.project)] == [second]
    assert records.find(person.project, first.id) is None


# ---- the lock ---------------------------------------------------------------------------------


async def test_the_lock_is_one_task_s_at_a_time_and_can_be_waited_for_in_vain(tmp_path: Path) -> None:
    order: list[str] = []

    async def work(name: str) -> None:
        async with repository_lock(tmp_path):
            order.append(f"{name} begins")
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
    assert [word.split()[1] for word in order] == ["begins", "ends"] * 3


HOLDER = """
import fcntl, sys, time
file = open(sys.argv[1], "w")
fcntl.flock(file, fcntl.LOCK_EX)
print(flush=True)
time.sleep(600)
"""


async def test_the_lock_holds_between_processes_and_ends_with_its_own(tmp_path: Path) -> None:
    holder = await trio.lowlevel.open_process(
        [sys.executable, "-c", HOLDER, str(tmp_path / "cuggino.lock")], stdout=subprocess.PIPE
    )
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
