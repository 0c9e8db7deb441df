"""The person's own `gh`, asked for one thing at a time: what GitHub answers, and which repository is meant.

Everything goes through `gh api -i`, which is the same in all its versions, and says by a line of HTTP whether
GitHub has answered at all. gh's exit status says nothing: a refusal, a rate limit and a broken cable are all 1.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any
from urllib.parse import urlsplit

import msgspec
import trio

from cuggino.errors import GitHubError
from cuggino.git import run_git

_NOT_INHERITED = ("GH_FORCE_TTY", "CLICOLOR_FORCE", "GH_DEBUG", "DEBUG")
"""What makes gh colour its answers, or print more than these."""
_QUIET = {"GH_PROMPT_DISABLED": "1", "GH_NO_UPDATE_NOTIFIER": "1", "NO_COLOR": "1"}
_HEADERS = ("-H", "Accept: application/vnd.github+json", "-H", "X-GitHub-Api-Version: 2022-11-28")
_STATUS_LINE = re.compile(rb"HTTP/[\d.]+ (\d{3})[^\n]*\n")
_LIMITS = ("RATE_LIMITED", "RATE_LIMIT")
_A_MINUTE = 60.0
"""What GitHub asks one to wait after a limit that does not say how long it holds."""


@dataclass(frozen=True)
class Answer:
    """What GitHub answered, whatever its status. The headers' names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300


class GitHub:
    """GitHub, by the `gh` of this environment (None: cuggino's own). `host` None: the one that gh takes by default.

    `requests` counts what was asked.
    """

    def __init__(self, cwd: Path, environment: Mapping[str, str] | None = None, *, host: str | None = None) -> None:
        self._cwd = cwd
        self._environment = environment
        self._host = ("--hostname", host) if host else ()
        self.requests = 0

    async def ask(self, method: str, path: str, body: object | None = None) -> Answer:
        """One request; `body` goes as JSON, by stdin. GitHubError only where there was no answer at all.

        Cancelled, gh is ended; whether GitHub has taken the request is not known then.
        """
        self.requests += 1
        arguments = ("api", "--include", "--method", method, *self._host, *_HEADERS, path)
        if body is None:
            done = await _gh(self._cwd, self._environment, *arguments)
        else:
            done = await _gh(self._cwd, self._environment, *arguments, "--input", "-", stdin=msgspec.json.encode(body))
        answer = parse(done.stdout)
        if answer is None or (done.returncode != 0 and answer.ok and not _is_json(answer.body)):  # broken off
            raise GitHubError(
                f"GitHub did not answer: {_said(done)}", advice="`gh auth status` tells what gh knows; try it again."
            )
        return answer

    async def graphql(self, query: str, variables: Mapping[str, object] | None = None) -> Answer:
        """One GraphQL request. Its errors are in an answer whose status is 200."""
        return await self.ask("POST", "graphql", {"query": query, "variables": dict(variables or {})})


def parse(output: bytes) -> Answer | None:
    """What `gh api --include` has printed; None: no line of HTTP is in it."""
    line = _STATUS_LINE.match(output)
    if line is None:
        return None
    head, _, body = output[line.end() :].partition(b"\r\n\r\n")
    headers = {}
    for entry in head.decode(errors="replace").splitlines():
        name, colon, value = entry.partition(":")
        if colon:
            headers[name.strip().lower()] = value.strip()
    return Answer(int(line[1]), headers, body)


# ---- what an answer means ---------------------------------------------------------------------


class _Said(msgspec.Struct):
    """The part of an answer's JSON that is for people. In `errors` are objects, texts, or it is one text."""

    message: str | None = None
    errors: Any = None


def words(answer: Answer) -> str:
    """What GitHub says in an answer that is a refusal, in one line."""
    said = _decoded(answer)
    told = [said.message, *(error.get("message") if isinstance(error, dict) else error for error in _errors(said))]
    lines = [" ".join(part.split()) for part in told if isinstance(part, str)]
    text = "; ".join(line for line in dict.fromkeys(lines) if line)
    return f"{text} (HTTP {answer.status})" if text else f"HTTP {answer.status}"


def rate_limit(answer: Answer, now: float) -> float | None:
    """For how many seconds to ask nothing more; None: this answer is no rate limit. `now` in seconds, UNIX."""
    said = _decoded(answer)
    limited = any(isinstance(error, dict) and error.get("type") in _LIMITS for error in _errors(said))
    if answer.status not in (403, 429) and not limited:
        return None
    if (seconds := _number(answer, "retry-after")) is not None:
        return max(0.0, seconds)
    reset = _number(answer, "x-ratelimit-reset")
    if reset is not None and _number(answer, "x-ratelimit-remaining") == 0:
        return max(0.0, reset - now)
    if answer.status == 403 and "rate limit" not in (said.message or "").lower():
        return None
    return _A_MINUTE


def _decoded(answer: Answer) -> _Said:
    try:
        return msgspec.json.decode(answer.body, type=_Said)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return _Said()


def _errors(said: _Said) -> list[Any]:
    return said.errors if isinstance(said.errors, list) else [said.errors]


def _number(answer: Answer, header: str) -> float | None:
    try:
        return float(answer.headers[header])
    except (KeyError, ValueError):
        return None


def _is_json(body: bytes) -> bool:
    try:
        msgspec.json.decode(body)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return False
    return True


# ---- which repository -------------------------------------------------------------------------


@dataclass(frozen=True)
class Slug:
    """A repository, as GitHub names it."""

    owner: str
    name: str
    host: str = "github.com"

    def __str__(self) -> str:
        return f"{self.owner}/{self.name}"

    @property
    def api(self) -> str:
        """What the paths of its requests begin with."""
        return f"repos/{self.owner}/{self.name}"


_SCP_LIKE = re.compile(r"(?:[\w.+-]+@)?(?P<host>[\w.-]+):(?P<path>(?!//).+)")
_OWNER_AND_NAME = re.compile(r"/*([\w.-]+)/([\w.-]+?)(?:\.git)?/*")


def slug_of(url: str) -> Slug | None:
    """The repository of a remote's URL, whatever its host: https, ssh, or as scp has it. None: it has none."""
    if "://" in url:
        try:
            parts = urlsplit(url)
            host = parts.hostname
        except ValueError:
            return None
        if parts.scheme not in ("https", "http", "ssh", "git", "git+ssh"):
            return None
        path = parts.path
    elif found := _SCP_LIKE.fullmatch(url):
        host, path = found["host"], found["path"]
    else:
        return None
    named = _OWNER_AND_NAME.fullmatch(path)
    if not host or named is None or {named[1], named[2]} & {".", ".."}:
        return None
    host = host.lower()
    host = "github.com" if host in ("ssh.github.com", "www.github.com") else host
    return Slug(named[1], named[2], host)


async def origin(root: Path) -> Slug | None:
    """The repository that the remote `origin` leads to; where it leads to a folder, the one that it is called."""
    for arguments in (("remote", "get-url", "origin"), ("config", "--get", "remote.origin.url")):
        found = await run_git(root, *arguments)
        slug = slug_of(found.stdout.decode(errors="replace").strip()) if found.returncode == 0 else None
        if slug is not None:
            return slug
    return None


async def logged_in(slug: Slug, cwd: Path, environment: Mapping[str, str] | None = None) -> bool:
    """Whether gh has a token for the repository's host. Nothing is asked of GitHub; not where there is no gh."""
    known = dict(os.environ if environment is None else environment)
    if known.get("GH_HOST", "").lower() != slug.host:  # else these would be a login for every host there is
        known = {name: value for name, value in known.items() if not name.endswith("_ENTERPRISE_TOKEN")}
    try:
        done = await _gh(cwd, known, "auth", "token", "--hostname", slug.host)
    except GitHubError:
        return False
    return done.returncode == 0 and done.stdout.strip() != b""


# ---- gh ---------------------------------------------------------------------------------------


async def _gh(
    cwd: Path, environment: Mapping[str, str] | None, *arguments: str, stdin: bytes = b""
) -> CompletedProcess[bytes]:
    own = os.environ if environment is None else environment
    env = {**{name: value for name, value in own.items() if name not in _NOT_INHERITED}, **_QUIET}
    try:
        return await trio.run_process(
            ["gh", *arguments],
            stdin=stdin,
            capture_stdout=True,
            capture_stderr=True,
            check=False,
            cwd=cwd,
            env=env,
            start_new_session=True,  # the terminal's Ctrl+C is cuggino's to answer
        )
    except OSError as error:
        if not cwd.is_dir():
            raise GitHubError(f"{cwd} is no folder any more.") from error
        if isinstance(error, FileNotFoundError):
            advice = "Install it (cli.github.com), and log in: gh auth login"
            raise GitHubError("There is no gh on this machine.", advice=advice) from error
        raise GitHubError(f"gh cannot be run: {error.strerror or error}.") from error


def _said(done: CompletedProcess[bytes]) -> str:
    """gh's own words, in one line: they never hold the token."""
    told = " ".join(done.stderr.decode(errors="backslashreplace").split())
    return told or f"gh ended with status {done.returncode} and said nothing."
