"""What GitHub's answers mean to a watch: a limit, a failed poll, a refusal, an end."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from cuggino.ci.hub import GitHubHub
from cuggino.ci.ports import Limited, PollFailed, Refused
from cuggino.errors import GitHubError
from cuggino.git.remotes import Slug
from cuggino.github import GitHub, Response
from tests.unit.ci.test_query import page
from tests.unit.ci.world import check

LIMITS = [
    (Response(429, {}, b"{}"), 60),
    (Response(429, {"retry-after": "900"}, b"{}"), 900),
    (Response(403, {"retry-after": "7"}, b'{"message": "secondary rate limit"}'), 7),
    (Response(403, {}, b'{"message": "You have exceeded a secondary rate limit"}'), 60),
    (Response(403, {"x-ratelimit-remaining": "0", "x-ratelimit-reset": "1500"}, b"{}"), 500),
    (Response(200, {}, b'{"errors": [{"type": "RATE_LIMITED", "message": "m"}]}'), 60),
    (Response(200, {"retry-after": "70"}, b'{"errors": [{"type": "RATE_LIMITED", "message": "m"}]}'), 70),
]


class Answers(GitHub):
    """Gives one answer, whatever is asked, or fails."""

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


def hub(answer: Response | None) -> tuple[GitHubHub, Answers]:
    answers = Answers(answer)
    return GitHubHub(answers, Slug("o", "r"), 12, now=lambda: 1000), answers


FAILED = check("test", "FAILURE", id=5)
ELSEWHERE = check("lint", "FAILURE", id=6, app="other", run=None)


ASKS: list[Callable[[GitHubHub], Awaitable[object]]] = [
    lambda one: one.poll(),
    lambda one: one.may_write("mia"),
    lambda one: one.log(FAILED),
    lambda one: one.log(ELSEWHERE),
    lambda one: one.run_again(1),
    lambda one: one.reply("1", "x"),
]


@pytest.mark.parametrize(("answer", "seconds"), LIMITS)
async def test_a_limit_in_any_answer(answer: Response, seconds: float) -> None:
    for ask in ASKS:
        with pytest.raises(Limited) as limited:
            await ask(hub(answer)[0])
        assert limited.value.seconds == seconds


@pytest.mark.parametrize("answer", [None, *(Response(status, {}, b"<html>") for status in (500, 502, 503, 504))])
async def test_no_answer_is_no_result(answer: Response | None) -> None:
    one, answers = hub(answer)
    with pytest.raises(PollFailed):
        await one.poll()
    with pytest.raises(PollFailed):
        await one.may_write("mia")
    for ask in (lambda: one.log(FAILED), lambda: one.run_again(1), lambda: one.reply("1", "x")):
        with pytest.raises(Refused):
            await ask()
    assert one.requests == len(answers.asked) == 5


async def test_what_it_makes_no_sense_to_ask_again() -> None:
    for answer in (
        Response(401, {}, b'{"message": "Bad credentials"}'),
        Response(200, {}, b'{"data": {"repository": null}, "errors": [{"type": "NOT_FOUND", "message": "no"}]}'),
    ):
        with pytest.raises(GitHubError):
            await hub(answer)[0].poll()


async def test_a_poll_is_one_request() -> None:
    one, answers = hub(Response(200, {}, json.dumps(page([])).encode()))
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
async def test_who_may_write(answer: Response, may: bool) -> None:
    one, answers = hub(answer)
    assert await one.may_write("a/../b[bot]") is may
    assert answers.asked[0][1] == "repos/o/r/collaborators/a%2F..%2Fb%5Bbot%5D/permission"


async def test_logs() -> None:
    one, answers = hub(Response(200, {}, b"2026-01-01T00:00:00Z boom\n"))
    assert (await one.log(FAILED)).endswith("test: FAILURE\nWorkflow: ci (push)\n\nboom")
    assert answers.asked[0][:2] == ("GET", "repos/o/r/actions/jobs/5/logs")
    one, _ = hub(Response(404, {}, b'{"message": "Not Found"}'))
    assert "GitHub has no log of it: Not Found (HTTP 404)" in await one.log(FAILED)
    one, answers = hub(Response(200, {}, b'{"output": {"title": "T", "summary": null, "text": "x"}}'))
    assert (await one.log(ELSEWHERE)).endswith("\n\nT\nx")
    assert answers.asked[0][1] == "repos/o/r/check-runs/6"
    status = check("st", "ERROR", app="", run=None, workflow="", url="https://ci", text="bad")
    one, answers = hub(None)
    assert await one.log(status) == "st: ERROR\nSee also: https://ci\nbad"
    assert answers.asked == []


async def test_a_run_that_runs_already_is_as_good_as_run_again() -> None:
    await hub(Response(403, {}, b'{"message": "This workflow is already running"}'))[0].run_again(1)
    with pytest.raises(Refused, match="Resource not accessible"):
        await hub(Response(403, {}, b'{"message": "Resource not accessible by integration"}'))[0].run_again(1)
