"""The answer to a poll's query, in GitHub's own words: only fields that are used are declared."""

from __future__ import annotations

from datetime import datetime
from typing import Generic, Literal, TypeVar

import msgspec

T = TypeVar("T")


class AuthorNode(msgspec.Struct, frozen=True, rename="camel"):
    login: str
    typename: str = msgspec.field(default="", name="__typename")


class WorkflowNode(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    database_id: int | None = None


class RunNode(msgspec.Struct, frozen=True, rename="camel"):
    database_id: int | None
    event: str
    workflow: WorkflowNode
    run_number: int = 0


class AppNode(msgspec.Struct, frozen=True):
    slug: str


class SuiteNode(msgspec.Struct, frozen=True, rename="camel"):
    status: str
    id: str = ""
    conclusion: str | None = None
    created_at: datetime | None = None
    app: AppNode | None = None
    workflow_run: RunNode | None = None


class ContextNode(msgspec.Struct, frozen=True, rename="camel"):
    typename: str = msgspec.field(name="__typename")
    database_id: int | None = None
    name: str = ""
    status: str = ""
    conclusion: str | None = None
    started_at: datetime | None = None
    details_url: str | None = None
    check_suite: SuiteNode | None = None
    context: str = ""
    state: str = ""
    description: str | None = None
    target_url: str | None = None
    created_at: datetime | None = None


class PageInfoNode(msgspec.Struct, frozen=True, rename="camel"):
    has_next_page: bool
    end_cursor: str | None = None


class PageNode(msgspec.Struct, Generic[T], frozen=True, rename="camel"):
    page_info: PageInfoNode
    nodes: tuple[T, ...]


class RollupNode(msgspec.Struct, frozen=True):
    contexts: PageNode[ContextNode]


class CommitNode(msgspec.Struct, frozen=True, rename="camel"):
    oid: str
    committed_date: datetime | None = None
    status_check_rollup: RollupNode | None = None
    check_suites: PageNode[SuiteNode] | None = None


class RefNode(msgspec.Struct, frozen=True):
    target: CommitNode


class CommentNode(msgspec.Struct, frozen=True, rename="camel"):
    author: AuthorNode | None
    author_association: str
    viewer_did_author: bool
    body: str
    state: str = "SUBMITTED"
    full_database_id: str | int | None = None
    database_id: int | None = None


class CommentsNode(msgspec.Struct, frozen=True, rename="camel"):
    nodes: tuple[CommentNode, ...]
    total_count: int = 0


class ThreadNode(msgspec.Struct, frozen=True, rename="camel"):
    id: str
    is_resolved: bool
    path: str
    comments: CommentsNode
    newest: CommentsNode
    line: int | None = None


class HeadRepositoryNode(msgspec.Struct, frozen=True, rename="camel"):
    name_with_owner: str
    viewer_permission: str | None = None


class PullRequestNode(msgspec.Struct, frozen=True, rename="camel"):
    number: int
    title: str
    url: str
    state: Literal["OPEN", "MERGED", "CLOSED"]
    mergeable: Literal["MERGEABLE", "CONFLICTING", "UNKNOWN"]
    is_cross_repository: bool
    maintainer_can_modify: bool
    author: AuthorNode | None
    base_ref_name: str
    head_ref_name: str
    head_ref_oid: str
    head_repository: HeadRepositoryNode | None
    head_ref: RefNode | None
    review_threads: PageNode[ThreadNode] | None = None


class RepositoryNode(msgspec.Struct, frozen=True, rename="camel"):
    pull_request: PullRequestNode


class RateLimitNode(msgspec.Struct, frozen=True):
    limit: int = 0
    remaining: int = 0


class DataNode(msgspec.Struct, frozen=True, rename="camel"):
    repository: RepositoryNode
    rate_limit: RateLimitNode | None = None


class ErrorNode(msgspec.Struct, frozen=True):
    message: str = ""
    type: str = ""


class PollAnswer(msgspec.Struct, frozen=True):
    data: DataNode


class PollErrors(msgspec.Struct, frozen=True):
    errors: tuple[ErrorNode, ...] = ()
