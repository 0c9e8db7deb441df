"""The life of a sandbox: made, worked in, settled, integrated, removed; as a worktree, and as a clone."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest

from cuggino.config import Config, SpawnSettings
from cuggino.integrate.checkout import undo
from cuggino.integrate.integration import Integration, IntegrationResult, integrate
from cuggino.integrate.merge import MergeContext, RepairRequest
from cuggino.project import Project
from cuggino.sandbox.provision import provision
from cuggino.sandbox.removal import remove
from cuggino.sandbox.sandbox import Sandbox
from cuggino.sandbox.settle import settle
from tests.process.sandbox.merge_house import PERMITS, Killed, Sent, commit, git, lines, new_repository, tree, write


@pytest.fixture(params=["top", "below"])
def project(tmp_path: Path, request: pytest.FixtureRequest) -> Project:
    """At the top of its repository or below, with specs that are committed, and some that are not."""
    where = "" if request.param == "top" else "the project/"
    files = {f"{where}list": lines(), f"{where}other": lines(), f"{where}.specs/a.md": "a\n"}
    root = new_repository(tmp_path / "repository", {".gitignore": ".cuggino/\n.env\n", **files})
    write(root / where, {".specs/a.md": "a, as I write it\n", ".specs/new.md": "new\n", ".env": "X=1\n"})
    return Project(root / where)


@pytest.fixture(params=[(), ("env",)], ids=["worktree", "clone"])
async def sandbox(project: Project, tmp_path: Path, request: pytest.FixtureRequest) -> Sandbox:
    config = Config(spawn=SpawnSettings(root=str(tmp_path / "state"), include=(".env",), launcher=request.param))
    sandbox = await provision(project, config)
    write(sandbox.root, {"list": lines(line_5="ours")})
    return sandbox


def conflict(project: Project, files: Mapping[str, str]) -> str:
    """The person commits a line that conflicts with the sandbox's, and more files."""
    write(project.root, {"list": lines(line_5="theirs"), **files})
    git(project.root, "commit", "--quiet", "-m", "theirs", "list", *files)
    return git(project.root, "rev-parse", "HEAD")


async def integrated(sandbox: Sandbox, repair: bool = True) -> IntegrationResult:
    async def agent(request: RepairRequest) -> bool:
        for text in (None, lines(line_5="both")):
            for path in request.paths if text is not None else ():
                (sandbox.folder / path).write_text(text or "")
            git(sandbox.folder, "add", "--all")
            git(sandbox.folder, "commit", "--quiet", "--allow-empty", "-m", "nobody asked the agent to commit")
        return repair

    await undo(sandbox)
    settled = await settle(sandbox, PERMITS, "The thing")
    context = MergeContext(sandbox=sandbox, permits=PERMITS, repair=agent)
    work = Integration(context=context, tip=settled.tip, title="Do the thing", chosen="merge")
    return await integrate(work, Sent())


@pytest.mark.parametrize("commits", [True, False])
async def test_conflicts_are_repaired_and_only_the_work_is_integrated(
    project: Project, sandbox: Sandbox, commits: bool
) -> None:
    write(sandbox.root, {"new": "x\n"})
    if commits:
        git(sandbox.folder, "add", "--all")
        git(sandbox.folder, "commit", "--quiet", "-m", "mine")
    before = git(project.root, "status", "--porcelain")
    theirs = conflict(project, {})
    result = await integrated(sandbox)
    assert (result.how, result.merged, result.left_out) == ("merge", "repair", ())
    changed = git(project.root, "diff", "--relative", "--name-only", theirs, "HEAD").splitlines()
    assert changed == ["list", "new"]
    assert (project.root / "list").read_text() == lines(line_5="both")
    assert git(project.root, "log", "-1", "--format=%s") == "Merge Do the thing"
    assert git(project.root, "status", "--porcelain") == before
    await remove(project, sandbox, force=False)
    assert not sandbox.folder.exists()
    assert git(project.root, "branch", "--list", "spawn/*") == ""


async def test_after_a_failed_repair_everything_is_as_before_and_can_be_retried(
    project: Project, sandbox: Sandbox
) -> None:
    theirs = conflict(project, {})
    result = await integrated(sandbox, repair=False)
    (failed,) = result.conflicts
    assert (result.how, result.reason) == ("kept", f"It conflicts with the base: {failed}. It could not be repaired.")
    assert (sandbox.folder / failed.path, failed.kinds) == (sandbox.root / "list", ("contents",))
    assert sandbox.cloned or git(sandbox.folder, "diff", "--stat") == ""
    assert (sandbox.root / "list").read_text() == lines(line_5="ours")
    assert git(project.root, "rev-parse", "HEAD") == theirs
    tip = git(project.root, "rev-parse", str(sandbox.branch))
    assert git(project.root, "diff", "--relative", "--name-only", sandbox.base, tip) == "list"
    assert (await integrated(sandbox)).how == "merge"
    assert (project.root / "list").read_text() == lines(line_5="both")
    assert "<<<<<<<" not in git(project.root, "log", "-p", "HEAD")


@pytest.mark.parametrize("conflicting", [False, True])
async def test_a_base_with_other_specs_leaves_the_sandbox_s_copies_alone(
    project: Project, sandbox: Sandbox, conflicting: bool
) -> None:
    lent = {name: text for name, text in tree(sandbox.root).items() if name.startswith((".specs", ".env"))}
    theirs = lines(line_5="theirs") if conflicting else lines(line_30="theirs")
    commit(project.root, {".specs/a.md": "a, as it is now\n", "list": theirs})
    result = await integrated(sandbox)
    assert (result.how, result.merged) == ("merge", "repair" if conflicting else "clean")
    assert {name: text for name, text in tree(sandbox.root).items() if name in lent} == lent
    assert (project.root / ".specs" / "a.md").read_text() == "a, as it is now\n"
    assert git(project.root, "diff", "--relative", "--name-only", str(result.base), "HEAD") == "list"
    assert git(project.root, "status", "--porcelain") == ""
    await remove(project, sandbox, force=False)


async def test_a_killed_repair_leaves_nothing_on_the_branch(project: Project, sandbox: Sandbox) -> None:
    """Settled again after the crash, the branch has neither markers nor the base's changes."""
    conflict(project, {"other": "theirs\n"})

    async def killed(_request: RepairRequest) -> bool:
        raise Killed

    settled = await settle(sandbox, PERMITS, "The thing")
    context = MergeContext(sandbox=sandbox, permits=PERMITS, repair=killed)
    work = Integration(context=context, tip=settled.tip, title="x", chosen="merge")
    with pytest.raises(Killed):
        await integrate(work, Sent())
    assert "<<<<<<<" in (sandbox.root / "list").read_text()
    await undo(sandbox)
    assert await settle(sandbox, PERMITS, "Again") == settled
    alone = msgspec.structs.replace(work, context=msgspec.structs.replace(context, repair=None))
    assert (await integrate(alone, Sent())).how == "kept"
