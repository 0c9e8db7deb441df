"""The pull request on GitHub, asked through the person's own gh."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TypeVar
from urllib.parse import quote

import msgspec

from cuggino.ci import query
from cuggino.ci.logs import trimmed
from cuggino.ci.ports import Limited, PollFailed, Refused
from cuggino.ci.pull import Check, PullRequest
from cuggino.errors import GitHubError
from cuggino.git.remotes import Slug
from cuggino.github import GitHub, Response, error_message, rate_limit

T = TypeVar("T")

_WRITERS = ("admin", "maintain", "write")

LOOKUP = """\
query($owner: String!, $name: String!, $branch: String!) {
  repository(owner: $owner, name: $name) {
    ref(qualifiedName: $branch) {
      associatedPullRequests(states: OPEN, first: 10) {
        nodes { number repository { name owner { login } } }
      }
    }
  }
}
"""
"""The open pull requests of a branch."""


class _Permission(msgspec.Struct):
    permission: str = "none"


class _Output(msgspec.Struct):
    title: str | None = None
    summary: str | None = None
    text: str | None = None


class _CheckRun(msgspec.Struct):
    output: _Output = msgspec.field(default_factory=_Output)


class GitHubHub:
    """The `Hub` of a pull request. `now` in seconds, UNIX."""

    def __init__(self, github: GitHub, slug: Slug, number: int, now: Callable[[], float] = time.time) -> None:
        self._github = github
        self._slug = slug
        self._number = number
        self._now = now

    @property
    def requests(self) -> int:
        return self._github.requests

    async def poll(self) -> PullRequest:
        """GitHubError where it makes no sense to ask again: no login, no such pull request."""
        try:
            return await query.poll(self._graphql, self._slug.owner, self._slug.name, self._number)
        except query.Unreadable as unreadable:
            if "NOT_FOUND" in unreadable.kinds:
                raise GitHubError(
                    f"There is no pull request #{self._number} in {self._slug}, or it is hidden from this login: "
                    f"{unreadable}"
                ) from unreadable
            raise PollFailed(str(unreadable)) from unreadable

    async def _graphql(self, text: str, variables: Mapping[str, object]) -> bytes:
        answer = await self._ask("POST", "graphql", {"query": text, "variables": dict(variables)})
        if answer is None or answer.status != 200:
            raise PollFailed(self._why)
        return answer.body

    async def may_write(self, login: str) -> bool:
        answer = await self._ask("GET", f"{self._slug.api}/collaborators/{quote(login, safe='')}/permission")
        if answer is None or answer.status >= 500:
            raise PollFailed(self._why)
        return answer.ok and _decoded(answer, _Permission).permission in _WRITERS

    async def log(self, check: Check) -> str:
        head = "\n".join(
            part
            for part in (
                f"{check.name}: {check.word}",
                f"Workflow: {check.workflow} ({check.event})" if check.workflow else "",
                f"See also: {check.url}" if check.url else "",
                check.text,
            )
            if part
        )
        if check.id is None:
            return head
        if not check.is_action:
            answer = await self._read(f"{self._slug.api}/check-runs/{check.id}")
            output = _decoded(answer, _CheckRun).output if answer.ok else _Output()
            told = (output.title, output.summary, output.text)
            return f"{head}\n\n{trimmed(chr(10).join(part for part in told if part).encode())}"
        answer = await self._read(f"{self._slug.api}/actions/jobs/{check.id}/logs")
        log = trimmed(answer.body) if answer.ok else f"GitHub has no log of it: {error_message(answer)}"
        return f"{head}\n\n{log}"

    async def _read(self, path: str) -> Response:
        answer = await self._ask("GET", path)
        if answer is None or answer.status >= 500:
            raise Refused(self._why)
        return answer

    async def run_again(self, run: int) -> None:
        answer = await self._ask("POST", f"{self._slug.api}/actions/runs/{run}/rerun-failed-jobs")
        if answer is None or not (answer.ok or "already running" in error_message(answer).lower()):
            raise Refused(self._why)

    async def reply(self, comment: str, body: str) -> None:
        path = f"{self._slug.api}/pulls/{self._number}/comments/{comment}/replies"
        answer = await self._ask("POST", path, {"body": body})
        if answer is None or not answer.ok:
            raise Refused(self._why)

    async def _ask(self, method: str, path: str, body: object | None = None) -> Response | None:
        """None: there was no answer. `_why` has the words of a refusal then, and of any other."""
        try:
            answer = await self._github.ask(method, path, body)
        except GitHubError as error:
            self._why = error.message
            return None
        self._why = error_message(answer)
        if (seconds := rate_limit(answer, self._now())) is not None:
            raise Limited(seconds, self._why)
        if answer.status == 401:
            raise GitHubError(f"GitHub does not take gh's login: {self._why}", advice="Log in: gh auth login")
        return answer

    _why = ""


def _decoded(answer: Response, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(answer.body, type=kind)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return kind()


# ---- which one --------------------------------------------------------------------------------


class _Owner(msgspec.Struct):
    login: str


class _Place(msgspec.Struct):
    name: str
    owner: _Owner


class _Node(msgspec.Struct):
    number: int
    repository: _Place


class _Nodes(msgspec.Struct):
    nodes: list[_Node]


class _Ref(msgspec.Struct, rename="camel"):
    associated_pull_requests: _Nodes


class _Repository(msgspec.Struct):
    ref: _Ref | None


class _Data(msgspec.Struct):
    repository: _Repository


class _Found(msgspec.Struct):
    data: _Data


async def pull_of_branch(github: GitHub, slug: Slug, branch: str) -> tuple[Slug, int]:
    """The open pull request of a branch of this repository, which may be for another one. GitHubError: there is not
    exactly one."""
    variables = {"owner": slug.owner, "name": slug.name, "branch": f"refs/heads/{branch}"}
    answer = await github.graphql(LOOKUP, variables)
    try:
        ref = msgspec.json.decode(answer.body, type=_Found).data.repository.ref
    except (msgspec.DecodeError, ValueError, RecursionError):
        raise GitHubError(f"GitHub does not tell the pull requests of {branch}: {error_message(answer)}") from None
    found = ref.associated_pull_requests.nodes if ref is not None else []
    if len(found) != 1:
        numbers = ", ".join(f"#{node.number}" for node in found)
        raise GitHubError(
            f"The branch {branch} of {slug} has {f'several pull requests: {numbers}' if found else 'no pull request'}.",
            advice="Name one: cuggino ci watch NUMBER",
        )
    place = found[0].repository
    return Slug(place.owner.login, place.name, slug.host), found[0].number
