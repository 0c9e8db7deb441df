"""What the query of a poll gives, in GitHub's own words: declared is what is used, and what may be missing."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

import msgspec


class Author(msgspec.Struct, frozen=True, rename="camel"):
    login: str
    typename: str = msgspec.field(default="", name="__typename")


class Workflow(msgspec.Struct, frozen=True):
    name: str


class Run(msgspec.Struct, frozen=True, rename="camel"):
    database_id: int | None
    event: str
    workflow: Workflow


class App(msgspec.Struct, frozen=True):
    slug: str


class Suite(msgspec.Struct, frozen=True, rename="camel"):
    status: str
    app: App | None = None
    workflow_run: Run | None = None


class Context(msgspec.Struct, frozen=True, rename="camel"):
    typename: str = msgspec.field(name="__typename")
    database_id: int | None = None
    name: str = ""
    status: str = ""
    conclusion: str | None = None
    started_at: datetime | None = None
    details_url: str | None = None
    check_suite: Suite | None = None
    context: str = ""
    state: str = ""
    description: str | None = None
    target_url: str | None = None
    created_at: datetime | None = None


class PageInfo(msgspec.Struct, frozen=True, rename="camel"):
    has_next_page: bool
    end_cursor: str | None = None


class Contexts(msgspec.Struct, frozen=True, rename="camel"):
    page_info: PageInfo
    nodes: tuple[Context, ...]


class Rollup(msgspec.Struct, frozen=True):
    contexts: Contexts


class Suites(msgspec.Struct, frozen=True):
    nodes: tuple[Suite, ...]


class Commit(msgspec.Struct, frozen=True, rename="camel"):
    oid: str
    status_check_rollup: Rollup | None = None
    check_suites: Suites | None = None


class Ref(msgspec.Struct, frozen=True):
    target: Commit


class Comment(msgspec.Struct, frozen=True, rename="camel"):
    author: Author | None
    author_association: str
    viewer_did_author: bool
    body: str
    state: str = "SUBMITTED"
    full_database_id: str | int | None = None
    database_id: int | None = None


class Comments(msgspec.Struct, frozen=True, rename="camel"):
    nodes: tuple[Comment, ...]
    total_count: int = 0


class Thread(msgspec.Struct, frozen=True, rename="camel"):
    id: str
    is_resolved: bool
    path: str
    comments: Comments
    newest: Comments
    line: int | None = None


class Threads(msgspec.Struct, frozen=True, rename="camel"):
    page_info: PageInfo
    nodes: tuple[Thread, ...]


class HeadRepository(msgspec.Struct, frozen=True, rename="camel"):
    name_with_owner: str
    url: str
    viewer_permission: str | None = None


class Pull(msgspec.Struct, frozen=True, rename="camel"):
    number: int
    title: str
    url: str
    state: Literal["OPEN", "MERGED", "CLOSED"]
    mergeable: Literal["MERGEABLE", "CONFLICTING", "UNKNOWN"]
    is_cross_repository: bool
    maintainer_can_modify: bool
    author: Author | None
    base_ref_name: str
    head_ref_name: str
    head_ref_oid: str
    head_repository: HeadRepository | None
    head_ref: Ref | None
    review_threads: Threads | None = None


class Repository(msgspec.Struct, frozen=True, rename="camel"):
    pull_request: Pull


class RateLimit(msgspec.Struct, frozen=True):
    limit: int = 0
    remaining: int = 0


class Data(msgspec.Struct, frozen=True, rename="camel"):
    repository: Repository
    rate_limit: RateLimit | None = None


class Error(msgspec.Struct, frozen=True):
    message: str = ""
    type: str = ""


class Answer(msgspec.Struct, frozen=True):
    data: Data


class Errors(msgspec.Struct, frozen=True):
    errors: tuple[Error, ...] = ()
