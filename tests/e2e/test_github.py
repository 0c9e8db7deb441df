"""`cuggino.github` with the real gh, the distribution's and the current one, against a GitHub on this machine."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest
import trio

from cuggino.errors import GitHubError
from cuggino.git.remotes import Slug, find_origin
from cuggino.github import GitHub, error_message, is_logged_in, rate_limit
from tests.e2e.github_server import (
    BAD_GATEWAY,
    CUT,
    DROPPED,
    GRAPHQL_LIMIT,
    SECONDARY_LIMIT,
    GitHubServer,
    Reply,
    bare_origin,
    find_gh,
    gh_environment,
    git,
    github_server,
    primary_limit,
)

pytestmark = pytest.mark.e2e


@pytest.fixture(params=["system", "current"])
def gh(request: pytest.FixtureRequest) -> Path:
    which: Literal["system", "current"] = request.param
    return find_gh(which)


@pytest.fixture
def server() -> Iterator[GitHubServer]:
    with github_server() as running:
        yield running


@pytest.fixture
def environment(home: Path, server: GitHubServer, gh: Path) -> dict[str, str]:
    return gh_environment(home, server, gh)


@pytest.fixture
def github(project: Path, environment: dict[str, str]) -> GitHub:
    return GitHub(project, environment, host="github.com")


async def test_an_answer_has_status_headers_and_body(server: GitHubServer, github: GitHub) -> None:
    server.on("GET", "repos/o/r", Reply(200, {"full_name": "o/r"}, {"X-Some": "thing: with colon"}))
    answer = await github.ask("GET", "repos/o/r?per_page=100&head=o%3Ab")
    assert answer.ok
    assert answer.headers["x-some"] == "thing: with colon"
    assert answer.body == b'{"full_name": "o/r"}'
    (request,) = server.requests
    assert request.query == {"per_page": "100", "head": "o:b"}
    assert request.headers["authorization"] == "token dummy-token"
    assert request.headers["accept"] == "application/vnd.github+json"
    assert github.requests == 1


async def test_a_body_of_any_size_and_content_arrives_as_it_is(server: GitHubServer, github: GitHub) -> None:
    server.on("POST", "repos/o/r/pulls", Reply(201, {"number": 7}))
    body = {"title": "ü\r\n\x00 {owner} @file -F a=b", "body": "line\n" * 60_000}
    assert (await github.ask("POST", "repos/o/r/pulls", body)).status == 201
    assert server.requests[0].json == body


async def test_a_bodys_empty_lines_and_bytes_are_not_taken_for_headers(server: GitHubServer, github: GitHub) -> None:
    log = b"first\r\n\r\nHTTP/1.1 500 no\r\n\r\n\xff\x00last\n"
    server.on("GET", "repos/o/r/actions/jobs/1/logs", Reply(302, b"", {"location": "/logs/1"}))
    server.on("GET", "logs/1", Reply(200, log, {"content-type": "text/plain"}))
    answer = await github.ask("GET", "repos/o/r/actions/jobs/1/logs")
    assert (answer.status, answer.body) == (200, log)


@pytest.mark.parametrize("status", [204, 304, 401, 403, 404, 409, 422, 500, 502, 503])
async def test_every_status_is_an_answer(server: GitHubServer, github: GitHub, status: int) -> None:
    body = None if status in (204, 304) else {"message": "why"}
    server.on("DELETE", "repos/o/r/x", Reply(status, body))
    answer = await github.ask("DELETE", "repos/o/r/x")
    assert answer.status == status
    assert answer.ok == (status == 204)
    assert rate_limit(answer, time.time()) is None
    assert len(server.requests) == 1


async def test_a_gateways_page_is_an_answer_without_a_message(server: GitHubServer, github: GitHub) -> None:
    server.fail("graphql", BAD_GATEWAY)
    assert error_message(await github.graphql("query { viewer { login } }")) == "HTTP 502"


async def test_a_refusal_says_why(server: GitHubServer, github: GitHub) -> None:
    errors = [{"code": "custom", "message": "A pull request already exists for o:b."}, "and a text"]
    server.fail("repos/o/r/pulls", Reply(422, {"message": "Validation Failed", "errors": errors}))
    answer = await github.ask("POST", "repos/o/r/pulls", {})
    assert error_message(answer) == "Validation Failed; A pull request already exists for o:b.; and a text (HTTP 422)"


async def test_graphql_errors_are_in_an_answer(server: GitHubServer, github: GitHub) -> None:
    errors = [{"type": "NOT_FOUND", "message": "no such thing"}]
    server.on("POST", "graphql", Reply(200, {"data": None, "errors": errors}))
    answer = await github.graphql("query($n: Int!) { x(n: $n) }", {"n": 3})
    assert answer.status == 200
    assert rate_limit(answer, 0) is None
    assert server.requests[0].json == {"query": "query($n: Int!) { x(n: $n) }", "variables": {"n": 3}}


@pytest.mark.parametrize("broken", [DROPPED, CUT])
async def test_a_broken_connection_gives_no_answer(server: GitHubServer, github: GitHub, broken: Reply) -> None:
    server.fail("graphql", broken)
    with pytest.raises(GitHubError, match="EOF"):
        await github.graphql("query { viewer { login } }")
    assert github.requests == 1


async def test_without_a_server_there_is_no_answer(project: Path, home: Path, gh: Path) -> None:
    with github_server() as gone:
        environment = gh_environment(home, gone, gh)
    with pytest.raises(GitHubError, match=r"did not answer: .*(no such file|connect)"):
        await GitHub(project, environment).ask("GET", "user")


@pytest.mark.parametrize(
    ("reply", "seconds"),
    [
        (SECONDARY_LIMIT, 120),
        (GRAPHQL_LIMIT, 60),
        (Reply(429, {"message": "slow down"}), 60),
        (Reply(403, {"message": "You have exceeded a secondary rate limit. Wait a few minutes."}), 60),
    ],
)
async def test_rate_limits_are_recognized(server: GitHubServer, github: GitHub, reply: Reply, seconds: float) -> None:
    server.fail("graphql", reply)
    assert rate_limit(await github.graphql("query { viewer { login } }"), time.time()) == seconds


@pytest.mark.parametrize("status", [403, 429])
async def test_the_hourly_limit_lasts_until_its_reset(server: GitHubServer, github: GitHub, status: int) -> None:
    server.fail("graphql", primary_limit(1000, status))
    limit = rate_limit(await github.graphql("query { viewer { login } }"), time.time())
    assert limit == pytest.approx(950, abs=50)


async def test_when_cancelled_it_ends_gh(server: GitHubServer, github: GitHub, tmp_path: Path) -> None:
    server.on("GET", "slow", Reply(200, {}, delay=60))
    with trio.move_on_after(0.5) as scope:
        await github.ask("GET", "slow")
    assert scope.cancelled_caught
    home = f"HOME={tmp_path / 'home'}".encode()
    assert [entry.name for entry in Path("/proc").glob("[0-9]*") if home in _environ(entry)] == []


def _environ(entry: Path) -> list[bytes]:
    try:
        return (entry / "environ").read_bytes().split(b"\0")
    except OSError:
        return []


async def test_what_is_sent_is_in_no_argument(project: Path, home: Path, server: GitHubServer, gh: Path) -> None:
    """Everybody on the machine can read a process's arguments."""
    environment = gh_environment(home, server, gh)
    spy = home / "spy"
    spy.mkdir()
    (spy / "gh").write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > "{home}/argv"\nexec "{gh}" "$@"\n')
    (spy / "gh").chmod(0o755)
    environment["PATH"] = f"{spy}{os.pathsep}{environment['PATH']}"
    server.on("POST", "repos/o/r/pulls", Reply(201, {}))
    await GitHub(project, environment).ask("POST", "repos/o/r/pulls", {"title": "the-title"})
    assert server.requests[0].json == {"title": "the-title"}
    assert "the-title" not in (home / "argv").read_text()
    assert "dummy-token" not in (home / "argv").read_text()


async def test_settings_for_terminals_do_not_change_the_answer(
    project: Path, home: Path, server: GitHubServer, gh: Path
) -> None:
    server.on("GET", "user", Reply(200, {"login": "ada"}))
    environment = gh_environment(home, server, gh, GH_FORCE_TTY="80", GH_DEBUG="api", PAGER="head -c 3")
    assert (await GitHub(project, environment).ask("GET", "user")).body == b'{"login": "ada"}'


async def test_a_login_is_found_without_a_request(project: Path, home: Path, server: GitHubServer, gh: Path) -> None:
    slug = Slug("o", "r")
    other = Slug("o", "r", "git.example.org")
    with_token = gh_environment(home, server, gh)
    assert await is_logged_in(slug, project, with_token)
    assert not await is_logged_in(other, project, with_token)
    without = gh_environment(home, server, gh, GH_TOKEN="")
    assert not await is_logged_in(slug, project, without)
    enterprise = {**without, "GH_ENTERPRISE_TOKEN": "dummy"}
    assert not await is_logged_in(other, project, enterprise)
    assert await is_logged_in(other, project, {**enterprise, "GH_HOST": "git.example.org"})
    hosts = home / ".config" / "gh" / "hosts.yml"
    hosts.write_text("github.com:\n    oauth_token: dummy\n    user: ada\n    git_protocol: https\n")
    assert await is_logged_in(slug, project, without)
    assert server.requests == []


async def test_without_gh(project: Path, tmp_path: Path) -> None:
    environment = {"PATH": str(tmp_path), "HOME": str(tmp_path)}
    with pytest.raises(GitHubError, match="gh is not installed"):
        await GitHub(project, environment).ask("GET", "user")
    assert not await is_logged_in(Slug("o", "r"), project, environment)


async def test_the_origin(project: Path, tmp_path: Path) -> None:
    git(project, "init", "--quiet", "--initial-branch", "main")
    assert await find_origin(project) is None
    bare_origin(tmp_path / "origin.git", project)
    assert await find_origin(project) == Slug("o", "r")
    git(project, "config", "url.git@github.com:.insteadOf", "mine:")
    git(project, "remote", "set-url", "origin", "mine:p/q.git")
    assert await find_origin(project) == Slug("p", "q")
