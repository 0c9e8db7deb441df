"""From GitHub's answers to a poll: what counts, what makes the whole poll fail, pages."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from cuggino.ci.query import QUERY, Unreadable, poll

HEAD = "a" * 40
ENDLESS = {"pageInfo": {"hasNextPage": True, "endCursor": None}, "nodes": []}


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
        "headRepository": {"nameWithOwner": "o/r", "viewerPermission": "WRITE"},
        "headRef": {"target": {"oid": HEAD, "statusCheckRollup": rollup}},
        "reviewThreads": {"pageInfo": infos[1], "nodes": threads or []},
        "somethingNew": [1],
        **change,
    }
    return {"data": {"rateLimit": {"limit": 5000, "remaining": 9}, "repository": {"pullRequest": pull}}}


def run(name: str, status: str, conclusion: str | None, **more: Any) -> dict[str, Any]:
    return {"__typename": "CheckRun", "databaseId": 7, "name": name, "status": status, "conclusion": conclusion, **more}


def comment(number: int, **more: Any) -> dict[str, Any]:
    fields = {"fullDatabaseId": str(number), "databaseId": None, "author": {"__typename": "User", "login": "mia"}}
    return {**fields, "authorAssociation": "MEMBER", "viewerDidAuthor": False, "body": "x", **more}


def thread(*comments: dict[str, Any], newest: Sequence[Any] = (), **more: Any) -> dict[str, Any]:
    nodes = {"totalCount": len(comments), "nodes": comments}
    return {"id": "t", "isResolved": False, "path": "a", "comments": nodes, "newest": {"nodes": newest}, **more}


class Pages:
    """GitHub's answers, one after the other; the last one repeats."""

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
async def test_the_outcome_of_a_check(node: dict[str, Any], outcome: str, word: str) -> None:
    (check,) = (await look(page([node]))).checks
    assert (check.name, check.outcome, check.word) == ("a", outcome, word)


async def test_the_origin_of_a_check() -> None:
    suite = {
        "status": "IN_PROGRESS",
        "app": {"slug": "github-actions"},
        "workflowRun": {**RUN_OF_CI, "databaseId": 41_000_000_000},
    }
    node = run("a\n b", "COMPLETED", "FAILURE", checkSuite=suite, startedAt="2026-01-01T00:00:00Z", databaseId=2**40)
    (check,) = (await look(page([node]))).checks
    assert (check.name, check.workflow, check.event, check.run, check.run_over) == (
        *("a b", "ci", "push", 41_000_000_000),
        False,
    )
    assert (check.id, check.is_action, check.workflow_id, check.number) == (2**40, True, 8, 3)
    (other,) = (await look(page([run("a", "COMPLETED", "FAILURE", checkSuite={"status": "COMPLETED"})]))).checks
    assert not other.is_action
    (status,) = (await look(page([{"__typename": "StatusContext", "context": "a", "state": "ERROR"}]))).checks
    assert (status.is_status, check.is_status) == (True, False)


RUN_OF_CI = {"databaseId": 1, "runNumber": 3, "event": "push", "workflow": {"databaseId": 8, "name": "ci"}}


def suites(*nodes: dict[str, Any], more: str | None = None, **rollup: Any) -> dict[str, Any]:
    page_of_suites = {"pageInfo": {"hasNextPage": more is not None, "endCursor": more}, "nodes": nodes}
    return {"target": {"oid": HEAD, "statusCheckRollup": None, "checkSuites": page_of_suites, **rollup}}


def suite(id_: str, status: str, conclusion: str | None, run_of: dict[str, Any] | None = RUN_OF_CI) -> dict[str, Any]:
    app = {"slug": "github-actions"} if run_of else {"slug": "lint"}
    return {"id": id_, "status": status, "conclusion": conclusion, "app": app, "workflowRun": run_of}


async def test_suites_are_read() -> None:
    nodes = (
        suite("1", "COMPLETED", "ACTION_REQUIRED"),
        suite("2", "COMPLETED", "STARTUP_FAILURE"),
        suite("3", "COMPLETED", "CANCELLED"),
        suite("4", "IN_PROGRESS", None),
        suite("5", "QUEUED", None, None),
        suite("6", "COMPLETED", None),
    )
    found = (await look(page([], headRef=suites(*nodes)))).suites
    assert [(it.id, it.outcome, it.word) for it in found] == [
        ("1", "failed", "ACTION_REQUIRED"),
        ("2", "failed", "STARTUP_FAILURE"),
        ("3", "cancelled", "CANCELLED"),
        ("4", "pending", "IN_PROGRESS"),
        ("5", "pending", "QUEUED"),
        ("6", "pending", "COMPLETED"),
    ]
    assert (found[0].app, found[0].workflow, found[0].workflow_id) == ("github-actions", "ci", 8)
    assert (found[0].event, found[0].run, found[0].number) == ("push", 1, 3)
    assert (found[4].app, found[4].workflow, found[4].run) == ("lint", "", None)
    assert (await look(page([]))).suites == ()


@pytest.mark.parametrize(
    ("committed", "created", "pushed"),
    [(1, (), 1), (1, (3, 2), 3), (9, (3,), 9), (None, (3,), 3), (None, (), None)],
)
async def test_when_the_head_was_pushed(committed: int | None, created: tuple[int, ...], pushed: int | None) -> None:
    """An old commit may be pushed now: then its suites are new."""

    def at(minute: int | None) -> str | None:
        return None if minute is None else f"2026-01-01T00:{minute:02}:00Z"

    nodes = [{**suite(str(minute), "COMPLETED", "SUCCESS"), "createdAt": at(minute)} for minute in created]
    found = (await look(page([], headRef=suites(*nodes, committedDate=at(committed))))).pushed
    assert (found.minute if found is not None else None) == pushed


async def test_all_pages_of_suites_are_read() -> None:
    pages = Pages(
        page([], headRef=suites(suite("1", "COMPLETED", "SUCCESS"), more="s1")),
        page([], headRef=suites(suite("2", "COMPLETED", "ACTION_REQUIRED"))),
    )
    assert [it.id for it in (await poll(pages, "o", "r", 12)).suites] == ["1", "2"]
    assert [(it.get("suites"), it["withSuites"], it["withChecks"]) for it in pages.asked] == [
        (None, True, True),
        ("s1", True, False),
    ]


async def test_all_pages_are_read() -> None:
    pages = Pages(
        page([run("a", "COMPLETED", "SUCCESS")], [thread(comment(1), id="t1")], more_checks="c1", more_threads="t1"),
        page([run("b", "COMPLETED", "SUCCESS")], [thread(comment(1), id="t2")], more_checks="c2"),
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
        page([], headRef={"target": {"oid": HEAD, "statusCheckRollup": {"contexts": ENDLESS}}}),
        page([], mergeable="PERHAPS"),
        page([], state="DRAFTED"),
        page([], headRef={"target": {}}),
        page([], headRef={"target": {"oid": HEAD, "statusCheckRollup": {}}}),
        page([], [{**thread(comment(1)), "newest": None}]),
        page([], [thread(comment(1, fullDatabaseId=None))]),
    ],
)
async def test_anything_missing_makes_the_whole_poll_fail(answer: Any) -> None:
    with pytest.raises(Unreadable):
        await look(answer)


@pytest.mark.parametrize(
    ("second", "why"),
    [
        (page([], headRef={"target": {"oid": "b" * 40, "statusCheckRollup": None}}), "changed while it was being read"),
        ({"errors": [{"type": "RATE_LIMITED", "message": "slow down"}]}, "slow down"),
        (b"<html>502</html>", "cannot be understood"),
    ],
)
async def test_a_second_page_of_another_head_or_without_an_answer_makes_the_poll_fail(second: Any, why: str) -> None:
    with pytest.raises(Unreadable, match=why):
        await look(page([run("a", "COMPLETED", "SUCCESS")], more_checks="c1"), second)


async def test_a_pull_request_may_have_no_checks_and_no_branch() -> None:
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
    repository = {"nameWithOwner": "x/r", "viewerPermission": permission}
    pull = await look(page([], isCrossRepository=cross, headRepository=repository, maintainerCanModify=modify))
    assert pull.may_push is may


async def test_the_comments_of_a_thread_are_in_order_and_without_drafts() -> None:
    first, last = [comment(number) for number in range(1, 51)], [comment(number) for number in range(71, 121)]
    newest = [*last[1:], comment(121, state="PENDING")]
    comments = {"totalCount": 121, "nodes": first}
    (found,) = (await look(page([], [thread(newest=newest, comments=comments)]))).threads
    assert [int(it.id) for it in found.comments] == [*range(1, 51), *range(72, 121)]
    assert found.left_out == 121 - 50 - 50
    (found,) = (await look(page([], [thread(first[0], newest=first[:1])]))).threads
    assert ([it.id for it in found.comments], found.left_out) == (["1"], 0)


async def test_the_author_of_a_comment() -> None:
    nodes = [
        comment(1),
        comment(2, author={"__typename": "Bot", "login": "lint"}),
        comment(3, author=None),
        comment(4, viewerDidAuthor=True, fullDatabaseId=None, databaseId=4),
        comment(5, author={"__typename": "Mannequin", "login": "x"}),
    ]
    (found,) = (await look(page([], [thread(*nodes, isResolved=True)]))).threads
    assert [(it.id, it.author, it.bot, it.own) for it in found.comments] == [
        ("1", "mia", False, False),
        ("2", "lint", True, False),
        ("3", None, False, False),
        ("4", "mia", False, True),
        ("5", "x", True, False),
    ]
    assert found.resolved
