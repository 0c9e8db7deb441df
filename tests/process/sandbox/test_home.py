"""Work that comes home by a merge, or stays on its branch, with real git. For pull requests see tests/e2e."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
import pytest
import trio

from cuggino.config import Integrate
from cuggino.errors import SandboxError
from cuggino.events import ConflictsFound
from cuggino.integrate.integration import Integration, IntegrationResult, integrate
from cuggino.integrate.merge import MergeContext, RepairRequest
from cuggino.sandbox.leaks import Leak
from cuggino.sandbox.sandbox import Sandbox
from tests.process.sandbox.merge_house import (
    PERMITS,
    Sent,
    commit,
    git,
    lines,
    new_repository,
    new_sandbox,
    nobodys_configuration,
    tip,
    tree,
    write,
)


@pytest.fixture(autouse=True)
def _nobodys_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nobodys_configuration(tmp_path, monkeypatch)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    return new_repository(tmp_path / "project", {"list": lines(), "other": lines()})


@pytest.fixture
def sandbox(repository: Path, tmp_path: Path) -> Sandbox:
    return new_sandbox(repository, tmp_path / "sandboxes")


def integration(
    sandbox: Sandbox,
    chosen: Integrate | None = "merge",
    *,
    check: Callable[[Path], Awaitable[bool]] | None = None,
    repair: Callable[[RepairRequest], Awaitable[bool]] | None = None,
) -> Integration:
    return Integration(
        context=MergeContext(sandbox=sandbox, permits=PERMITS, check=check, repair=repair),
        tip=tip(sandbox),
        title="Do the thing",
        chosen=chosen,
    )


def main(repository: Path) -> str:
    return git(repository, "rev-parse", "refs/heads/main")


def status(folder: Path) -> str:
    return git(folder, "status", "--porcelain")


async def test_nothing_changed(sandbox: Sandbox) -> None:
    home = await integrate(msgspec.structs.replace(integration(sandbox), tip=None), Sent())
    assert home.how == "nothing"


async def test_without_an_origin_the_branch_is_kept_and_it_says_why(sandbox: Sandbox) -> None:
    ours = commit(sandbox.folder, {"list": "x\n"})
    home = await integrate(integration(sandbox, None), Sent())
    assert (home.how, home.branch, home.tip) == ("branch", sandbox.branch, ours)
    assert home.reason == "There is no origin on GitHub. The branch is kept."
    chosen = await integrate(integration(sandbox, "pr"), Sent())
    assert (chosen.how, chosen.reason) == ("kept", "There is no origin on GitHub.")
    plain = await integrate(integration(sandbox, "branch"), Sent())
    assert (plain.how, plain.reason) == ("branch", "")


async def test_a_base_that_stood_still_moves_forward_in_a_straight_line(sandbox: Sandbox) -> None:
    base = main(sandbox.repository)
    ours = commit(sandbox.folder, {"list": "x\n", "new": "y\n"}, "The thing")
    home = await integrate(integration(sandbox), Sent())
    assert (home.how, home.base, home.tip, home.merged) == ("merge", base, ours, None)
    assert main(sandbox.repository) == ours
    assert (sandbox.repository / "new").read_text() == "y\n"
    assert status(sandbox.repository) == ""


async def test_a_base_that_moved_is_merged_first_and_the_log_says_what(sandbox: Sandbox) -> None:
    ours = commit(sandbox.folder, {"list": "x\n"}, "The thing")
    theirs = commit(sandbox.repository, {"other": "y\n"}, "Something else")
    home = await integrate(integration(sandbox), Sent())
    assert (home.how, home.merged) == ("merge", "clean")
    assert (
        git(sandbox.repository, "log", "--first-parent", "--format=%s") == "Merge Do the thing\nSomething else\nfirst"
    )
    assert git(sandbox.repository, "log", "-1", "--format=%P%n%b").split() == [
        *(theirs, ours, "Branch:", str(sandbox.branch))
    ]
    assert status(sandbox.repository) == status(sandbox.folder) == ""
    assert tree(sandbox.repository) == tree(sandbox.folder)
    assert home.base is not None
    assert home.tip is not None
    assert git(sandbox.repository, "diff", "--name-only", home.base, home.tip) == "list"


async def test_a_base_that_is_checked_out_nowhere(sandbox: Sandbox) -> None:
    git(sandbox.repository, "checkout", "--quiet", "-b", "elsewhere")
    before = tree(sandbox.repository)
    ours = commit(sandbox.folder, {"list": "x\n"})
    assert (await integrate(integration(sandbox), Sent())).how == "merge"
    assert main(sandbox.repository) == ours
    assert tree(sandbox.repository) == before
    assert status(sandbox.repository) == ""


async def test_a_base_that_is_checked_out_in_another_worktree(sandbox: Sandbox, tmp_path: Path) -> None:
    git(sandbox.repository, "checkout", "--quiet", "-b", "elsewhere")
    git(sandbox.repository, "worktree", "add", "--quiet", str(tmp_path / "other tree"), "main")
    ours = commit(sandbox.folder, {"list": "x\n"})
    assert (await integrate(integration(sandbox), Sent())).how == "merge"
    assert (tmp_path / "other tree" / "list").read_text() == "x\n"
    assert git(tmp_path / "other tree", "rev-parse", "HEAD") == ours
    assert status(tmp_path / "other tree") == ""


async def test_the_persons_other_changes_stay(sandbox: Sandbox) -> None:
    commit(sandbox.folder, {"list": "x\n"})
    write(sandbox.repository, {"other": "in work\n", "staged": "s\n", "untracked": "u\n"})
    git(sandbox.repository, "add", "staged")
    git(sandbox.repository, "config", "merge.autoStash", "true")
    before = status(sandbox.repository)
    assert (await integrate(integration(sandbox), Sent())).how == "merge"
    assert status(sandbox.repository) == before
    assert (sandbox.repository / "other").read_text() == "in work\n"


@pytest.mark.parametrize("theirs", [{"list": "in work\n"}, {"new": "in work, untracked\n"}])
async def test_the_persons_changes_in_the_same_paths_prevent_it(sandbox: Sandbox, theirs: dict[str, str]) -> None:
    ours = commit(sandbox.folder, {"list": "x\n", "new": "y\n"})
    commit(sandbox.repository, {"other": "moved\n"})
    write(sandbox.repository, theirs)
    git(sandbox.repository, "config", "merge.autoStash", "true")
    before = (main(sandbox.repository), tree(sandbox.repository), status(sandbox.repository))
    home = await integrate(integration(sandbox), Sent())
    assert home.how == "kept"
    assert "would be overwritten by merge" in home.reason
    assert next(iter(theirs)) in home.reason
    assert (main(sandbox.repository), tree(sandbox.repository), status(sandbox.repository)) == before
    assert git(sandbox.repository, "stash", "list") == ""
    assert tip(sandbox) == ours
    assert status(sandbox.folder) == ""
    git(sandbox.repository, "stash", "--include-untracked")
    assert (await integrate(integration(sandbox), Sent())).how == "merge"


async def test_a_rebase_of_the_base_is_not_disturbed(sandbox: Sandbox) -> None:
    commit(sandbox.folder, {"other": "x\n"})
    git(sandbox.repository, "checkout", "--quiet", "-b", "onto")
    commit(sandbox.repository, {"list": "onto\n"})
    git(sandbox.repository, "checkout", "--quiet", "main")
    before = commit(sandbox.repository, {"list": "main\n"})
    git(sandbox.repository, "rebase", "onto", check=False)
    home = await integrate(integration(sandbox), Sent())
    assert (home.how, home.reason) == ("kept", "main cannot be moved forward: main is being rebased.")
    assert main(sandbox.repository) == before


async def test_the_check_command_sees_the_merge_and_can_prevent_it(sandbox: Sandbox) -> None:
    ours = commit(sandbox.folder, {"list": "x\n"})
    seen = []

    async def check(root: Path) -> bool:
        seen.append(((root / "list").read_text(), (root / "other").read_text() == "y\n"))
        return False

    assert (await integrate(integration(sandbox, check=check), Sent())).reason == "The check command fails."
    theirs = commit(sandbox.repository, {"other": "y\n"})
    home = await integrate(integration(sandbox, check=check), Sent())
    assert (home.how, home.reason) == ("kept", "The check command fails after the merge.")
    assert seen == [("x\n", False), ("x\n", True)]
    assert (main(sandbox.repository), tip(sandbox)) == (theirs, ours)
    assert status(sandbox.folder) == ""


async def test_somebody_moves_the_base_while_it_is_checked(sandbox: Sandbox) -> None:
    """The merge is made anew, on what is there now, and the one that came too late is nowhere."""
    ours = commit(sandbox.folder, {"list": "x\n"})
    commit(sandbox.repository, {"other": "1\n"})
    moved: list[str] = []

    async def check(root: Path) -> bool:
        if len(moved) < 2:
            moved.append(commit(sandbox.repository, {"other": f"moved {len(moved)}\n"}, "moved"))
        return True

    home = await integrate(integration(sandbox, check=check), Sent())
    assert home.how == "merge"
    assert git(sandbox.repository, "log", "-1", "--format=%P") == f"{moved[1]} {ours}"
    assert git(sandbox.repository, "rev-list", "--merges", "--count", "main") == "1"
    assert status(sandbox.repository) == status(sandbox.folder) == ""


async def test_somebody_moves_a_base_that_is_checked_out_nowhere(sandbox: Sandbox) -> None:
    commit(sandbox.folder, {"list": "x\n"})
    git(sandbox.repository, "checkout", "--quiet", "-b", "elsewhere")
    theirs = commit(sandbox.repository, {"other": "moved\n"})

    async def check(root: Path) -> bool:
        git(sandbox.repository, "update-ref", "refs/heads/main", theirs)
        return True

    assert (await integrate(integration(sandbox, check=check), Sent())).how == "merge"
    assert git(sandbox.repository, "merge-base", "--is-ancestor", theirs, "main") == ""


async def test_a_base_that_never_stands_still(sandbox: Sandbox) -> None:
    ours = commit(sandbox.folder, {"list": "x\n"})

    async def check(root: Path) -> bool:
        commit(sandbox.repository, {}, "moved")
        return True

    home = await integrate(integration(sandbox, check=check), Sent())
    assert (home.how, home.reason) == ("kept", "main moved again during each of 5 merges.")
    assert tip(sandbox) == ours
    assert status(sandbox.folder) == ""


async def test_eight_come_home_one_after_the_other(repository: Path, tmp_path: Path) -> None:
    """All with a line in the same place: each is a small conflict with those before it."""
    sandboxes = [new_sandbox(repository, tmp_path / "sandboxes") for _ in range(8)]
    busy: list[int] = []
    homes: list[IntegrationResult] = []
    sent = Sent()
    for number, sandbox in enumerate(sandboxes):
        commit(sandbox.folder, {"list": lines(after_20=f"line {number}"), f"new-{number}": "x\n"}, f"thing {number}")

    async def check(root: Path) -> bool:
        busy.append(1)
        assert len(busy) == 1
        await trio.lowlevel.checkpoint()
        busy.pop()
        return True

    async def one(sandbox: Sandbox) -> None:
        homes.append(await integrate(integration(sandbox, check=check), sent))

    async with trio.open_nursery() as nursery:
        for sandbox in sandboxes:
            nursery.start_soon(one, sandbox)
    assert {home.how for home in homes} == {"merge"}
    text = (repository / "list").read_text().splitlines()
    assert sorted(text[20:28]) == [f"line {number}" for number in range(8)]
    assert all((repository / f"new-{number}").exists() for number in range(8))
    assert status(repository) == ""
    assert [event.small for event in sent if isinstance(event, ConflictsFound)] == [True] * 7
    assert git(repository, "rev-list", "--first-parent", "--count", "main") == "9"


async def test_an_unrepairable_conflict_leaves_everything(sandbox: Sandbox) -> None:
    ours = commit(sandbox.folder, {"list": lines(line_5="ours")})
    theirs = commit(sandbox.repository, {"list": lines(line_5="theirs")})
    attempts = []

    async def repair(request: RepairRequest) -> bool:
        attempts.append(request.attempt)
        write(sandbox.folder, {"more": "half\n"})
        return True

    home = await integrate(integration(sandbox, repair=repair), Sent())
    assert home.how == "kept"
    assert home.reason == "It conflicts with the base: list (contents). It could not be repaired."
    assert [str(conflict) for conflict in home.conflicts] == ["list (contents)"]
    assert attempts == [1, 2]
    assert (main(sandbox.repository), tip(sandbox)) == (theirs, ours)
    assert git(sandbox.folder, "diff", "--stat") == ""


async def test_a_repair_is_kept_when_the_base_cannot_be_moved(sandbox: Sandbox) -> None:
    """It has cost a model's time: the next try goes on from it."""
    commit(sandbox.folder, {"list": lines(line_5="ours")})
    commit(sandbox.repository, {"list": lines(line_5="theirs")})
    write(sandbox.repository, {"list": "in work\n"})

    async def repair(request: RepairRequest) -> bool:
        write(sandbox.folder, {"list": lines(line_5="both")})
        return True

    home = await integrate(integration(sandbox, repair=repair), Sent())
    assert (home.how, home.merged, home.tip) == ("kept", "repair", tip(sandbox))
    git(sandbox.repository, "checkout", "list")
    again = await integrate(integration(sandbox), Sent())
    assert (again.how, main(sandbox.repository)) == ("merge", home.tip)


@pytest.mark.parametrize("moved", [False, True])
async def test_a_crash_at_any_step_can_be_done_again(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch, moved: bool
) -> None:
    """git is killed, as it were, before its first, second, third … command; then all is done again."""
    real = trio.run_process

    class Killed(Exception):
        pass

    ours = commit(sandbox.folder, {"list": "x\n"})
    theirs = commit(sandbox.repository, {"other": "y\n"}) if moved else main(sandbox.repository)
    for steps in range(200):
        left = steps

        async def dying(*arguments, **options):  # type: ignore[no-untyped-def]
            nonlocal left
            if left == 0:
                raise Killed
            left -= 1
            return await real(*arguments, **options)

        monkeypatch.setattr(trio, "run_process", dying)
        try:
            home = await integrate(integration(sandbox), Sent())
        except Killed:
            monkeypatch.setattr(trio, "run_process", real)
        else:
            break
        assert git(sandbox.repository, "merge-base", "--is-ancestor", ours, tip(sandbox)) == ""
        home = await integrate(msgspec.structs.replace(integration(sandbox), tip=ours), Sent())
        assert home.how == "merge"
        assert status(sandbox.repository) == ""
        assert status(sandbox.folder) == ""
        assert git(sandbox.repository, "rev-list", "--count", f"{theirs}..main") == ("2" if moved else "1")
        git(sandbox.repository, "reset", "--quiet", "--hard", theirs)
        git(sandbox.folder, "reset", "--quiet", "--hard", ours)
    else:
        pytest.fail("it never got through")
    monkeypatch.setattr(trio, "run_process", real)
    assert steps > 5
    assert home.how == "merge"


async def test_what_is_merged_already_is_found(sandbox: Sandbox) -> None:
    ours = commit(sandbox.folder, {"list": "x\n"})
    git(sandbox.repository, "merge", "--quiet", str(sandbox.branch))
    later = commit(sandbox.repository, {"other": "y\n"})
    home = await integrate(integration(sandbox), Sent())
    assert (home.how, home.tip, main(sandbox.repository)) == ("merge", ours, later)


async def test_a_secret_stops_it(sandbox: Sandbox) -> None:
    commit(sandbox.folder, {"list": "x\n"})
    before = main(sandbox.repository)
    asked = []

    async def leaks(repository: Path, base: str, tip: str) -> list[Leak]:
        asked.append((repository, base, tip))
        return [Leak(tip, "list"), Leak(tip, None)]

    home = await integrate(msgspec.structs.replace(integration(sandbox), leaks=leaks), Sent())
    short = tip(sandbox)[:12]
    assert home.how == "kept"
    assert home.reason == f"A secret is in its commits: {short} (list), {short} (its message)."
    assert asked == [(sandbox.repository, before, tip(sandbox))]
    assert main(sandbox.repository) == before


async def test_no_branch_to_merge_into(sandbox: Sandbox) -> None:
    commit(sandbox.folder, {"list": "x\n"})
    detached = msgspec.structs.replace(sandbox, target=None)
    home = await integrate(integration(detached), Sent())
    assert (home.how, home.reason) == ("kept", "It did not start from a branch that it could be merged into.")
    gone = msgspec.structs.replace(sandbox, target="gone")
    assert (await integrate(integration(gone), Sent())).reason == "The branch gone does not exist any more."
    with pytest.raises(SandboxError, match="has no branch"):
        await integrate(msgspec.structs.replace(integration(sandbox), sandbox=branchless(sandbox)), Sent())


def branchless(sandbox: Sandbox) -> Sandbox:
    return msgspec.structs.replace(sandbox, branch=None)


async def test_no_hook_runs(sandbox: Sandbox, tmp_path: Path) -> None:
    """A worktree shares the hooks of its repository: an agent may have written them."""
    for name in ("post-merge", "pre-merge-commit", "post-checkout", "reference-transaction", "post-index-change"):
        write(sandbox.repository, {f".git/hooks/{name}": f"#!/bin/sh\necho {name} >> {tmp_path}/ran\n"})
    commit(sandbox.folder, {"list": "x\n"})
    commit(sandbox.repository, {"other": "y\n"})
    for path in (sandbox.repository / ".git" / "hooks").iterdir():
        path.chmod(0o755)
    journey_ = integration(sandbox)
    (tmp_path / "ran").unlink(missing_ok=True)
    assert (await integrate(journey_, Sent())).how == "merge"
    assert not (tmp_path / "ran").exists()
