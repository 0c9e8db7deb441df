"""What a watch over a pull request needs from outside: GitHub, the branch, agents. Tests pass in others."""

from __future__ import annotations

from typing import Literal, Protocol

import msgspec

from cuggino.ci.decide import Failure
from cuggino.ci.pull_request import Check, Comment, PullRequestSnapshot, Thread
from cuggino.events import Send


class PollFailed(Exception):
    """Nothing certain is known about the pull request now; the message says why."""


class RateLimited(Exception):
    """GitHub accepts no request for `seconds`."""

    def __init__(self, seconds: float, message: str) -> None:
        super().__init__(message)
        self.seconds = seconds
        self.message = message


class OperationFailed(Exception):
    """GitHub or git did not do what it was asked; the message is its own."""


class NonFastForward(Exception):
    """Somebody else pushed to the branch first."""


class PullRequestApi(Protocol):
    """The pull request on GitHub. Every method may raise RateLimited."""

    @property
    def requests(self) -> int:
        """The number of requests so far."""
        ...

    async def poll(self) -> PullRequestSnapshot:
        """Raise PollFailed unless all of the pull request could be read."""
        ...

    async def is_open(self) -> bool:
        """Return whether the pull request is neither merged nor closed. Raise PollFailed if that is not known."""
        ...

    async def may_write(self, login: str) -> bool:
        """Return whether this account can write to the base repository. Raise PollFailed if that is not known."""
        ...

    async def log(self, check: Check) -> str:
        """Return what there is to read about a failed check, trimmed. Raise OperationFailed if it is not available."""
        ...

    async def rerun(self, run: int) -> None:
        """Run the failed jobs of a GitHub Actions run again. Raise OperationFailed."""
        ...

    async def reply(self, comment: str, body: str) -> None:
        """Answer the thread that starts with this comment. Raise OperationFailed."""
        ...


class Branch(Protocol):
    """The pull request's branch as git sees it, which never lags behind a push."""

    async def head(self) -> str | None:
        """Return its commit, or None if the branch does not exist. Raise PollFailed."""
        ...

    async def push(self, commit: str, onto: str) -> None:
        """Make `commit` its head if that is still `onto`. Raise NonFastForward if it has another, or OperationFailed.

        A branch that does not exist is not created.
        """
        ...

    async def keep(self, commit: str) -> str:
        """Create a local branch for a commit that cannot be pushed; return its name."""
        ...


class Triage(msgspec.Struct, frozen=True, kw_only=True):
    """Why a check failed."""

    verdict: Literal["transient", "flake", "real"]
    cause: str


class FixResult(msgspec.Struct, frozen=True, kw_only=True):
    """What an agent achieved. `tip` is a commit on top of the head, or None if nothing changed.

    `failed`: the agent or its sandbox did not finish, and `summary` says why; otherwise it is the agent's own summary.
    """

    tip: str | None = None
    files: tuple[str, ...] = ()
    summary: str = ""
    failed: bool = False


class Fixers(Protocol):
    """Agents, each in a sandbox of its own at the commit `head`.

    They raise LlmSessionError only for what is not the work's fault: an agent that cannot be set up, or a provider
    that is down.
    """

    async def triage(self, failure: Failure, log: str, head: str, send: Send, /) -> Triage: ...

    async def fix_check(self, failure: Failure, log: str, cause: str, head: str, send: Send, /) -> FixResult: ...

    async def fix_thread(
        self, thread: Thread, comments: tuple[Comment, ...], head: str, send: Send, /
    ) -> FixResult: ...

    async def fix_conflict(self, base: str, head: str, send: Send, /) -> FixResult: ...
