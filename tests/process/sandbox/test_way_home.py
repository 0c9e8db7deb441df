"""A sandbox's whole way: made, worked in, settled, brought home, removed; as a worktree, and as a clone of its own."""

from __future__ import annotations

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
from tests.process.sandbox.merge_house import (
    PERMITS,
    Sent,
    commit,
    git,
    lines,
    new_repository,
    nobodys_configuration,
    tree,
    write,
)


@pytest.fixture(params=["top", "below"])
def project(tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Project:
    """At the top of its repository, or in a folder of it; with specs that are committed, and some that are not."""
    nobodys_configuration(tmp_path, monkeypatch)
    where = "" if request.param == "top" else "the project/"
    files: dict[str, str | bytes | None] = {
        ".gitignore": ".cuggino/\n.env\n",
        f"{where}list": lines(),
        f"{where}other": lines(),
        f"{where}.specs/a.md": "a\n",
    }
    root = new_repository(tmp_path / "repository", files)
    write(
        root, {f"{where}.specs/a.md": "a, as I write it\n", f"{where}.specs/new.md": "new\n", f"{where}.env": "X=1\n"}
    )
    return Project(root / where)


@pytest.fixture(params=[(), ("env",)], ids=["worktree", "clone"])
def config(tmp_path: Path, request: pytest.FixtureRequest) -> Config:
    return Config(spawn=SpawnSettings(root=str(tmp_path / "state"), include=(".env",), launcher=request.param))


async def home_with(project: Project, sandbox: Sandbox, repair: bool = True) -> IntegrationResult:
    async def agent(request: RepairRequest) -> bool:
        for text in (None, lines(line_5="both")):
            for path in request.paths if text is not None else ():
                (sandbox.folder / path).write_text(text or "")
            git(sandbox.folder, "add", "--all")
            git(sandbox.folder, "commit", "--quiet", "--allow-empty", "-m", "what no agent is asked to do")
        return repair

    await undo(sandbox)
    settled = await settle(sandbox, PERMITS, "The thing")
    return await integrate(
        Integration(
            context=MergeContext(sandbox=sandbox, permits=PERMITS, repair=agent),
            tip=settled.tip,
            title="Do the thing",
            chosen="merge",
        ),
        Sent(),
    )


@pytest.mark.parametrize("commits", [True, False])
async def test_conflicts_are_repaired_and_nothing_but_the_work_comes_home(
    project: Project, config: Config, commits: bool
) -> None:
    sandbox = await provision(project, config)
    write(sandbox.root, {"list": lines(line_5="ours"), "new": "x\n"})
    if commits:
        git(sandbox.folder, "add", "--all")
        git(sandbox.folder, "commit", "--quiet", "-m", "mine")
    before = git(project.root, "status", "--porcelain")
    write(project.root, {"list": lines(line_5="theirs")})
    git(project.root, "commit", "--quiet", "-m", "theirs", "list")
    theirs = git(project.root, "rev-parse", "HEAD")
    home = await home_with(project, sandbox)
    assert (home.how, home.merged, home.left_out) == ("merge", "repair", ())
    changed = git(project.root, "diff", "--relative", "--name-only", theirs, "HEAD").splitlines()
    assert changed == ["list", "new"]
    assert (project.root / "list").read_text() == lines(line_5="both")
    assert git(project.root, "log", "-1", "--format=%s") == "Merge Do the thing"
    assert git(project.root, "status", "--porcelain") == before
    await remove(project, sandbox, force=False)
    assert not sandbox.folder.exists()
    assert git(project.root, "branch", "--list", "spawn/*") == ""


async def test_what_could_not_be_repaired_is_as_it_was_and_can_be_tried_again(project: Project, config: Config) -> None:
    sandbox = await provision(project, config)
    write(sandbox.root, {"list": lines(line_5="ours")})
    write(project.root, {"list": lines(line_5="theirs")})
    git(project.root, "commit", "--quiet", "-m", "theirs", "list")
    theirs = git(project.root, "rev-parse", "HEAD")
    home = await home_with(project, sandbox, repair=False)
    assert home.how == "kept"
    assert (sandbox.root / "list").read_text() == lines(line_5="ours")
    assert git(project.root, "rev-parse", "HEAD") == theirs
    tip = git(project.root, "rev-parse", str(sandbox.branch))
    assert git(project.root, "diff", "--relative", "--name-only", sandbox.base, tip) == "list"
    again = await home_with(project, sandbox)
    assert again.how == "merge"
    assert (project.root / "list").read_text() == lines(line_5="both")
    assert "<<<<<<<" not in git(project.root, "log", "-p", "HEAD")


@pytest.mark.parametrize("conflict", [False, True])
async def test_the_base_brings_other_specs_than_those_that_lie_there(
    project: Project, config: Config, conflict: bool
) -> None:
    sandbox = await provision(project, config)
    write(sandbox.root, {"list": lines(line_5="ours")})
    lent = {name: text for name, text in tree(sandbox.root).items() if name.startswith((".specs", ".env"))}
    theirs = lines(line_5="theirs") if conflict else lines(line_30="theirs")
    commit(project.root, {".specs/a.md": "a, as it is now\n", "list": theirs})
    home = await home_with(project, sandbox)
    assert (home.how, home.merged) == ("merge", "repair" if conflict else "clean")
    assert {name: text for name, text in tree(sandbox.root).items() if name in lent} == lent
    assert (project.root / ".specs" / "a.md").read_text() == "a, as it is now\n"
    assert git(project.root, "diff", "--relative", "--name-only", str(home.base), "HEAD") == "list"
    assert git(project.root, "status", "--porcelain") == ""
    await remove(project, sandbox, force=False)


async def test_a_killed_repair_is_no_work_of_the_branchs(project: Project, config: Config) -> None:
    """Settled again after a crash: neither markers nor the base's changes are on the branch."""
    sandbox = await provision(project, config)
    write(sandbox.root, {"list": lines(line_5="ours")})
    write(project.root, {"list": lines(line_5="theirs"), "other": "theirs\n"})
    git(project.root, "commit", "--quiet", "-m", "theirs", "list", "other")

    class Killed(Exception):
        pass

    async def killed(request: RepairRequest) -> bool:
        raise Killed

    settled = await settle(sandbox, PERMITS, "The thing")
    context = MergeContext(sandbox=sandbox, permits=PERMITS, repair=killed)
    integration = Integration(context=context, tip=settled.tip, title="Do the thing", chosen="merge")
    with pytest.raises(Killed):
        await integrate(integration, Sent())
    assert "<<<<<<<" in (sandbox.root / "list").read_text()
    await undo(sandbox)
    assert await settle(sandbox, PERMITS, "Again") == settled
    home = await integrate(
        msgspec.structs.replace(integration, context=msgspec.structs.replace(context, repair=None)), Sent()
    )
    assert home.how == "kept"
