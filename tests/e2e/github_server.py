"""A GitHub on this machine, for the real gh: HTTP on a unix socket, and a bare repository as the origin.

Handlers in a table of methods and paths answer; faults take precedence. gh finds the server by `http_unix_socket` in a
HOME of its own, and git by an `insteadOf` in the repository's own configuration.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import socketserver
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, Literal
from urllib.parse import parse_qsl, urlsplit

import pytest

from tests.e2e.serving import running


@dataclass(frozen=True)
class Request:
    """A request of gh. `path` has no leading slash; `named` are the groups of the handler's pattern."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes
    named: Mapping[str, str] = field(default_factory=dict)

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class Reply:
    """An answer: `body` is JSON unless it is bytes. `drop`: the connection ends before it, or in the middle."""

    status: int = 200
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    drop: Literal["before", "middle"] | None = None
    delay: float = 0
    """Seconds; the end of the server ends them early."""


Handler = Callable[[Request], Reply]

DROPPED = Reply(drop="before")
CUT = Reply(body={"much": "x" * 1000}, drop="middle")
BAD_GATEWAY = Reply(502, b"<html><body>Bad Gateway</body></html>", {"content-type": "text/html"})
NOT_FOUND = Reply(404, {"message": "Not Found", "status": "404"})
SECONDARY_LIMIT = Reply(403, {"message": "You have exceeded a secondary rate limit."}, {"retry-after": "120"})
GRAPHQL_LIMIT = Reply(200, {"errors": [{"type": "RATE_LIMITED", "message": "API rate limit exceeded"}]})


def primary_limit(seconds: float, status: int = 403) -> Reply:
    """Return the hourly limit, which ends in `seconds`."""
    headers = {"x-ratelimit-remaining": "0", "x-ratelimit-reset": str(int(time.time() + seconds))}
    return Reply(status, {"message": "API rate limit exceeded for user ID 1."}, headers)


class GitHubServer:
    """A running server. `requests` are all requests, in their order."""

    def __init__(self, address: Path) -> None:
        self.address = address
        self.requests: list[Request] = []
        self.problems: list[Exception] = []
        self.closing = threading.Event()
        self._handlers: list[tuple[str, re.Pattern[str], Handler]] = []
        self._faults: list[tuple[str, re.Pattern[str], Reply]] = []
        self._lock = threading.Lock()

    def on(self, method: str, pattern: str, answer: Handler | Reply) -> None:
        """Answer requests whose whole path matches (`repos/o/r/pulls/(?P<number>\\d+)`). Later ones come first."""
        handler = (lambda _: answer) if isinstance(answer, Reply) else answer
        self._handlers.insert(0, (method, re.compile(pattern), handler))

    def fail(self, pattern: str, *replies: Reply, method: str = ".*") -> None:
        """Answer the next requests with such a path with these, one each; after that the handlers answer again."""
        self._faults += [(method, re.compile(pattern), reply) for reply in replies]

    def asked(self, method: str, pattern: str) -> list[Request]:
        """Return the requests with this method and such a path."""
        return [
            request for request in self.requests if request.method == method and re.fullmatch(pattern, request.path)
        ]

    def answer(self, request: Request) -> Reply:
        with self._lock:
            self.requests.append(request)
            for place, (method, pattern, reply) in enumerate(self._faults):
                if re.fullmatch(method, request.method) and pattern.fullmatch(request.path):
                    del self._faults[place]
                    return reply
            for method, pattern, handler in self._handlers:
                if method == request.method and (match := pattern.fullmatch(request.path)):
                    try:
                        return handler(replace(request, named=match.groupdict(default="")))
                    except Exception as problem:  # raised at the end of the `with` block, where the test sees it
                        self.problems.append(problem)
                        return Reply(500, {"message": repr(problem)})
        return NOT_FOUND


@contextmanager
def github_server() -> Iterator[GitHubServer]:
    """Run a server during the block; raise what its handlers raised at the end."""
    with tempfile.TemporaryDirectory(prefix="gh-") as folder:  # the path of a socket has at most 107 bytes
        server = GitHubServer(Path(folder, "socket"))
        http = _Server(str(server.address), _Connection)
        http.github = server
        with running(http, server.closing, server.problems):
            yield server


class _Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True
    github: GitHubServer


class _Connection(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def _any(self) -> None:
        with suppress(ConnectionError):  # the client was stopped
            parts = urlsplit(self.path)
            request = Request(
                self.command,
                parts.path.strip("/"),
                dict(parse_qsl(parts.query)),
                {name.lower(): value for name, value in self.headers.items()},
                self._read(),
            )
            self._send(self.server.github.answer(request))

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _any  # noqa: N815 - the names are http.server's

    def address_string(self) -> str:
        return "-"

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is http.server's
        """Log nothing."""

    def _read(self) -> bytes:
        if self.headers.get("transfer-encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("content-length", 0)))
        body = b""
        while size := int(self.rfile.readline().partition(b";")[0], 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def _send(self, reply: Reply) -> None:
        if reply.delay:
            self.server.github.closing.wait(reply.delay)
        if reply.drop == "before":
            return self._end()
        body = (
            reply.body
            if isinstance(reply.body, bytes)
            else b""
            if reply.body is None
            else json.dumps(reply.body).encode()
        )
        headers = {"content-type": "application/json; charset=utf-8", **reply.headers}
        self.send_response(reply.status)
        for name, value in headers.items():
            self.send_header(name, value)
        if reply.status != 204:
            self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: len(body) // 2] if reply.drop else body)
        self.wfile.flush()
        if reply.drop:
            self._end()
        return None

    def _end(self) -> None:
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)


# ---- gh and its environment -------------------------------------------------------------------


def find_gh(which: Literal["system", "current"]) -> Path:
    """Return the distribution's gh, or that of the development tools. Skip the test without it (see `programs`)."""
    given = os.environ.get("CUGGINO_E2E_GH") if which == "current" else None
    if given:
        return Path(given)
    here = Path(sys.executable).parent
    if which == "current":
        found = shutil.which("gh", path=str(here))
    else:
        others = [part for part in os.environ["PATH"].split(os.pathsep) if part and Path(part) != here]
        found = shutil.which("gh", path=os.pathsep.join(others))
    if found is not None:
        return Path(found)
    missing = f"the {which} gh is not installed"
    if os.environ.get("CUGGINO_E2E") == "1":
        pytest.fail(missing)
    pytest.skip(missing)


def gh_environment(home: Path, server: GitHubServer, gh: Path | None = None, **extra: str) -> dict[str, str]:
    """Return an environment in which `gh` is this program, logged in to this server. Empty values are left out."""
    config = home / ".config" / "gh" / "config.yml"
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text(f"version: 1\nhttp_unix_socket: {server.address}\n")
    programs = home / "programs"
    programs.mkdir(exist_ok=True)
    if not (programs / "gh").exists():
        (programs / "gh").symlink_to(gh or find_gh("system"))
    environment = {
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(home),
        "LANG": "C.UTF-8",
        "GH_TOKEN": "dummy-token",
        "GH_PROMPT_DISABLED": "1",
        "GH_NO_UPDATE_NOTIFIER": "1",
        "GH_TELEMETRY": "0",
        "GIT_CONFIG_NOSYSTEM": "1",
        **extra,
    }
    return {name: value for name, value in environment.items() if value}


# ---- the origin and its pull requests ---------------------------------------------------------


def git(root: Path, *arguments: str) -> str:
    """Run git without anybody's configuration; return its output."""
    env = {"PATH": os.environ["PATH"], "HOME": str(root), "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull}
    done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, check=True, env=env, text=True)
    return done.stdout.strip()


def tip_of(repository: Path, branch: str) -> str | None:
    """Return a branch's commit, or None if the branch does not exist."""
    return git(repository, "for-each-ref", "--format=%(objectname)", f"refs/heads/{branch}") or None


def bare_origin(folder: Path, *clones: Path, owner: str = "o", name: str = "r") -> Path:
    """Make a bare repository that these clones know as `https://github.com/<owner>/<name>.git`."""
    if not folder.exists():
        folder.mkdir(parents=True)
        git(folder, "init", "--quiet", "--bare", "--initial-branch", "main")
    url = f"https://github.com/{owner}/{name}.git"
    for clone in clones:
        git(clone, "config", f"url.{folder}.insteadOf", url)
        git(clone, "remote", "add", "origin", url)
    return folder


class Pulls:
    """The pull requests of one repository in the REST API. `all` are JSON objects by number."""

    def __init__(self, server: GitHubServer, bare: Path, *, owner: str = "o", name: str = "r") -> None:
        self.bare = bare
        self.owner = owner
        self.name = name
        self.all: dict[int, dict[str, Any]] = {}
        base = f"repos/{owner}/{name}/pulls"
        server.on("POST", base, self._create)
        server.on("GET", base, self._list)
        server.on("GET", rf"{base}/(?P<number>\d+)", self._get)

    def add(
        self, head: str, base: str = "main", title: str = "", body: str = "", state: str = "open"
    ) -> dict[str, Any]:
        number = len(self.all) + 1
        url = f"https://github.com/{self.owner}/{self.name}/pull/{number}"
        self.all[number] = {
            "number": number,
            "html_url": url,
            "state": state,
            "title": title,
            "body": body,
            "head": {"ref": head, "label": f"{self.owner}:{head}", "sha": self.tip(head)},
            "base": {"ref": base, "sha": self.tip(base)},
        }
        return self.all[number]

    def tip(self, branch: str) -> str | None:
        return tip_of(self.bare, branch)

    def _create(self, request: Request) -> Reply:
        wanted = request.json
        head, base = wanted["head"].removeprefix(f"{self.owner}:"), wanted["base"]
        for field_, branch in (("head", head), ("base", base)):
            if self.tip(branch) is None:
                return self._invalid({"resource": "PullRequest", "field": field_, "code": "invalid"})
        if self._find(head, base, "open"):
            return self._refused(f"A pull request already exists for {self.owner}:{head}.")
        if self.tip(head) == self.tip(base):
            return self._refused(f"No commits between {base} and {head}")
        return Reply(201, self.add(head, base, wanted["title"], wanted.get("body", "")))

    def _list(self, request: Request) -> Reply:
        head = request.query.get("head", "").removeprefix(f"{self.owner}:")
        return Reply(200, self._find(head, request.query.get("base", ""), request.query.get("state", "open")))

    def _find(self, head: str, base: str, state: str) -> list[dict[str, Any]]:
        """Return the pull requests of a head, a base (any if empty) and a state, or `all`."""
        return [
            pull
            for pull in self.all.values()
            if head in ("", pull["head"]["ref"])
            and base in ("", pull["base"]["ref"])
            and state in ("all", pull["state"])
        ]

    def _get(self, request: Request) -> Reply:
        pull = self.all.get(int(request.named["number"]))
        return Reply(200, pull) if pull else NOT_FOUND

    def _refused(self, message: str) -> Reply:
        return self._invalid({"resource": "PullRequest", "code": "custom", "message": message})

    @staticmethod
    def _invalid(error: Mapping[str, str]) -> Reply:
        return Reply(422, {"message": "Validation Failed", "errors": [error]})
