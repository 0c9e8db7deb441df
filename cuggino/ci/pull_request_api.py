"""The pull request on GitHub, through the person's own gh."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from typing import TypeVar
from urllib.parse import quote

import msgspec

from cuggino.ci import query
from cuggino.ci.checks import ambiguous_runs
from cuggino.ci.ports import OperationFailed, PollFailed, RateLimited
from cuggino.ci.pull_request import Check, PullRequestSnapshot
from cuggino.errors import GitHubError
from cuggino.git.remotes import Slug
from cuggino.github import GitHub, Response, error_message, rate_limit

T = TypeVar("T")
replace = msgspec.structs.replace

_WRITERS = ("admin", "maintain", "write")


class _Permission(msgspec.Struct):
    permission: str = "none"


class _CheckOutput(msgspec.Struct):
    title: str | None = None
    summary: str | None = None
    text: str | None = None


class _CheckRun(msgspec.Struct):
    output: _CheckOutput = msgspec.field(default_factory=_CheckOutput)


class _PullRequestState(msgspec.Struct):
    state: str = ""


class _Job(msgspec.Struct):
    run_attempt: int = 0


class GitHubPullRequest:
    """The real `PullRequestApi`. `now` returns UNIX time in seconds."""

    def __init__(self, github: GitHub, slug: Slug, number: int, now: Callable[[], float] = time.time) -> None:
        self._github = github
        self._slug = slug
        self._number = number
        self._now = now
        self._attempts: dict[int, int] = {}
        """Jobs → the attempt of their run, which does not change."""
        self._why = ""
        """GitHub's words in its last answer, or why there was none."""

    @property
    def requests(self) -> int:
        return self._github.requests

    async def poll(self) -> PullRequestSnapshot:
        """Poll, as in `PullRequestApi`. Raise GitHubError if a retry cannot help: no login, no such pull request."""
        try:
            pull = await query.poll(self._graphql, self._slug.owner, self._slug.name, self._number)
        except query.Unreadable as unreadable:
            if "NOT_FOUND" in unreadable.kinds:
                raise GitHubError(
                    f"Pull request #{self._number} does not exist in {self._slug}, or this login cannot see it: "
                    f"{unreadable}"
                ) from unreadable
            raise PollFailed(str(unreadable)) from unreadable
        for check in ambiguous_runs(pull.checks):
            if check.id is not None and check.id not in self._attempts:
                self._attempts[check.id] = await self._attempt(check.id)
        checks = (replace(check, attempt=self._attempts.get(check.id or 0, check.attempt)) for check in pull.checks)
        return replace(pull, checks=tuple(checks))

    async def _attempt(self, job: int) -> int:
        """Return in which attempt of its run the job ran, which GraphQL does not say; 0 if it is not known."""
        answer = await self._ask("GET", f"{self._slug.api}/actions/jobs/{job}")
        if answer is None or answer.status >= 500:
            raise PollFailed(self._why)
        return _decoded(answer, _Job).run_attempt if answer.ok else 0

    async def _graphql(self, text: str, variables: Mapping[str, object]) -> bytes:
        answer = await self._ask("POST", "graphql", {"query": text, "variables": dict(variables)})
        if answer is None or answer.status != 200:
            raise PollFailed(self._why)
        return answer.body

    async def is_open(self) -> bool:
        answer = await self._ask("GET", f"{self._slug.api}/pulls/{self._number}")
        if answer is None or not answer.ok or not (state := _decoded(answer, _PullRequestState).state):
            raise PollFailed(self._why)
        return state == "open"

    async def may_write(self, login: str) -> bool:
        answer = await self._ask("GET", f"{self._slug.api}/collaborators/{quote(login, safe='')}/permission")
        if answer is None or answer.status >= 500:
            raise PollFailed(self._why)
        return answer.ok and _decoded(answer, _Permission).permission in _WRITERS

    async def log(self, check: Check) -> str:
        lines = [
            f"{check.name}: {check.word}",
            f"Workflow: {check.workflow} ({check.event})" if check.workflow else "",
            f"See also: {check.url}" if check.url else "",
            check.text,
        ]
        head = "\n".join(line for line in lines if line)
        if check.id is None:
            return head
        if not check.is_action:
            answer = await self._read(f"{self._slug.api}/check-runs/{check.id}")
            output = _decoded(answer, _CheckRun).output if answer.ok else _CheckOutput()
            parts = (output.title, output.summary, output.text)
            return f"{head}\n\n{trim_log(chr(10).join(part for part in parts if part).encode())}"
        answer = await self._read(f"{self._slug.api}/actions/jobs/{check.id}/logs")
        log = trim_log(answer.body) if answer.ok else f"GitHub has no log for it: {error_message(answer)}"
        return f"{head}\n\n{log}"

    async def _read(self, path: str) -> Response:
        answer = await self._ask("GET", path)
        if answer is None or answer.status >= 500:
            raise OperationFailed(self._why)
        return answer

    async def rerun(self, run: int) -> None:
        answer = await self._ask("POST", f"{self._slug.api}/actions/runs/{run}/rerun-failed-jobs")
        if answer is None or not (answer.ok or "already running" in error_message(answer).lower()):
            raise OperationFailed(self._why)

    async def reply(self, comment: str, body: str) -> None:
        path = f"{self._slug.api}/pulls/{self._number}/comments/{comment}/replies"
        answer = await self._ask("POST", path, {"body": body})
        if answer is None or not answer.ok:
            raise OperationFailed(self._why)

    async def _ask(self, method: str, path: str, body: object | None = None) -> Response | None:
        """Return the answer, or None if there was none; either way `_why` is set. Raise RateLimited or GitHubError."""
        try:
            answer = await self._github.ask(method, path, body)
        except GitHubError as error:
            self._why = error.message
            return None
        self._why = error_message(answer)
        if (seconds := rate_limit(answer, self._now())) is not None:
            raise RateLimited(seconds, self._why)
        if answer.status == 401:
            raise GitHubError(f"GitHub rejects gh's login: {self._why}", advice="Log in: gh auth login")
        return answer


def _decoded(answer: Response, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(answer.body, type=kind)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return kind()


# ---- logs -------------------------------------------------------------------------------------

_LINES = 600
_BEFORE, _AFTER = 60, 10
"""Lines around each line that GitHub marks as an error."""
_WIDTH = 2000
_TIME = re.compile(r"^\ufeff?\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z ?")
_COLOURS = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)")
_ERROR = "##[error]"


def trim_log(log: bytes) -> str:
    """Return a job's log without time stamps and colours: the lines around errors and the end, a few hundred lines.

    An agent reads the whole result, and logs can have any length.
    """
    text = log.decode(errors="replace").replace("\r\n", "\n")
    lines = [_COLOURS.sub("", _TIME.sub("", line))[:_WIDTH] for line in text.split("\n")]
    while lines and not lines[-1].strip():
        lines.pop()
    if len(lines) <= _LINES:
        return "\n".join(lines)
    wanted: set[int] = set()
    for place, line in enumerate(lines):
        if line.startswith(_ERROR) and len(wanted) < _LINES // 2:
            wanted |= set(range(max(0, place - _BEFORE), min(len(lines), place + _AFTER)))
    wanted |= set(range(len(lines) - (_LINES - min(len(wanted), _LINES // 2)), len(lines)))
    shown: list[str] = []
    before = -1
    for place in sorted(wanted):
        if place > before + 1:
            shown.append(f"[… {place - before - 1} lines are left out]")
        shown.append(lines[place])
        before = place
    return "\n".join(shown)
