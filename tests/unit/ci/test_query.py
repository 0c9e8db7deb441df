"""From GitHub's words to a poll: what counts, what makes the whole poll fail, pages."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from cuggino.ci.query import QUERY, Unreadable, poll

HEAD = "a" * 40


def page(
    nodes: list[Any] | None = None,
    threads: list[Any] | None = None,
    *,
    more_checks: str | None = None,
    more_threads: str | None = None,
    **change: Any,
) -> dict[str, Any]:
    infos = [{"hasNextPage": more is not None, "endCursor": more} for more in (more_checks, more_threads)]
    rollup = None if nodes is None else {"contexts": {"pageInfo": infos[0], "nodes": nodes}}
    pull = {
        "number": 12,
        "title": "A change",
        "url": "https://github.com/o/r/pull/12",
        "state": "OPEN",
        "mergeable": "MERGEABLE",
        "isCrossRepository": False,
        "maintainerCanModify": False,
        "author": {"__typename": "User", "login": "mia"},
        "baseRefName": "main",
        "headRefName": "change",
        "headRefOid": HEAD,
        "headRepository": {"nameWithOwner": "o/r", "url": "https://github.com/o/r", "viewerPermission": "WRITE"},
        "headRef": {"target": {"oid": HEAD, "statusCheckRollup": rollup}},
        "reviewThreads": {"pageInfo": infos[1], "nodes": threads or []},
        "somethingNew": [1],
        **change,
    }
    return {"data": {"rateLimit": {"limit": 5000, "remaining": 9}, "repository": {"pullRequest": pull}}}


def run(name: str, status: str, conclusion: str | None, **more: Any) -> dict[str, Any]:
    return {"__typename": "CheckRun", "databaseId": 7, "name": name, "status": status, "conclusion": conclusion, **more}


def said(number: int, **more: Any) -> dict[str, Any]:
    comment = {"fullDatabaseId": str(number), "databaseId": None, "author": {"__typename": "User", "login": "mia"}}
    return {**comment, "authorAssociation": "MEMBER", "viewerDidAuthor": False, "body": "x", **more}


class Pages:
    """What GitHub answers, one after the other; the last one again and again."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.asked: list[Mapping[str, object]] = []

    async def __call__(self, query: str, variables: Mapping[str, object]) -> bytes:
        assert query == QUERY
        self.asked.append(dict(variables))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return answer if isinstance(answer, bytes) else json.dumps(answer).encode()


async def look(*answers: Any) -> Any:
    return await poll(Pages(*answers), "o", "r", 12)


@pytest.mark.parametrize(
    ("node", "outcome", "word"),
    [
        (run("a", "COMPLETED", "SUCCESS"), "passed", "SUCCESS"),
        (run("a", "COMPLETED", "TIMED_OUT"), "failed", "TIMED_OUT"),
        (run("a", "COMPLETED", "STARTUP_FAILURE"), "failed", "STARTUP_FAILURE"),
        (run("a", "COMPLETED", "CANCELLED"), "cancelled", "CANCELLED"),
        (run("a", "COMPLETED", "SKIPPED"), "ignored", "SKIPPED"),
        (run("a", "COMPLETED", None), "pending", "COMPLETED"),
        (run("a", "COMPLETED", "INVENTED"), "pending", "INVENTED"),
        (run("a", "IN_PROGRESS", None), "pending", "IN_PROGRESS"),
        (run("a", "QUEUED", "SUCCESS"), "pending", "QUEUED"),
        ({"__typename": "StatusContext", "context": "a", "state": "ERROR"}, "failed", "ERROR"),
        ({"__typename": "StatusContext", "context": "a", "state": "EXPECTED"}, "pending", "EXPECTED"),
        ({"__typename": "StatusContext", "context": "a", "state": "SUCCESS"}, "passed", "SUCCESS"),
    ],
)
async def test_what_a_check_comes_to(node: dict[str, Any], outcome: str, word: str) -> None:
    (check,) = (await look(page([node]))).checks
    assert (check.name, check.outcome, check.word) == ("a", outcome, word)


async def test_where_a_check_comes_from() -> None:
    suite = {
        "status": "IN_PROGRESS",
        "app": {"slug": "github-actions"},
        "workflowRun": {"databaseId": 41_000_000_000, "event": "push", "workflow": {"name": "ci"}},
    }
    node = run("a\n b", "COMPLETED", "FAILURE", checkSuite=suite, startedAt="2026-01-01T00:00:00Z", databaseId=2**40)
    (check,) = (await look(page([node]))).checks
    assert (check.name, check.workflow, check.event, check.run, check.run_over) == (
        *("a b", "ci", "push", 41_000_000_000),
        False,
    )
    assert (check.id, check.is_action) == (2**40, True)
    (other,) = (await look(page([run("a", "COMPLETED", "FAILURE", checkSuite={"status": "COMPLETED"})]))).checks
    assert not other.is_action


async def test_workflows_that_go_on() -> None:
    run_of_ci = {"databaseId": 1, "event": "push", "workflow": {"name": "ci"}}
    suites = [
        {"status": "IN_PROGRESS", "workflowRun": run_of_ci},
        {"status": "QUEUED", "workflowRun": run_of_ci},
        {"status": "QUEUED", "workflowRun": None},  # an app that has nothing to say, for ever
        {"status": "COMPLETED", "workflowRun": {**run_of_ci, "workflow": {"name": "docs"}}},
    ]
    target = {"oid": HEAD, "statusCheckRollup": None, "checkSuites": {"nodes": suites}}
    assert (await look(page([], headRef={"target": target}))).unfinished == ("ci",)
    assert (await look(page([]))).unfinished == ()


async def test_all_pages_are_read() -> None:
    one = {"id": "t1", "isResolved": False, "path": "a", "comments": {"nodes": [said(1)]}, "newest": {"nodes": []}}
    pages = Pages(
        page([run("a", "COMPLETED", "SUCCESS")], [one], more_checks="c1", more_threads="t1"),
        page([run("b", "COMPLETED", "SUCCESS")], [{**one, "id": "t2"}], more_checks="c2"),
        page([run("c", "COMPLETED", "FAILURE")], []),
    )
    pull = await poll(pages, "o", "r", 12)
    assert [check.name for check in pull.checks] == ["a", "b", "c"]
    assert [thread.id for thread in pull.threads] == ["t1", "t2"]
    assert [(it.get("checks"), it.get("threads"), it["withThreads"]) for it in pages.asked] == [
        (None, None, True),
        ("c1", "t1", True),
        ("c2", None, False),
    ]
    assert (pull.limit, pull.remaining) == (5000, 9)


@pytest.mark.parametrize(
    "answer",
    [
        b"<html>502</html>",
        b"",
        b"[]",
        {"data": None},
        {"errors": [{"type": "FORBIDDEN", "message": "no"}], **page([])},
        {"data": {"repository": None}},
        {"data": {"repository": {"pullRequest": None}}},
        page([{"__typename": "Novelty"}]),
        page([None]),
        page([], more_checks=""),
        page([], mergeable="PERHAPS"),
        page([], state="DRAFTED"),
        page([], headRef={"target": {}}),
        page([], headRef={"target": {"oid": HEAD, "statusCheckRollup": {}}}),
        page([], [{"id": "t", "isResolved": False, "path": "a", "comments": {"nodes": [said(1)]}}]),
        page(
            [],
            [
                {
                    "id": "t",
                    "isResolved": False,
                    "path": "a",
                    "newest": {"nodes": []},
                    "comments": {"nodes": [said(1, fullDatabaseId=None)]},
                }
            ],
        ),
    ],
)
async def test_what_is_missing_makes_the_whole_poll_fail(answer: Any) -> None:
    if isinstance(answer, dict) and answer == page([], more_checks=""):
        answer["data"]["repository"]["pullRequest"]["headRef"]["target"]["statusCheckRollup"]["contexts"]["pageInfo"][
            "endCursor"
        ] = None
    with pytest.raises(Unreadable):
        await look(answer)


async def test_a_push_between_two_pages_makes_the_poll_fail() -> None:
    moved = page([], headRef={"target": {"oid": "b" * 40, "statusCheckRollup": None}})
    with pytest.raises(Unreadable, match="changed while it was being read"):
        await look(page([], more_checks="c1"), moved)


async def test_no_checks_and_no_branch() -> None:
    assert (await look(page(None))).checks == ()
    gone = await look(page(None, headRef=None, headRepository=None, state="MERGED"))
    assert (gone.head, gone.last_head, gone.head_repository, gone.may_push) == (None, HEAD, None, True)


@pytest.mark.parametrize(
    ("cross", "permission", "modify", "may"),
    [
        (False, "WRITE", False, True),
        (False, "ADMIN", False, True),
        (False, "READ", True, False),
        (False, None, False, True),
        (True, "READ", False, False),
        (True, "READ", True, True),
        (True, None, True, True),
        (True, "WRITE", False, True),
    ],
)
async def test_whether_it_can_be_pushed_to(cross: bool, permission: str | None, modify: bool, may: bool) -> None:
    place = {"nameWithOwner": "x/r", "url": "u", "viewerPermission": permission}
    pull = await look(page([], isCrossRepository=cross, headRepository=place, maintainerCanModify=modify))
    assert pull.may_push is may


async def test_a_threads_comments_in_order_without_drafts() -> None:
    first, last = [said(number) for number in range(1, 51)], [said(number) for number in range(71, 121)]
    draft = said(121, state="PENDING")
    thread = {
        "id": "t",
        "isResolved": False,
        "path": "a",
        "line": 3,
        "comments": {"totalCount": 121, "nodes": first},
        "newest": {"nodes": [*last[1:], draft]},
    }
    (found,) = (await look(page([], [thread]))).threads
    assert [int(it.id) for it in found.comments] == [*range(1, 51), *range(72, 121)]
    assert found.left_out == 121 - 50 - 50
    short = {**thread, "comments": {"totalCount": 1, "nodes": first[:1]}, "newest": {"nodes": first[:1]}}
    (found,) = (await look(page([], [short]))).threads
    assert ([it.id for it in found.comments], found.left_out) == (["1"], 0)


async def test_whose_comment_it_is() -> None:
    nodes = [
        said(1),
        said(2, author={"__typename": "Bot", "login": "lint"}),
        said(3, author=None),
        said(4, viewerDidAuthor=True, fullDatabaseId=None, databaseId=4),
        said(5, author={"__typename": "Mannequin", "login": "x"}),
    ]
    thread = {"id": "t", "isResolved": True, "path": "a", "comments": {"nodes": nodes}, "newest": {"nodes": []}}
    (found,) = (await look(page([], [thread]))).threads
    assert [(it.id, it.author, it.bot, it.own) for it in found.comments] == [
        ("1", "mia", False, False),
        ("2", "lint", True, False),
        ("3", None, False, False),
        ("4", "mia", False, True),
        ("5", "x", True, False),
    ]
    assert found.resolved
