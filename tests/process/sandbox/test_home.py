"""Work is merged into its target branch, or stays on its own, with real git. For pull requests see tests/e2e."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

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
from cuggino.sandbox.settle import settle
from tests.process.sandbox.merge_house import PERMITS, Killed, Sent, commit, git, lines, new_sandbox, tip, tree, write


def integration(sandbox: Sandbox, chosen: Integrate | None = "merge", **options: Any) -> Integration:
    return Integration(
        context=MergeContext(sandbox=sandbox, permits=PERMITS, **options),
        tip=tip(sandbox),
        title="Do the thing",
        chosen=chosen,
    )


async def integrated(sandbox: Sandbox, chosen: Integrate | None = "merge", **options: Any) -> IntegrationResult:
    return await integrate(integration(sandbox, chosen, **options), Sent())


def main(repository: Path) -> str:
    return git(repository, "rev-parse", "refs/heads/main")


def status(folder: Path) -> str:
    return git(folder, "status", "--porcelain")


async def test_without_changes_nothing_is_integrated(sandbox: Sandbox) -> None:
    result = await integrate(msgspec.structs.replace(integration(sandbox), tip=None), Sent())
    assert result.how == "nothing"


async def test_without_an_origin_the_branch_is_kept_with_the_reason(sandbox: Sandbox) -> None:
    ours = commit(sandbox.folder, {"list": "x\n"})
    result = await integrated(sandbox, None)
    assert (result.how, result.branch, result.tip) == ("branch", sandbox.branch, ours)
    assert result.reason == "There is no origin on GitHub. The branch is kept."
    chosen = await integrated(sandbox, "pr")
    assert (chosen.how, chosen.reason) == ("kept", "There is no origin on GitHub.")
    plain = await integrated(sandbox, "branch")
    assert (plain.how, plain.reason) == ("branch", "")


@pytest.mark.parametrize("where", ["the person's tree", "another worktree", "no tree"])
async def test_a_base_that_has_not_moved_is_fast_forwarded(sandbox: Sandbox, tmp_path: Path, where: str) -> None:
    repository, worktree = sandbox.repository, tmp_path / "other tree"
    base = main(repository)
    if where != "the person's tree":
        git(repository, "checkout", "--quiet", "-b", "elsewhere")
    if where == "another worktree":
        git(repository, "worktree", "add", "--quiet", str(worktree), "main")
    before = tree(repository)
    ours = commit(sandbox.folder, {"list": "x\n", "new": "y\n"}, "The thing")
    result = await integrated(sandbox)
    assert (result.how, result.base, result.tip, result.merged) == ("merge", base, ours, None)
    assert main(repository) == ours
    assert tree(repository) == (tree(sandbox.folder) if where == "the person's tree" else before)
    assert status(repository) == ""
    if where == "another worktree":
        assert (tree(worktree), status(worktree)) == (tree(sandbox.folder), "")
        assert git(worktree, "rev-parse", "HEAD") == ours


async def test_a_base_that_moved_is_the_first_parent_of_a_merge(sandbox: Sandbox) -> None:
    ours = commit(sandbox.folder, {"list": "x\n"}, "The thing")
    theirs = commit(sandbox.repository, {"other": "y\n"}, "Something else")
    result = await integrated(sandbox)
    assert (result.how, result.merged) == ("merge", "clean")
    first_parents = git(sandbox.repository, "log", "--first-parent", "--format=%s").splitlines()
    assert first_parents == ["Merge Do the thing", "Something else", "first"]
    merge = git(sandbox.repository, "log", "-1", "--format=%P%n%b").split()
    assert merge == [theirs, ours, "Branch:", sandbox.branch]
    assert status(sandbox.repository) == status(sandbox.folder) == ""
    assert tree(sandbox.repository) == tree(sandbox.folder)
    assert git(sandbox.repository, "diff", "--name-only", f"{result.base}", f"{result.tip}") == "list"


async def test_the_person_s_changes_in_other_files_stay(sandbox: Sandbox) -> None:
    commit(sandbox.folder, {"list": "x\n"})
    write(sandbox.repository, {"other": "in work\n", "staged": "s\n", "untracked": "u\n"})
    git(sandbox.repository, "add", "staged")
    git(sandbox.repository, "config", "merge.autoStash", "true")
    before = status(sandbox.repository)
    assert (await integrated(sandbox)).how == "merge"
    assert status(sandbox.repository) == before
    assert (sandbox.repository / "other").read_text() == "in work\n"


@pytest.mark.parametrize("theirs", [{"list": "in work\n"}, {"new": "in work, untracked\n"}])
async def test_the_person_s_changes_in_the_same_files_prevent_a_merge(sandbox: Sandbox, theirs: dict[str, str]) -> None:
    ours = commit(sandbox.folder, {"list": "x\n", "new": "y\n"})
    commit(sandbox.repository, {"other": "moved\n"})
    write(sandbox.repository, theirs)
    git(sandbox.repository, "config", "merge.autoStash", "true")
    before = (main(sandbox.repository), tree(sandbox.repository), status(sandbox.repository))
    result = await integrated(sandbox)
    assert result.how == "kept"
    assert "would be overwritten by merge" in result.reason or "in the way, and not in git" in result.reason
    assert next(iter(theirs)) in result.reason
    assert (main(sandbox.repository), tree(sandbox.repository), status(sandbox.repository)) == before
    assert git(sandbox.repository, "stash", "list") == ""
    assert (tip(sandbox), status(sandbox.folder)) == (ours, "")
    git(sandbox.repository, "stash", "--include-untracked")
    assert (await integrated(sandbox)).how == "merge"


async def test_a_rebase_of_the_base_is_not_disturbed(sandbox: Sandbox) -> None:
    commit(sandbox.folder, {"other": "x\n"})
    git(sandbox.repository, "checkout", "--quiet", "-b", "onto")
    commit(sandbox.repository, {"list": "onto\n"})
    git(sandbox.repository, "checkout", "--quiet", "main")
    before = commit(sandbox.repository, {"list": "main\n"})
    git(sandbox.repository, "rebase", "onto", check=False)
    result = await integrated(sandbox)
    assert (result.how, result.reason) == ("kept", "main cannot be moved forward: main is being rebased.")
    assert main(sandbox.repository) == before


async def test_the_check_command_sees_the_merge_and_can_prevent_it(sandbox: Sandbox) -> None:
    ours = commit(sandbox.folder, {"list": "x\n"})
    seen = []

    async def check(root: Path) -> bool:
        seen.append(((root / "list").read_text(), (root / "other").read_text() == "y\n"))
        return False

    assert (await integrated(sandbox, check=check)).reason == "The check command fails."
    theirs = commit(sandbox.repository, {"other": "y\n"})
    result = await integrated(sandbox, check=check)
    assert (result.how, result.reason) == ("kept", "The check command fails after the merge.")
    assert seen == [("x\n", False), ("x\n", True)]
    assert (main(sandbox.repository), tip(sandbox)) == (theirs, ours)
    assert status(sandbox.folder) == ""


def moving(sandbox: Sandbox, times: int) -> tuple[Callable[[Path], Awaitable[bool]], list[str]]:
    """Return a check during whose first runs somebody moves the base, and the commits that they make."""
    moved: list[str] = []

    async def check(_root: Path) -> bool:
        if len(moved) < times:
            moved.append(commit(sandbox.repository, {"other": f"moved {len(moved)}\n"}, "moved"))
            git(sandbox.repository, "update-ref", "refs/heads/main", moved[-1])
        return True

    return check, moved


@pytest.mark.parametrize("checked_out", [True, False])
async def test_a_base_that_moves_during_the_check_is_merged_again(sandbox: Sandbox, checked_out: bool) -> None:
    """The late merge is not in the history."""
    ours = commit(sandbox.folder, {"list": "x\n"})
    commit(sandbox.repository, {"other": "1\n"})
    if not checked_out:
        git(sandbox.repository, "checkout", "--quiet", "-b", "elsewhere")
    check, moved = moving(sandbox, 2)
    assert (await integrated(sandbox, check=check)).how == "merge"
    assert git(sandbox.repository, "log", "-1", "--format=%P", "main") == f"{moved[1]} {ours}"
    assert git(sandbox.repository, "rev-list", "--merges", "--count", "main") == "1"
    assert status(sandbox.repository) == status(sandbox.folder) == ""


async def test_a_base_that_always_moves_is_given_up(sandbox: Sandbox) -> None:
    ours = commit(sandbox.folder, {"list": "x\n"})

    async def check(root: Path) -> bool:
        commit(sandbox.repository, {}, "moved")
        return True

    home = await integrate(integration(sandbox, check=check), Sent())
    assert (home.how, home.reason) == ("kept", "main moved again during each of 5 merges.")
    assert tip(sandbox) == ours
    assert status(sandbox.folder) == ""


async def test_eight_sandboxes_are_integrated_one_after_the_other(repository: Path, tmp_path: Path) -> None:
    """All add a line in the same place: each is a small conflict with those before it."""
    sandboxes = [new_sandbox(repository, tmp_path / "sandboxes") for _ in range(8)]
    busy: list[int] = []
    results: list[IntegrationResult] = []
    sent = Sent()
    for number, sandbox in enumerate(sandboxes):
        commit(sandbox.folder, {"list": lines(after_20=f"line {number}"), f"new-{number}": "x\n"}, f"thing {number}")

    async def check(_root: Path) -> bool:
        busy.append(1)
        assert len(busy) == 1
        await trio.lowlevel.checkpoint()
        busy.pop()
        return True

    async def one(sandbox: Sandbox) -> None:
        results.append(await integrate(integration(sandbox, check=check), sent))

    async with trio.open_nursery() as nursery:
        for sandbox in sandboxes:
            nursery.start_soon(one, sandbox)
    assert {result.how for result in results} == {"merge"}
    text = (repository / "list").read_text().splitlines()
    assert sorted(text[20:28]) == [f"line {number}" for number in range(8)]
    assert all((repository / f"new-{number}").exists() for number in range(8))
    assert status(repository) == ""
    assert [event.small for event in sent if isinstance(event, ConflictsFound)] == [True] * 7
    assert git(repository, "rev-list", "--first-parent", "--count", "main") == "9"


async def test_a_repair_is_kept_when_the_base_cannot_be_moved(sandbox: Sandbox) -> None:
    """It has cost a model's time: the next attempt starts from it."""
    commit(sandbox.folder, {"list": lines(line_5="ours")})
    commit(sandbox.repository, {"list": lines(line_5="theirs")})
    write(sandbox.repository, {"list": "in work\n"})

    async def repair(_request: RepairRequest) -> bool:
        write(sandbox.folder, {"list": lines(line_5="both")})
        return True

    result = await integrated(sandbox, repair=repair)
    assert (result.how, result.merged, result.tip) == ("kept", "repair", tip(sandbox))
    git(sandbox.repository, "checkout", "list")
    assert (await integrated(sandbox)).how == "merge"
    assert main(sandbox.repository) == result.tip


@pytest.mark.parametrize("moved", [False, True])
async def test_an_integration_that_crashed_at_any_step_can_be_repeated(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch, moved: bool
) -> None:
    """It crashes before its first, second, third … git command; then all is repeated."""
    real = trio.run_process

    ours = commit(sandbox.folder, {"list": "x\n"})
    theirs = commit(sandbox.repository, {"other": "y\n"}) if moved else main(sandbox.repository)
    for steps in range(200):
        left = steps

        async def dying(*arguments: Any, **options: Any) -> Any:
            nonlocal left
            if left == 0:
                raise Killed
            left -= 1
            return await real(*arguments, **options)

        with monkeypatch.context() as patch:
            patch.setattr(trio, "run_process", dying)
            try:
                result = await integrated(sandbox)
                break
            except Killed:
                pass
        assert git(sandbox.repository, "merge-base", "--is-ancestor", ours, tip(sandbox)) == ""
        result = await integrate(msgspec.structs.replace(integration(sandbox), tip=ours), Sent())
        assert result.how == "merge"
        assert status(sandbox.repository) == status(sandbox.folder) == ""
        assert git(sandbox.repository, "rev-list", "--count", f"{theirs}..main") == ("2" if moved else "1")
        git(sandbox.repository, "reset", "--quiet", "--hard", theirs)
        git(sandbox.folder, "reset", "--quiet", "--hard", ours)
    else:
        pytest.fail("it never finished")
    assert steps > 5
    assert result.how == "merge"


async def test_work_that_is_already_merged_is_found(sandbox: Sandbox) -> None:
    ours = commit(sandbox.folder, {"list": "x\n"})
    git(sandbox.repository, "merge", "--quiet", str(sandbox.branch))
    later = commit(sandbox.repository, {"other": "y\n"})
    result = await integrated(sandbox)
    assert (result.how, result.tip, main(sandbox.repository)) == ("merge", ours, later)


async def test_a_secret_in_the_commits_prevents_a_merge(sandbox: Sandbox) -> None:
    commit(sandbox.folder, {"list": "x\n"})
    before = main(sandbox.repository)
    asked = []

    async def leaks(repository: Path, base: str, tip: str) -> list[Leak]:
        asked.append((repository, base, tip))
        return [Leak(tip, "list"), Leak(tip, None)]

    result = await integrate(msgspec.structs.replace(integration(sandbox), leaks=leaks), Sent())
    short = tip(sandbox)[:12]
    assert result.how == "kept"
    assert result.reason == f"A secret is in its commits: {short} (list), {short} (its message)."
    assert asked == [(sandbox.repository, before, tip(sandbox))]
    assert main(sandbox.repository) == before


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        (None, "It did not start from a branch that it could be merged into."),
        ("gone", "The branch gone does not exist any more."),
    ],
)
async def test_without_a_target_branch_the_work_is_kept(sandbox: Sandbox, target: str | None, reason: str) -> None:
    commit(sandbox.folder, {"list": "x\n"})
    result = await integrated(msgspec.structs.replace(sandbox, target=target))
    assert (result.how, result.reason) == ("kept", reason)


async def test_a_sandbox_without_a_branch_cannot_be_integrated(sandbox: Sandbox) -> None:
    detached = msgspec.structs.replace(sandbox, branch=None)
    work = msgspec.structs.replace(integration(sandbox), context=MergeContext(sandbox=detached, permits=PERMITS))
    with pytest.raises(SandboxError, match="has no branch"):
        await integrate(work, Sent())


async def test_an_integration_runs_no_hooks(sandbox: Sandbox, tmp_path: Path) -> None:
    """A worktree shares the hooks of its repository: an agent may have written them."""
    for name in ("post-merge", "pre-merge-commit", "post-checkout", "reference-transaction", "post-index-change"):
        write(sandbox.repository, {f".git/hooks/{name}": f"#!/bin/sh\necho {name} >> {tmp_path}/ran\n"})
    commit(sandbox.folder, {"list": "x\n"})
    commit(sandbox.repository, {"other": "y\n"})
    for path in (sandbox.repository / ".git" / "hooks").iterdir():
        path.chmod(0o755)
    prepared = integration(sandbox)
    (tmp_path / "ran").unlink(missing_ok=True)
    assert (await integrate(prepared, Sent())).how == "merge"
    assert not (tmp_path / "ran").exists()


OWN: dict[str, tuple[dict[str, str], dict[str, str], str]] = {
    "an ignored file": ({".env": "mine"}, {".env": "theirs"}, ".env"),
    "an ignored directory, for a file": (
        {"build/deep/x": "mine", "build/y": "mine"},
        {"build": "a file"},
        "build/deep/, build/y",
    ),
    "an ignored file, for a directory": ({"build": "mine"}, {"build/x": "theirs"}, "build"),
    "an untracked file": ({"notes": "mine"}, {"notes": "theirs"}, "notes"),
    "beside tracked files": ({"d/x.ignored": "mine"}, {"d/f": "", "d": "now a file"}, "d/x.ignored"),
}
"""What the person has and git does not, what the agent commits, and what is named."""


@pytest.mark.parametrize("what", OWN)
async def test_what_the_person_has_beside_git_is_never_overwritten(
    sandbox: Sandbox, repository: Path, what: str
) -> None:
    own, theirs, named = OWN[what]
    (repository / ".git" / "info" / "exclude").write_text(".env\nbuild\n")
    write(repository, own)
    for name in theirs:
        if name == "d/f":
            (sandbox.folder / name).unlink()
            (sandbox.folder / "d").rmdir()
    write(sandbox.folder, {name: text for name, text in theirs.items() if text})
    git(sandbox.folder, "add", "--force", "--all")
    git(sandbox.folder, "commit", "--quiet", "-m", "forced")
    before, head = tree(repository), main(repository)
    result = await integrated(sandbox)
    assert (result.how, result.in_the_way, main(repository)) == ("kept", True, head)
    assert result.reason.endswith(f"in the way, and not in git, in {repository}: {named}.")
    assert tree(repository) == before
    for name in own:
        (repository / name).unlink()
    assert (await integrated(sandbox)).how == "merge"
    assert status(repository) == ""


@pytest.mark.parametrize("link", [False, True])
async def test_an_ignored_file_that_is_already_the_same_is_not_in_the_way(
    sandbox: Sandbox, repository: Path, link: bool
) -> None:
    (repository / ".git" / "info" / "exclude").write_text(".env\n")
    for root in (repository, sandbox.folder):
        (root / ".env").symlink_to("elsewhere") if link else (root / ".env").write_text("the same\n")
    git(sandbox.folder, "add", "--force", ".env")
    git(sandbox.folder, "commit", "--quiet", "-m", "forced")
    assert (await integrated(sandbox)).how == "merge"
    assert status(repository) == ""


@pytest.mark.parametrize("how", ["merge", "branch"])
async def test_an_agent_that_stops_in_the_middle_of_a_merge_has_not_finished(
    sandbox: Sandbox, repository: Path, how: Integrate
) -> None:
    """Its work is on the branch, but never merged: neither markers nor what git could not mark."""
    commit(repository, {"list": lines(line_5="base"), "picture": b"\0two"})
    commit(sandbox.folder, {"list": lines(line_5="branch"), "picture": b"\0three"})
    git(sandbox.folder, "merge", "main", check=False)
    assert "<<<<<<<" in (sandbox.folder / "list").read_text()
    before = main(repository)
    settled = await settle(sandbox, PERMITS, "So far")
    assert settled.unmerged == ("list", "picture")
    prepared = msgspec.structs.replace(integration(sandbox, how), tip=settled.tip)
    result = await integrate(msgspec.structs.replace(prepared, unmerged=settled.unmerged), Sent())
    assert (result.how, result.reason) == ("kept", "The agent left conflicts unresolved in list, picture.")
    result = await integrate(prepared, Sent())
    assert (result.how, result.reason) == ("kept", "The agent left conflicts unresolved in list.")
    assert main(repository) == before
    assert "<<<<<<<" in git(repository, "show", f"{sandbox.branch}:list")


async def test_markers_that_were_there_and_headings_are_not_unresolved_conflicts(
    sandbox: Sandbox, repository: Path
) -> None:
    example = "<<<<<<< a\n1\n=======\n2\n>>>>>>> b\n"
    start = commit(repository, {"how-to": example})
    git(sandbox.folder, "merge", "-q", "main")
    begun = msgspec.structs.replace(sandbox, base=start)
    (sandbox.folder / "how-to").unlink()
    commit(sandbox.folder, {"moved": f"more\n{example}", "doc": "Title\n=======\n\n>>>>>>> quoted\n<<<<<<< x\n"})
    assert (await integrated(begun)).how == "merge"


@pytest.mark.parametrize("link", [False, True])
async def test_the_tree_is_found_if_its_git_directory_is_elsewhere(
    repository: Path, tmp_path: Path, link: bool
) -> None:
    (tmp_path / "elsewhere").mkdir()
    moved = (repository / ".git").rename(tmp_path / "elsewhere" / ".git")
    if link:
        (repository / ".git").symlink_to(moved)
    else:
        (repository / ".git").write_text(f"gitdir: {moved}\n")
    begun = new_sandbox(repository, tmp_path / "sandboxes")
    worktrees = moved / "worktrees"
    begun = msgspec.structs.replace(begun, common_dir=moved, git_dir=worktrees / begun.id)
    commit(begun.folder, {"list": "x\n"})
    assert (await integrated(begun)).how == "merge"
    assert (repository / "list").read_text() == "x\n"
    assert status(repository) == ""
    assert tree(moved.parent) == {}
