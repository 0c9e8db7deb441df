"""Integration as a pull request: real gh and git, a GitHub server on this machine, a bare repository as origin."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Literal

import msgspec
import pytest
import trio

from cuggino.config import Integrate
from cuggino.events import ConflictsFound, PRCreated
from cuggino.integrate.integration import Integration, IntegrationResult, Leaks, integrate
from cuggino.integrate.merge import MergeContext, RepairRequest
from cuggino.sandbox.leaks import Leak
from cuggino.sandbox.removal import is_elsewhere
from cuggino.sandbox.sandbox import Sandbox
from tests.e2e.github_server import (
    BAD_GATEWAY,
    CUT,
    DROPPED,
    GitHubServer,
    Pulls,
    Reply,
    Request,
    bare_origin,
    find_gh,
    gh_environment,
    github_server,
    primary_limit,
)
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

pytestmark = pytest.mark.e2e


@pytest.fixture
def server() -> Iterator[GitHubServer]:
    with github_server() as running:
        yield running


@pytest.fixture(params=["system", "current"])
def _gh(
    request: pytest.FixtureRequest, tmp_path: Path, home: Path, server: GitHubServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    which: Literal["system", "current"] = request.param
    nobodys_configuration(tmp_path, monkeypatch)
    for name, value in gh_environment(home, server, find_gh(which)).items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def repository(tmp_path: Path, _gh: None) -> Path:
    root = new_repository(tmp_path / "project", {"list": lines(), "other": lines()})
    bare_origin(tmp_path / "origin.git", root)
    git(root, "push", "--quiet", "origin", "main")
    return root


@pytest.fixture
def pulls(server: GitHubServer, repository: Path, tmp_path: Path) -> Pulls:
    return Pulls(server, tmp_path / "origin.git")


@pytest.fixture
def sandbox(repository: Path, tmp_path: Path) -> Sandbox:
    sandbox = new_sandbox(repository, tmp_path / "sandboxes")
    commit(sandbox.folder, {"list": lines(line_5="ours")}, "The thing")
    return sandbox


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Sleeps of a second and more are recorded and skipped."""
    long: list[float] = []
    real = trio.sleep

    async def sleep(seconds: float) -> None:
        if seconds >= 1:
            long.append(seconds)
            seconds = 0
        await real(seconds)

    monkeypatch.setattr(trio, "sleep", sleep)
    return long


async def run(
    sandbox: Sandbox,
    chosen: Integrate | None = None,
    *,
    sent: Sent | None = None,
    repair: Callable[[RepairRequest], Awaitable[bool]] | None = None,
    leaks: Leaks | None = None,
) -> IntegrationResult:
    context = MergeContext(sandbox=sandbox, permits=PERMITS, repair=repair)
    integration = Integration(
        context=context, tip=tip(sandbox), title="Do the thing", body="Why: ü\n", chosen=chosen, leaks=leaks
    )
    return await integrate(integration, sent or Sent())


def push_as_somebody(files: dict[str, str], tmp_path: Path) -> str:
    """Push a commit to origin's main that the person has not fetched."""
    other = tmp_path / "somebody"
    git(tmp_path, "clone", "--quiet", str(tmp_path / "origin.git"), str(other))
    made = commit(other, files, "somebody else's")
    git(other, "push", "--quiet", "origin", "main")
    return made


def refs(repository: Path) -> str:
    return git(repository, "for-each-ref", "refs/heads/main", "refs/remotes/origin/main", "refs/cuggino", "refs/tags")


async def test_by_default_the_branch_is_pushed_and_a_pull_request_opened(
    sandbox: Sandbox, pulls: Pulls, server: GitHubServer
) -> None:
    before = (refs(sandbox.repository), tree(sandbox.repository))
    sent = Sent()
    result = await run(sandbox, sent=sent)
    assert result.how == "pr"
    assert result.pull_request is not None
    assert (result.pull_request.number, result.pull_request.found) == (1, False)
    assert result.pull_request.url == "https://github.com/o/r/pull/1"
    assert sent.events == [PRCreated(url=result.pull_request.url, number=1)]
    pull = pulls.all[1]
    assert (pull["head"]["ref"], pull["base"]["ref"]) == (sandbox.branch, "main")
    assert (pull["title"], pull["body"]) == ("Do the thing", "Why: ü\n")
    assert pulls.tip(str(sandbox.branch)) == tip(sandbox) == result.tip
    assert len(server.requests) == 1
    assert await is_elsewhere(sandbox, tip(sandbox))
    assert (refs(sandbox.repository), tree(sandbox.repository)) == before


async def test_a_clone_that_follows_one_branch_knows_that_it_is_pushed(sandbox: Sandbox, pulls: Pulls) -> None:
    git(sandbox.repository, "config", "remote.origin.fetch", "+refs/heads/main:refs/remotes/origin/main")
    assert (await run(sandbox)).how == "pr"
    assert await is_elsewhere(sandbox, tip(sandbox))


async def test_a_repeated_integration_finds_the_pull_request(sandbox: Sandbox, pulls: Pulls) -> None:
    await run(sandbox)
    commit(sandbox.folder, {"more": "x\n"})
    sent = Sent()
    result = await run(sandbox, sent=sent)
    assert result.pull_request is not None
    assert (result.how, result.pull_request.found) == ("pr", True)
    assert sent.events == [PRCreated(url="https://github.com/o/r/pull/1", number=1, found=True)]
    assert len(pulls.all) == 1
    assert pulls.tip(str(sandbox.branch)) == tip(sandbox)


@pytest.mark.parametrize("fault", [BAD_GATEWAY, DROPPED, CUT])
async def test_a_lost_response_does_not_open_a_second_pull_request(
    sandbox: Sandbox, pulls: Pulls, server: GitHubServer, fault: Reply, slept: list[float]
) -> None:
    def open_and_lose(request: Request) -> Reply:
        pulls.add(str(sandbox.branch))
        return fault

    server.on("POST", "repos/o/r/pulls", open_and_lose)
    result = await run(sandbox)
    assert result.pull_request is not None
    assert result.pull_request.found
    assert len(server.asked("POST", "repos/o/r/pulls")) == 1
    assert len(pulls.all) == 1


async def test_a_bad_gateway_and_a_short_rate_limit_are_waited_for(
    sandbox: Sandbox, pulls: Pulls, server: GitHubServer, slept: list[float]
) -> None:
    server.fail("repos/o/r/pulls", BAD_GATEWAY, primary_limit(30), method="POST")
    assert (await run(sandbox)).how == "pr"
    assert slept[0] == 2
    assert 20 < slept[1] <= 30
    assert len(pulls.all) == 1


@pytest.mark.parametrize(
    ("fault", "times", "words"),
    [
        (Reply(403, {"message": "Resource not accessible by personal access token"}), 1, "not accessible"),
        (Reply(401, {"message": "Bad credentials"}), 1, "Bad credentials"),
        (primary_limit(100_000), 1, "rate limit"),
        (BAD_GATEWAY, 3, "HTTP 502"),
        (DROPPED, 3, "EOF"),
    ],
)
@pytest.mark.usefixtures("slept")
async def test_if_no_pull_request_can_be_opened_the_pushed_branch_is_kept(
    sandbox: Sandbox, pulls: Pulls, server: GitHubServer, *, fault: Reply, times: int, words: str
) -> None:
    server.fail("repos/o/r/pulls", *[fault] * times, method="POST")
    result = await run(sandbox)
    assert result.how == "kept"
    assert result.reason.startswith("It is pushed, but the pull request could not be opened: ")
    assert words in result.reason
    assert len(server.asked("POST", "repos/o/r/pulls")) == times
    assert pulls.tip(str(sandbox.branch)) == tip(sandbox)
    assert (await run(sandbox)).how == "pr"


async def test_a_branch_that_somebody_pushed_to_is_not_forced(sandbox: Sandbox, pulls: Pulls) -> None:
    await run(sandbox)
    git(sandbox.repository, "checkout", "--quiet", "-b", "theirs", str(sandbox.branch))
    theirs = commit(sandbox.repository, {"review": "x\n"})
    git(sandbox.repository, "push", "--quiet", "origin", f"theirs:{sandbox.branch}")
    commit(sandbox.folder, {"more": "x\n"})
    result = await run(sandbox)
    assert result.how == "kept"
    assert "It could not be pushed: " in result.reason
    assert pulls.tip(str(sandbox.branch)) == theirs


async def test_a_secret_is_not_pushed(sandbox: Sandbox, pulls: Pulls, server: GitHubServer) -> None:
    async def leaks(repository: Path, base: str, tip: str) -> list[Leak]:
        return [Leak(tip, "list")]

    result = await run(sandbox, leaks=leaks)
    assert result.how == "kept"
    assert result.reason.startswith("A secret is in its commits: ")
    assert pulls.tip(str(sandbox.branch)) is None
    assert server.requests == []


async def test_a_small_conflict_with_origins_latest_base_is_resolved_on_the_branch(
    sandbox: Sandbox, pulls: Pulls, tmp_path: Path
) -> None:
    ours = commit(sandbox.folder, {"other": lines(after_9="ours")})
    theirs = push_as_somebody({"other": lines(after_9="theirs")}, tmp_path)
    before = refs(sandbox.repository)
    sent = Sent()
    result = await run(sandbox, sent=sent)
    assert (result.how, result.merged) == ("pr", "small")
    assert isinstance(sent.events[0], ConflictsFound)
    assert (sandbox.folder / "other").read_text() == lines(after_9="theirs\nours")
    log = git(sandbox.repository, "log", "-1", "--format=%P%n%s", str(sandbox.branch))
    assert log == f"{ours} {theirs}\nMerge main into {sandbox.branch}"
    assert pulls.tip(str(sandbox.branch)) == tip(sandbox)
    assert refs(sandbox.repository) == before


@pytest.mark.parametrize("repaired", [True, False])
async def test_a_large_conflict_is_repaired_by_an_agent(
    sandbox: Sandbox, pulls: Pulls, tmp_path: Path, repaired: bool
) -> None:
    ours = tip(sandbox)
    push_as_somebody({"list": lines(line_5="theirs")}, tmp_path)

    async def repair(request: RepairRequest) -> bool:
        write(sandbox.folder, {"list": lines(line_5="both")})
        return repaired

    assert (await run(sandbox, repair=repair)).how == ("pr" if repaired else "kept")
    assert (pulls.tip(str(sandbox.branch)) is not None) == repaired
    assert (tip(sandbox) == ours) != repaired
    assert git(sandbox.folder, "status", "--porcelain") == ""


async def test_without_the_base_on_origin_the_branch_is_kept(
    sandbox: Sandbox, pulls: Pulls, server: GitHubServer
) -> None:
    git(sandbox.repository, "branch", "local")
    local = msgspec.structs.replace(sandbox, target="local")
    result = await run(local)
    assert (result.how, result.reason) == ("branch", "origin has no branch local to open a pull request against.")
    assert (await run(local, "pr")).how == "kept"
    assert server.requests == []


async def test_the_base_of_a_pull_request_has_origins_name(sandbox: Sandbox, pulls: Pulls) -> None:
    git(sandbox.repository, "branch", "--quiet", "mine", "origin/main")
    result = await run(msgspec.structs.replace(sandbox, target="mine"))
    assert (result.how, pulls.all[1]["base"]["ref"]) == ("pr", "main")


async def test_without_a_login_or_a_base_the_branch_is_kept(
    sandbox: Sandbox, server: GitHubServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (await run(msgspec.structs.replace(sandbox, target=None))).how == "branch"
    monkeypatch.delenv("GH_TOKEN")
    result = await run(sandbox)
    assert (result.how, result.reason) == ("branch", "gh is not logged in to github.com. The branch is kept.")
    assert (await run(sandbox, "pr")).how == "kept"
    assert server.requests == []


async def test_no_hook_of_the_repository_runs(sandbox: Sandbox, pulls: Pulls, tmp_path: Path) -> None:
    for name in ("pre-push", "reference-transaction"):
        write(sandbox.repository, {f".git/hooks/{name}": f"#!/bin/sh\necho {name} >> {tmp_path}/ran\nexit 1\n"})
        (sandbox.repository / ".git" / "hooks" / name).chmod(0o755)
    assert (await run(sandbox)).how == "pr"
    assert not (tmp_path / "ran").exists()


async def test_eight_pull_requests_at_once(repository: Path, pulls: Pulls, tmp_path: Path) -> None:
    sandboxes = [new_sandbox(repository, tmp_path / "sandboxes") for _ in range(8)]
    for number, sandbox in enumerate(sandboxes):
        commit(sandbox.folder, {f"new-{number}": "x\n"})
    push_as_somebody({"other": "theirs\n"}, tmp_path)
    results: list[str] = []

    async def one(sandbox: Sandbox) -> None:
        results.append((await run(sandbox)).how)

    async with trio.open_nursery() as nursery:
        for sandbox in sandboxes:
            nursery.start_soon(one, sandbox)
    assert results == ["pr"] * 8
    assert {pull["head"]["ref"] for pull in pulls.all.values()} == {sandbox.branch for sandbox in sandboxes}
