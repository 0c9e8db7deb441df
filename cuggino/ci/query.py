"""One poll of a pull request: the GraphQL query, and what its answer means.

Checks are read from the branch's commit, never from the pull request's list of commits, which lags behind a push and
still shows the old green. Anything missing, or an error, makes the whole poll fail: it must not pass for "no failures".
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from typing import Any

import msgspec

from cuggino.ci import wire
from cuggino.ci.pull_request import Check, Comment, Outcome, PullRequestSnapshot, Suite, Thread

QUERY = """\
query($owner: String!, $name: String!, $number: Int!, $checks: String, $suites: String, $threads: String,
      $withChecks: Boolean!, $withSuites: Boolean!, $withThreads: Boolean!) {
  rateLimit { limit remaining }
  repository(owner: $owner, name: $name) {
    pullRequest(number: $number) {
      number title url state mergeable isCrossRepository maintainerCanModify
      author { __typename login }
      baseRefName headRefName headRefOid
      headRepository { nameWithOwner viewerPermission }
      headRef {
        target {
          ... on Commit {
            oid committedDate
            checkSuites(first: 100, after: $suites) @include(if: $withSuites) {
              pageInfo { hasNextPage endCursor }
              nodes { ...suite }
            }
            statusCheckRollup @include(if: $withChecks) {
              contexts(first: 100, after: $checks) {
                pageInfo { hasNextPage endCursor }
                nodes {
                  __typename
                  ... on CheckRun {
                    databaseId name status conclusion startedAt detailsUrl
                    checkSuite { ...suite }
                  }
                  ... on StatusContext { context state description targetUrl createdAt }
                }
              }
            }
          }
        }
      }
      reviewThreads(first: 100, after: $threads) @include(if: $withThreads) {
        pageInfo { hasNextPage endCursor }
        nodes {
          id isResolved path line
          comments(first: 50) { totalCount nodes { ...comment } }
          newest: comments(last: 50) { nodes { ...comment } }
        }
      }
    }
  }
}
fragment suite on CheckSuite {
  id status conclusion createdAt app { slug } workflowRun { databaseId runNumber event workflow { databaseId name } }
}
fragment comment on PullRequestReviewComment {
  fullDatabaseId databaseId author { __typename login } authorAssociation viewerDidAuthor state body
}
"""


class Unreadable(Exception):
    """The answer cannot be used; the message says why. `kinds` are GitHub's names for its errors."""

    def __init__(self, why: str, kinds: frozenset[str] = frozenset()) -> None:
        super().__init__(why)
        self.kinds = kinds


OUTCOMES: Mapping[str, Outcome] = {
    "SUCCESS": "passed",
    **dict.fromkeys(("FAILURE", "ERROR", "TIMED_OUT", "STARTUP_FAILURE", "ACTION_REQUIRED"), "failed"),
    **dict.fromkeys(("SKIPPED", "NEUTRAL", "STALE"), "ignored"),
    "CANCELLED": "cancelled",
}
"""All other words, known or not, mean pending."""

_EMPTY: wire.PageNode[Any] = wire.PageNode(page_info=wire.PageInfoNode(has_next_page=False), nodes=())
_MAY_PUSH = ("ADMIN", "MAINTAIN", "WRITE")


async def poll(
    ask: Callable[[str, Mapping[str, object]], Awaitable[bytes]], owner: str, name: str, number: int
) -> PullRequestSnapshot:
    """Return all pages of the pull request as one; `ask` returns an answer's body. Raise Unreadable, or as `ask`."""
    variables: dict[str, object] = {"owner": owner, "name": name, "number": number}
    variables |= {"withChecks": True, "withSuites": True, "withThreads": True}
    whole: PullRequestSnapshot | None = None
    while True:
        data = _decode(await ask(QUERY, variables))
        page = _page(data)
        if whole is None:
            whole = page
        elif (page.head, page.state) != (whole.head, whole.state):
            raise Unreadable("it changed while it was being read")
        else:
            whole = msgspec.structs.replace(
                page,
                suites=(*whole.suites, *page.suites),
                pushed=max((at for at in (whole.pushed, page.pushed) if at is not None), default=None),
                checks=(*whole.checks, *page.checks),
                threads=(*whole.threads, *page.threads),
            )
        pull = data.repository.pull_request
        checks, suites, threads = (_next(each.page_info) for each in (_contexts(pull), _suites(pull), _threads(pull)))
        if checks is None and suites is None and threads is None:
            return whole
        variables |= {"checks": checks, "withChecks": checks is not None}
        variables |= {"suites": suites, "withSuites": suites is not None}
        variables |= {"threads": threads, "withThreads": threads is not None}


def _decode(body: bytes) -> wire.DataNode:
    try:
        if errors := msgspec.json.decode(body, type=wire.PollErrors).errors:
            messages = dict.fromkeys(error.message or error.type or "an error" for error in errors)
            raise Unreadable("; ".join(messages), frozenset(error.type for error in errors))
        return msgspec.json.decode(body, type=wire.PollAnswer).data
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise Unreadable(f"GitHub's answer cannot be understood: {error}") from error


def _contexts(pull: wire.PullRequestNode) -> wire.PageNode[wire.ContextNode]:
    """Return this page of the checks. Here and below, a page that was not asked for is empty."""
    rollup = pull.head_ref.target.status_check_rollup if pull.head_ref is not None else None
    return rollup.contexts if rollup is not None else _EMPTY


def _suites(pull: wire.PullRequestNode) -> wire.PageNode[wire.SuiteNode]:
    suites = pull.head_ref.target.check_suites if pull.head_ref is not None else None
    return suites or _EMPTY


def _threads(pull: wire.PullRequestNode) -> wire.PageNode[wire.ThreadNode]:
    return pull.review_threads or _EMPTY


def _next(page: wire.PageInfoNode) -> str | None:
    """Return the cursor of the next page, or None if there is none."""
    if page.has_next_page and page.end_cursor is None:
        raise Unreadable("GitHub does not say where the next page starts")
    return page.end_cursor if page.has_next_page else None


def _page(data: wire.DataNode) -> PullRequestSnapshot:
    pull = data.repository.pull_request
    commit = pull.head_ref.target if pull.head_ref is not None else None
    repository = pull.head_repository
    return PullRequestSnapshot(
        number=pull.number,
        title=pull.title,
        url=pull.url,
        state=pull.state,
        mergeable=pull.mergeable,
        author=pull.author.login if pull.author is not None else None,
        base=pull.base_ref_name,
        branch=pull.head_ref_name,
        head=commit.oid if commit is not None else None,
        last_head=pull.head_ref_oid,
        pushed=_pushed(pull),
        foreign=pull.is_cross_repository,
        head_repository=repository.name_with_owner if repository is not None else None,
        may_push=_may_push(pull),
        suites=tuple(_suite(suite) for suite in _suites(pull).nodes),
        checks=tuple(_check(context) for context in _contexts(pull).nodes),
        threads=tuple(_thread(thread) for thread in _threads(pull).nodes),
        limit=data.rate_limit.limit if data.rate_limit is not None else 0,
        remaining=data.rate_limit.remaining if data.rate_limit is not None else 0,
    )


def _pushed(pull: wire.PullRequestNode) -> datetime | None:
    """Return when the head was pushed at the earliest: GitHub makes suites for what is pushed, which may be old."""
    commit = pull.head_ref.target if pull.head_ref is not None else None
    times = [suite.created_at for suite in _suites(pull).nodes]
    times.append(commit.committed_date if commit is not None else None)
    return max((at for at in times if at is not None), default=None)


def _may_push(pull: wire.PullRequestNode) -> bool:
    """Assume that it may if GitHub does not say: to an app it does not."""
    permission = pull.head_repository.viewer_permission if pull.head_repository is not None else None
    if pull.is_cross_repository:
        return pull.head_repository is not None and (permission in _MAY_PUSH or pull.maintainer_can_modify)
    return permission is None or permission in _MAY_PUSH


def _word(status: str, conclusion: str | None) -> str:
    """Return the conclusion of what has ended, or else its status."""
    return (conclusion or "COMPLETED") if status == "COMPLETED" else status


def _suite(suite: wire.SuiteNode) -> Suite:
    word, run = _word(suite.status, suite.conclusion), suite.workflow_run
    return Suite(
        id=suite.id,
        outcome=OUTCOMES.get(word, "pending"),
        word=word,
        app=suite.app.slug if suite.app is not None else "",
        workflow=_name(run.workflow.name) if run is not None else "",
        workflow_id=run.workflow.database_id if run is not None else None,
        event=run.event if run is not None else "",
        run=run.database_id if run is not None else None,
        number=run.run_number if run is not None else 0,
    )


def _check(context: wire.ContextNode) -> Check:
    match context.typename:
        case "CheckRun":
            word = _word(context.status, context.conclusion)
            suite = context.check_suite
            run = suite.workflow_run if suite is not None else None
            return Check(
                name=_name(context.name),
                outcome=OUTCOMES.get(word, "pending"),
                word=word,
                id=context.database_id,
                suite=suite.id if suite is not None else "",
                app=suite.app.slug if suite is not None and suite.app is not None else "",
                workflow=run.workflow.name if run is not None else "",
                workflow_id=run.workflow.database_id if run is not None else None,
                event=run.event if run is not None else "",
                run=run.database_id if run is not None else None,
                number=run.run_number if run is not None else 0,
                run_over=suite is None or suite.status == "COMPLETED",
                started=context.started_at,
                url=context.details_url or "",
            )
        case "StatusContext":
            return Check(
                name=_name(context.context),
                is_status=True,
                outcome=OUTCOMES.get(context.state, "pending"),
                word=context.state,
                started=context.created_at,
                url=context.target_url or "",
                text=context.description or "",
            )
    raise Unreadable(f"a check of an unknown kind: {context.typename}")


def _name(name: str) -> str:
    return " ".join(name.split()) or "(no name)"


def _thread(thread: wire.ThreadNode) -> Thread:
    nodes = {_id(node): node for node in (*thread.comments.nodes, *thread.newest.nodes)}
    return Thread(
        id=thread.id,
        path=thread.path,
        line=thread.line,
        resolved=thread.is_resolved,
        comments=tuple(_comment(node) for node in nodes.values() if node.state != "PENDING"),
        left_out=max(0, thread.comments.total_count - len(nodes)),
    )


def _id(comment: wire.CommentNode) -> str:
    number = comment.full_database_id or comment.database_id
    if number is None:
        raise Unreadable("a comment has no number")
    return str(number)


def _comment(comment: wire.CommentNode) -> Comment:
    author = comment.author
    return Comment(
        id=_id(comment),
        author=author.login if author is not None else None,
        bot=author is not None and author.typename != "User",
        association=comment.author_association,
        own=comment.viewer_did_author,
        body=comment.body,
    )
