"""What GitHub's answers mean to a watch: a rate limit, a failed poll, a failed operation, an end; trimmed logs."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cuggino.ci.ports import OperationFailed, PollFailed, RateLimited
from cuggino.ci.pull_request_api import GitHubPullRequest, trim_log
from cuggino.errors import GitHubError
from cuggino.git.remotes import Slug
from cuggino.github import GitHub, Response
from tests.unit.ci.test_query import RUN_OF_CI, page, run
from tests.unit.ci.world import check


class Answers(GitHub):
    """Give one answer, whatever is asked, or fail."""

    def __init__(self, answer: Response | None) -> None:
        super().__init__(Path())
        self.answer = answer
        self.asked: list[tuple[str, str, object]] = []

    async def ask(self, method: str, path: str, body: object | None = None) -> Response:
        self.requests += 1
        self.asked.append((method, path, body))
        if self.answer is None:
            raise GitHubError("GitHub did not answer: EOF")
        return self.answer


def api(answer: Response | None) -> tuple[GitHubPullRequest, Answers]:
    answers = Answers(answer)
    return GitHubPullRequest(answers, Slug("o", "r"), 12, now=lambda: 1000), answers


class Jobs(Answers):
    """Answer polls with two jobs of one name; `attempts` are theirs, or None for a job that GitHub does not have."""

    def __init__(self, attempts: dict[int, int | None], status: int = 404) -> None:
        suite = {"id": "CS_1", "status": "COMPLETED", "app": {"slug": "github-actions"}, "workflowRun": RUN_OF_CI}
        nodes = [run("a", "COMPLETED", "FAILURE", databaseId=number, checkSuite=suite) for number in attempts]
        nodes.append(run("b", "COMPLETED", "SUCCESS", databaseId=99, checkSuite=suite))
        super().__init__(Response(200, {}, json.dumps(page(nodes)).encode()))
        self.attempts = attempts
        self.status = status

    async def ask(self, method: str, path: str, body: object | None = None) -> Response:
        answer = await super().ask(method, path, body)
        if method == "POST":
            return answer
        attempt = self.attempts[int(path.rpartition("/")[2])]
        if attempt is None:
            return Response(self.status, {}, b"{}")
        return Response(200, {}, json.dumps({"run_attempt": attempt}).encode())


async def test_attempts_are_asked_for_once_where_only_they_distinguish_two_jobs() -> None:
    answers = Jobs({1: 1, 2: 2, 3: None})
    one = GitHubPullRequest(answers, Slug("o", "r"), 12, now=lambda: 1000)
    assert [(it.id, it.attempt) for it in (await one.poll()).checks] == [(1, 1), (2, 2), (3, 0), (99, 1)]
    assert await one.poll() == await one.poll()
    asked = [path for method, path, _ in answers.asked if method == "GET"]
    assert asked == [f"repos/o/r/actions/jobs/{number}" for number in (1, 2, 3)]


async def test_an_attempt_that_cannot_be_read_now_is_a_failed_poll() -> None:
    one = GitHubPullRequest(Jobs({1: 1, 2: None}, status=502), Slug("o", "r"), 12, now=lambda: 1000)
    with pytest.raises(PollFailed):
        await one.poll()


async def test_whether_it_is_open() -> None:
    for state, expected in (("open", True), ("closed", False)):
        assert await api(Response(200, {}, json.dumps({"state": state}).encode()))[0].is_open() is expected
    for answer in (None, Response(404, {}, b"{}"), Response(502, {}, b"<html>"), Response(200, {}, b"[]")):
        with pytest.raises(PollFailed):
            await api(answer)[0].is_open()


FAILED = check("test", "FAILURE", id=5)
ELSEWHERE = check("lint", "FAILURE", id=6, app="other", run=None)


ASKS: list[Callable[[GitHubPullRequest], Awaitable[object]]] = [
    lambda one: one.poll(),
    lambda one: one.may_write("mia"),
    lambda one: one.log(FAILED),
    lambda one: one.log(ELSEWHERE),
    lambda one: one.rerun(1),
    lambda one: one.reply("1", "x"),
]


@pytest.mark.parametrize(
    ("answer", "seconds"),
    [
        (Response(403, {"x-ratelimit-remaining": "0", "x-ratelimit-reset": "1500"}, b"{}"), 500),
        (Response(200, {"retry-after": "70"}, b'{"errors": [{"type": "RATE_LIMITED", "message": "m"}]}'), 70),
    ],
)
async def test_a_rate_limit_in_any_answer_is_raised(answer: Response, seconds: float) -> None:
    for ask in ASKS:
        with pytest.raises(RateLimited) as limited:
            await ask(api(answer)[0])
        assert limited.value.seconds == seconds


@pytest.mark.parametrize("answer", [None, *(Response(status, {}, b"<html>") for status in (500, 502, 503, 504))])
async def test_without_an_answer_a_poll_or_an_operation_fails(answer: Response | None) -> None:
    one, answers = api(answer)
    with pytest.raises(PollFailed):
        await one.poll()
    with pytest.raises(PollFailed):
        await one.may_write("mia")
    for ask in (lambda: one.log(FAILED), lambda: one.rerun(1), lambda: one.reply("1", "x")):
        with pytest.raises(OperationFailed):
            await ask()
    assert one.requests == len(answers.asked) == 5


@pytest.mark.parametrize(
    ("status", "body", "message"),
    [
        (401, b'{"message": "Bad credentials"}', "rejects gh's login: Bad credentials"),
        (200, b'{"data": null, "errors": [{"type": "NOT_FOUND", "message": "no"}]}', "#12 does not exist in o/r"),
    ],
)
async def test_a_poll_that_cannot_succeed_later_is_an_error(status: int, body: bytes, message: str) -> None:
    with pytest.raises(GitHubError, match=message):
        await api(Response(status, {}, body))[0].poll()


async def test_a_poll_is_one_request() -> None:
    one, answers = api(Response(200, {}, json.dumps(page([])).encode()))
    assert (await one.poll()).number == 12
    assert one.requests == 1
    ((method, path, body),) = answers.asked
    assert (method, path) == ("POST", "graphql")
    assert isinstance(body, dict)
    assert set(body) == {"query", "variables"}


@pytest.mark.parametrize(
    ("answer", "may"),
    [
        (Response(200, {}, b'{"permission": "admin"}'), True),
        (Response(200, {}, b'{"permission": "write"}'), True),
        (Response(200, {}, b'{"permission": "read"}'), False),
        (Response(200, {}, b'{"permission": "none"}'), False),
        (Response(200, {}, b"[]"), False),
        (Response(404, {}, b"{}"), False),
        (Response(403, {}, b'{"message": "Must have push access"}'), False),
    ],
)
async def test_only_accounts_with_write_permission_may_write(answer: Response, may: bool) -> None:
    one, answers = api(answer)
    assert await one.may_write("a/../b[bot]") is may
    assert answers.asked[0][1] == "repos/o/r/collaborators/a%2F..%2Fb%5Bbot%5D/permission"


async def test_a_log_is_that_of_the_job_or_what_the_check_says() -> None:
    one, answers = api(Response(200, {}, b"2026-01-01T00:00:00Z boom\n"))
    assert (await one.log(FAILED)).endswith("test: FAILURE\nWorkflow: ci (push)\n\nboom")
    assert answers.asked[0][:2] == ("GET", "repos/o/r/actions/jobs/5/logs")
    one, _ = api(Response(404, {}, b'{"message": "Not Found"}'))
    assert "GitHub has no log for it: Not Found (HTTP 404)" in await one.log(FAILED)
    one, answers = api(Response(200, {}, b'{"output": {"title": "T", "summary": null, "text": "x"}}'))
    assert (await one.log(ELSEWHERE)).endswith("\n\nT\nx")
    assert answers.asked[0][1] == "repos/o/r/check-runs/6"
    status = check("st", "ERROR", app="", run=None, workflow="", url="https://ci", text="bad")
    one, answers = api(None)
    assert await one.log(status) == "st: ERROR\nSee also: https://ci\nbad"
    assert answers.asked == []


async def test_a_run_that_is_running_already_counts_as_rerun() -> None:
    await api(Response(403, {}, b'{"message": "This workflow is already running"}'))[0].rerun(1)
    with pytest.raises(OperationFailed, match="Resource not accessible"):
        await api(Response(403, {}, b'{"message": "Resource not accessible by integration"}'))[0].rerun(1)


# ---- logs -------------------------------------------------------------------------------------


def test_a_logs_time_stamps_and_colours_are_removed() -> None:
    log = b"\xef\xbb\xbf2026-01-01T00:00:00.123Z \x1b[31mred\x1b[0m\r\n2026-01-01T00:00:01Z ##[error]no\r\n\r\n\xff"
    assert trim_log(log) == "red\n##[error]no\n\n\ufffd"


def test_a_long_log_keeps_its_errors_and_its_end() -> None:
    lines = [f"line {number}" for number in range(10_000)]
    lines[5000] = "##[error]here"
    kept = trim_log("\n".join(lines).encode()).split("\n")
    assert len(kept) < 700
    assert kept[0] == "[… 4940 lines are left out]"
    assert "##[error]here" in kept
    assert kept[-1] == "line 9999"


@given(st.binary(max_size=5000), st.integers(1, 50))
def test_any_log_is_shortened(piece: bytes, times: int) -> None:
    assert len(trim_log(piece * times).split("\n")) <= 1300
