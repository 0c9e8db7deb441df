"""A pull request as one poll shows it: its checks, its review threads, whether it can be merged and pushed to."""

from __future__ import annotations

from datetime import datetime
from typing import Literal, TypeAlias

import msgspec

Outcome: TypeAlias = Literal["passed", "failed", "pending", "cancelled", "ignored"]


class Suite(msgspec.Struct, frozen=True, kw_only=True):
    """The check runs of one app, or of one run of a workflow, which may have none. `word`: its state or conclusion."""

    id: str
    outcome: Outcome
    word: str
    app: str = ""
    workflow: str = ""
    """The name of the workflow, or nothing for a suite of another app."""
    workflow_id: int | None = None
    event: str = ""
    run: int | None = None
    number: int = 0
    """The number of the workflow's run."""

    @property
    def title(self) -> str:
        """What it is called where checks have their names."""
        return f"(workflow {self.workflow})" if self.run is not None else f"(checks of {self.app or 'an app'})"


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """A run of a check, a commit status, or a suite without a run that says how it ended; only a run has an `id`."""

    name: str
    outcome: Outcome
    word: str
    """GitHub's own word for it, such as TIMED_OUT."""
    id: int | None = None
    is_status: bool = False
    suite: str = ""
    app: str = ""
    workflow: str = ""
    workflow_id: int | None = None
    event: str = ""
    run: int | None = None
    """The GitHub Actions run that it belongs to; `run_over`: all jobs of that run have ended."""
    number: int = 0
    """The number of that run."""
    attempt: int = 1
    """The attempt of that run, or 0 if it is not known. It is asked for only where it makes a difference."""
    run_over: bool = True
    started: datetime | None = None
    url: str = ""
    text: str = ""

    @property
    def is_action(self) -> bool:
        return self.app == "github-actions" or self.run is not None


class Comment(msgspec.Struct, frozen=True, kw_only=True):
    """`author` is None if the account was deleted; `own`: written with the login that polls."""

    id: str
    author: str | None
    bot: bool
    association: str
    own: bool
    body: str


class Thread(msgspec.Struct, frozen=True, kw_only=True):
    """A review thread, without drafts; `left_out` comments in its middle were not read."""

    id: str
    path: str
    line: int | None
    resolved: bool
    comments: tuple[Comment, ...]
    left_out: int = 0

    @property
    def place(self) -> str:
        """Where it is: the path, and the line if there is one."""
        return self.path if self.line is None else f"{self.path}:{self.line}"


class PullRequestSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one poll. `head` is the branch's commit, or None if the branch does not exist."""

    number: int
    title: str
    url: str
    state: Literal["OPEN", "MERGED", "CLOSED"]
    mergeable: Literal["MERGEABLE", "CONFLICTING", "UNKNOWN"]
    author: str | None
    base: str
    branch: str
    head: str | None
    last_head: str
    """The newest commit that GitHub has added to the pull request; it may lag behind `head`."""
    foreign: bool
    """It comes from another repository."""
    head_repository: str | None
    """The branch's repository, `owner/name`."""
    may_push: bool
    checks: tuple[Check, ...]
    threads: tuple[Thread, ...]
    suites: tuple[Suite, ...] = ()
    pushed: datetime | None = None
    """When the head was committed, or its newest suite was created: about when it was pushed."""
    limit: int = 0
    remaining: int = 0
