"""A pull request, as one poll tells it: its checks, its review threads, whether it can be merged and pushed to."""

from __future__ import annotations

from datetime import datetime
from typing import Literal, TypeAlias

import msgspec

Outcome: TypeAlias = Literal["passed", "failed", "pending", "cancelled", "ignored"]


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """A run of a check, or a commit status (which has no `id`). `workflow` and `event` tell runs of one name apart."""

    name: str
    outcome: Outcome
    word: str
    """GitHub's own word for it: TIMED_OUT, say."""
    id: int | None = None
    app: str = ""
    workflow: str = ""
    event: str = ""
    run: int | None = None
    """The workflow run of GitHub Actions that it belongs to; `run_over`: all of that has ended."""
    run_over: bool = True
    started: datetime | None = None
    url: str = ""
    text: str = ""

    @property
    def is_action(self) -> bool:
        return self.app == "github-actions" or self.run is not None


class Comment(msgspec.Struct, frozen=True, kw_only=True):
    """`author` is None where the account is gone; `own`: written with the login that asks."""

    id: str
    author: str | None
    bot: bool
    association: str
    own: bool
    body: str


class Thread(msgspec.Struct, frozen=True, kw_only=True):
    """A review thread; `left_out` comments in its middle are not known. Drafts are none."""

    id: str
    path: str
    line: int | None
    resolved: bool
    comments: tuple[Comment, ...]
    left_out: int = 0


class PullRequest(msgspec.Struct, frozen=True, kw_only=True):
    """All that one poll tells. `head` is the commit that the branch leads to; None: there is no branch any more."""

    number: int
    title: str
    url: str
    state: Literal["OPEN", "MERGED", "CLOSED"]
    mergeable: Literal["MERGEABLE", "CONFLICTING", "UNKNOWN"]
    author: str | None
    author_is_bot: bool
    base: str
    branch: str
    head: str | None
    last_head: str
    """The newest commit that GitHub took into the pull request: it may lag behind `head`."""
    foreign: bool
    """It comes from another repository."""
    head_repository: str | None
    """Where the branch is, `owner/name`."""
    may_push: bool
    checks: tuple[Check, ...]
    threads: tuple[Thread, ...]
    unfinished: tuple[str, ...] = ()
    """Workflows of GitHub Actions that go on, on this head: not all of their checks need be there yet."""
    limit: int = 0
    remaining: int = 0
