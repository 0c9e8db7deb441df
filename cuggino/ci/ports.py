"""What a watch over a pull request needs of the world: GitHub, the branch, agents. Tests give it others."""

from __future__ import annotations

from typing import Literal, Protocol

import msgspec

from cuggino.ci.decide import Failure
from cuggino.ci.pull import Check, Comment, PullRequest, Thread
from cuggino.events import Send


class PollFailed(Exception):
    """Nothing, or nothing certain, is known of the pull request: why."""


class Limited(Exception):
    """GitHub wants no request for `seconds`."""

    def __init__(self, seconds: float, message: str) -> None:
        super().__init__(message)
        self.seconds = seconds
        self.message = message


class Refused(Exception):
    """GitHub, or git, would not do it: in its own words."""


class NonFastForward(Exception):
    """Somebody else has pushed to the branch."""


class Hub(Protocol):
    """The pull request on GitHub. Everything may raise Limited."""

    @property
    def requests(self) -> int:
        """How many were made so far."""
        ...

    async def poll(self) -> PullRequest:
        """Raises PollFailed."""
        ...

    async def may_write(self, login: str) -> bool:
        """Whether this person can write to the repository that the pull request is for. Raises PollFailed."""
        ...

    async def log(self, check: Check) -> str:
        """What there is to read about a failed check; trimmed. Raises Refused where it cannot be had now."""
        ...

    async def run_again(self, run: int) -> None:
        """The failed jobs of a run of GitHub Actions. Raises Refused."""
        ...

    async def reply(self, comment: str, body: str) -> None:
        """Answer the thread that begins with this comment. Raises Refused."""
        ...


class Branch(Protocol):
    """The pull request's branch, by git, which never lags."""

    async def head(self) -> str | None:
        """What it leads to now; None: there is none. Raises PollFailed."""
        ...

    async def push(self, commit: str) -> None:
        """Make this its head, never by force. Raises Faster, Refused."""
        ...

    async def keep(self, commit: str) -> str:
        """Give a commit that cannot be pushed a branch of the person's repository; its name."""
        ...


class Triage(msgspec.Struct, frozen=True, kw_only=True):
    """Why a check has failed."""

    verdict: Literal["transient", "flake", "real"]
    cause: str


class Work(msgspec.Struct, frozen=True, kw_only=True):
    """What came of an agent's work. `tip` is a commit on the head, None: nothing was changed. `failed`: the agent, or
    its sandbox, came to no end; `summary` says why then, else it is the agent's own."""

    tip: str | None = None
    files: tuple[str, ...] = ()
    summary: str = ""
    failed: bool = False


class Fixers(Protocol):
    """Agents, each in a sandbox of its own at the commit `head`. Raise LlmSessionError only for what is no fault of
    the work: an agent that cannot be set up, a provider that is down."""

    async def triage(self, failure: Failure, log: str, head: str, send: Send, /) -> Triage: ...

    async def fix_check(self, failure: Failure, log: str, cause: str, head: str, send: Send, /) -> Work: ...

    async def fix_thread(self, thread: Thread, comments: tuple[Comment, ...], head: str, send: Send, /) -> Work: ...

    async def fix_conflict(self, base: str, head: str, send: Send, /) -> Work: ...
