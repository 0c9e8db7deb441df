"""Requests to GitHub through the person's own `gh`, and what the responses mean.

Every request is a `gh api --include`, which is the same in all versions of gh and prints a line of HTTP if GitHub
responded at all. gh's exit status does not help: a refusal, a rate limit and a broken cable are all 1.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import msgspec

from cuggino.errors import GitHubError
from cuggino.git.remotes import Slug
from cuggino.git.run import run_apart

_NOT_INHERITED = ("GH_FORCE_TTY", "CLICOLOR_FORCE", "GH_DEBUG", "DEBUG")
"""Variables that make gh color its output or print more than the response."""
_QUIET = {"GH_PROMPT_DISABLED": "1", "GH_NO_UPDATE_NOTIFIER": "1", "NO_COLOR": "1"}
_HEADERS = ("-H", "Accept: application/vnd.github+json", "-H", "X-GitHub-Api-Version: 2022-11-28")
_STATUS_LINE = re.compile(rb"HTTP/[\d.]+ (\d{3})[^\n]*\n")
_LIMITS = ("RATE_LIMITED", "RATE_LIMIT")
_A_MINUTE = 60.0
"""Seconds to wait after a rate limit that has no duration, as GitHub's documentation asks."""


@dataclass(frozen=True)
class Response:
    """A response of GitHub, whatever its status. Header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300


class GitHub:
    """GitHub, reached through the `gh` of this environment (None: cuggino's own).

    `host` None is gh's default host. `requests` counts the requests.
    """

    def __init__(self, cwd: Path, environment: Mapping[str, str] | None = None, *, host: str | None = None) -> None:
        self._cwd = cwd
        self._environment = environment
        self._host = ("--hostname", host) if host else ()
        self.requests = 0

    async def ask(self, method: str, path: str, body: object | None = None) -> Response:
        """Send one request, with `body` as JSON. Raise GitHubError only if there was no response at all.

        When cancelled, gh is killed; GitHub may or may not have processed the request.
        """
        self.requests += 1
        arguments = ("api", "--include", "--method", method, *self._host, *_HEADERS, path)
        if body is None:
            done = await _gh(self._cwd, self._environment, *arguments)
        else:
            done = await _gh(self._cwd, self._environment, *arguments, "--input", "-", stdin=msgspec.json.encode(body))
        response = parse_response(done.stdout)
        if response is None or (done.returncode != 0 and response.ok and not _is_json(response.body)):  # cut off
            raise GitHubError(
                f"GitHub did not answer: {_error_output(done)}", advice="Check `gh auth status`, then try again."
            )
        return response

    async def graphql(self, query: str, variables: Mapping[str, object] | None = None) -> Response:
        """Send one GraphQL request. Its errors come in a response with status 200."""
        return await self.ask("POST", "graphql", {"query": query, "variables": dict(variables or {})})


def parse_response(output: bytes) -> Response | None:
    """Parse the output of `gh api --include`; None if it does not start with a line of HTTP."""
    line = _STATUS_LINE.match(output)
    if line is None:
        return None
    head, _, body = output[line.end() :].partition(b"\r\n\r\n")
    headers = {}
    for entry in head.decode(errors="replace").splitlines():
        name, colon, value = entry.partition(":")
        if colon:
            headers[name.strip().lower()] = value.strip()
    return Response(int(line[1]), headers, body)


# ---- what a response means --------------------------------------------------------------------


class _ErrorBody(msgspec.Struct):
    """The part of a response's JSON that is for people. `errors` is a text, or a list of objects and texts."""

    message: str | None = None
    errors: Any = None


def error_message(response: Response) -> str:
    """Return the messages of a response that is an error, in one line."""
    body = _decode(response)
    messages = [body.message, *(error.get("message") if isinstance(error, dict) else error for error in _errors(body))]
    lines = [" ".join(part.split()) for part in messages if isinstance(part, str)]
    text = "; ".join(line for line in dict.fromkeys(lines) if line)
    return f"{text} (HTTP {response.status})" if text else f"HTTP {response.status}"


def rate_limit(response: Response, now: float) -> float | None:
    """Return the seconds until the next request is allowed, or None without a rate limit. `now` is UNIX time."""
    body = _decode(response)
    limited = any(isinstance(error, dict) and error.get("type") in _LIMITS for error in _errors(body))
    if response.status not in (403, 429) and not limited:
        return None
    if (seconds := _number(response, "retry-after")) is not None:
        return max(0.0, seconds)
    reset = _number(response, "x-ratelimit-reset")
    if reset is not None and _number(response, "x-ratelimit-remaining") == 0:
        return max(0.0, reset - now)
    if response.status == 403 and "rate limit" not in (body.message or "").lower():
        return None
    return _A_MINUTE


def _decode(response: Response) -> _ErrorBody:
    try:
        return msgspec.json.decode(response.body, type=_ErrorBody)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return _ErrorBody()


def _errors(body: _ErrorBody) -> list[Any]:
    return body.errors if isinstance(body.errors, list) else [body.errors]


def _number(response: Response, header: str) -> float | None:
    try:
        return float(response.headers[header])
    except (KeyError, ValueError):
        return None


def _is_json(body: bytes) -> bool:
    try:
        msgspec.json.decode(body)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return False
    return True


async def is_logged_in(slug: Slug, cwd: Path, environment: Mapping[str, str] | None = None) -> bool:
    """Check whether gh has a token for the repository's host. Sends no request; False without gh."""
    known = dict(os.environ if environment is None else environment)
    if known.get("GH_HOST", "").lower() != slug.host:  # gh would take these for a login to any host
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
        return await run_apart(("gh", *arguments), cwd, env, stdin)
    except OSError as error:
        if not cwd.is_dir():
            raise GitHubError(f"The directory {cwd} no longer exists.") from error
        if isinstance(error, FileNotFoundError):
            advice = "Install it (cli.github.com), then log in: gh auth login"
            raise GitHubError("gh is not installed.", advice=advice) from error
        raise GitHubError(f"gh cannot be started: {error.strerror or error}.") from error


def _error_output(done: CompletedProcess[bytes]) -> str:
    """Return what gh printed on stderr, in one line. It never contains the token."""
    text = " ".join(done.stderr.decode(errors="backslashreplace").split())
    return text or f"gh exited with status {done.returncode} and printed nothing."
