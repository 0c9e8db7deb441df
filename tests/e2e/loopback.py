"""A model on 127.0.0.1 that plays scripts to the real claude: no key, no person's login, no money.

    def route(request: Request) -> Script:
        return [
            [Say("I look."), Use("Bash", {"command": "ls"})],     # the answer to the prompt
            [Say("<DO", "NE>all of it</DONE>")],                  # the answer to the tool's result
        ]

    with loopback(route) as server:
        subprocess.run([claude, "-p", …], env=claude_environment(home, server.url))
        assert server.requests[0].first_user == "…"

A script is a list of turns, a turn a list of blocks. Which turn is played follows from the request, by the number
of the assistant's messages in it, never from what the server has done before: so resumed and parallel runs work.
A turn's blocks are sent in order; each argument of `Say` becomes a content block of its own. Faults are blocks too:

    Fail(529, times=2)       a request of this turn is refused twice; then the rest of the turn is played
    usage_limit(resets_at)   a Fail that claude takes for its account's usage limit (needs a subscription's token)
    Wait(0.5)                half a second passes
    Drop()                   the connection breaks, here
    Stall()                  nothing more comes until the server is closed
    Spent(output=20_000)     what the turn is told to have cost, in tokens

`route` is called for every request of a conversation, and may look at whatever is in it. `by_role` makes one for a
whole loop of several agents, each known by words of its prompt. Requests without tools (claude's own: titles, quota)
are answered with "ok" and kept apart. An exception in `route` is raised at the end of the `with` block.
"""

from __future__ import annotations

import json
import os
import socket
import struct
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, TypeAlias

from tests.e2e.messages import (
    Block,
    Drop,
    Fail,
    Message,
    Say,
    Script,
    Spent,
    Stall,
    Turn,
    Use,
    Wait,
    bad_key,
    overloaded,
    usage_limit,
)

__all__ = [
    "Drop",
    "Fail",
    "Loopback",
    "Request",
    "Route",
    "Say",
    "Script",
    "Spent",
    "Stall",
    "Turn",
    "Use",
    "Wait",
    "always",
    "bad_key",
    "by_role",
    "claude_environment",
    "loopback",
    "overloaded",
    "usage_limit",
]


class Request:
    """What claude asked."""

    def __init__(self, body: Mapping[str, Any], headers: Mapping[str, str]) -> None:
        self.body = body
        self.headers = headers

    @cached_property
    def system(self) -> str:
        """The whole system prompt."""
        return _text(self.body.get("system", ""))

    @cached_property
    def users(self) -> list[str]:
        """The text of each message of the user, without what claude puts before it, tool results left out."""
        texts = (_text(m["content"]) for m in self.body["messages"] if m["role"] == "user")
        return [text for text in texts if text]

    @property
    def first_user(self) -> str:
        """The prompt that began the conversation."""
        return self.users[0] if self.users else ""

    @cached_property
    def tool_results(self) -> list[str]:
        """What the tools gave back, all of the conversation's, in order."""
        blocks = (b for m in self.body["messages"] if isinstance(m["content"], list) for b in m["content"])
        return [_text(block.get("content", "")) for block in blocks if block["type"] == "tool_result"]

    @property
    def tools(self) -> list[str]:
        return [tool["name"] for tool in self.body.get("tools", ())]

    @property
    def turn(self) -> int:
        """How many turns of the script lie behind."""
        return sum(message["role"] == "assistant" for message in self.body["messages"])

    @property
    def conversation(self) -> tuple[str, str]:
        """Stays the same when a session is resumed; a sub-agent's is another one."""
        user_id = str(self.body.get("metadata", {}).get("user_id", ""))
        with suppress(ValueError, TypeError, KeyError):
            user_id = json.loads(user_id)["session_id"]
        return user_id, self.first_user


Route: TypeAlias = Callable[[Request], Script]


def always(*turns: Turn) -> Route:
    """The same script for everyone."""
    return lambda _: turns


def by_role(scripts: Mapping[str, Sequence[Script]]) -> Route:
    """For several agents, each run more than once.

    The keys are words that only the system prompt or the first prompt of that role has. The first conversation of a
    role plays its first script, the second its second, and so on; the last one is for all that follow.
    """
    seen: dict[str, list[tuple[str, str]]] = {words: [] for words in scripts}
    lock = threading.Lock()

    def route(request: Request) -> Script:
        for words, choices in scripts.items():
            if words in request.system or words in request.first_user:
                with lock:
                    if request.conversation not in seen[words]:
                        seen[words].append(request.conversation)
                    ordinal = seen[words].index(request.conversation)
                return choices[min(ordinal, len(choices) - 1)]
        raise LookupError(f"no script for a conversation that begins: {request.first_user[:500]}")

    return route


def claude_environment(home: Path, url: str, *, path: str = "", **extra: str) -> dict[str, str]:
    """A whole environment for claude, nothing inherited but where programs are; `path` goes before these."""
    environment = {
        "PATH": os.pathsep.join(part for part in (path, os.environ["PATH"]) if part),
        "HOME": str(home),
        "CLAUDE_CODE_TMPDIR": str(home),  # else it leaves a folder in /tmp
        "LANG": "C.UTF-8",
        "TERM": "dumb",
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": "dummy-key",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_TELEMETRY": "1",
        "DISABLE_AUTOUPDATER": "1",
        "DISABLE_ERROR_REPORTING": "1",
        "IS_SANDBOX": "1",
        **extra,
    }
    return {name: value for name, value in environment.items() if value}


class Loopback:
    """A running server. `requests` are those of conversations, in the order in which they came."""

    def __init__(self, route: Route, url: str) -> None:
        self.url = url
        self.requests: list[Request] = []
        self.background: list[Request] = []
        self.problems: list[Exception] = []
        self.closing = threading.Event()
        self._route = route
        self._attempts: Counter[tuple[tuple[str, str], int]] = Counter()
        self._lock = threading.Lock()
        self._asked = threading.Event()

    def wait_for_request(self, timeout: float = 30) -> None:
        """Until a conversation has begun: claude is up, and waits for its answer."""
        if not self._asked.wait(timeout):
            raise TimeoutError("nothing was asked of the loopback server")

    def answer(self, request: Request) -> list[Block]:
        """The blocks to send: a Fail that has had its turns is left out."""
        if not request.tools:
            self.background.append(request)
            return [Say("ok")]
        with self._lock:
            self.requests.append(request)
            self._attempts[request.conversation, request.turn] += 1
            attempt = self._attempts[request.conversation, request.turn]
        self._asked.set()
        try:
            script = self._route(request)
        except Exception as problem:  # told at the end of the `with` block, where the test sees it
            self.problems.append(problem)
            return [Fail(400, "invalid_request_error", repr(problem))]
        blocks = script[request.turn] if request.turn < len(script) else [Say("(the script is over)")]
        answer: list[Block] = []
        for block in blocks:
            if isinstance(block, Fail) and block.times is not None and attempt > block.times:
                attempt -= block.times
                continue
            answer.append(block)
        return answer


@contextmanager
def loopback(route: Route) -> Iterator[Loopback]:
    """A server until the block is left. All its connections are closed then."""
    http = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    http.daemon_threads = True
    server = Loopback(route, f"http://127.0.0.1:{http.server_port}")
    http.loopback = server  # type: ignore[attr-defined]
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.02}, name="loopback")
    thread.start()
    try:
        yield server
    finally:
        server.closing.set()
        http.shutdown()
        thread.join()
        http.server_close()
    if server.problems:
        raise ExceptionGroup("the route of the loopback server failed", server.problems)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    @property
    def loopback(self) -> Loopback:
        return self.server.loopback  # type: ignore[attr-defined,no-any-return]

    def do_GET(self) -> None:
        self._json(200, {})

    def do_HEAD(self) -> None:
        self._json(200, {})

    def do_POST(self) -> None:
        with suppress(ConnectionError):  # the client went away: it was stopped
            length = int(self.headers.get("content-length", 0))
            body = json.loads(self.rfile.read(length) or b"{}")
            path = self.path.partition("?")[0]
            if path == "/v1/messages/count_tokens":
                self._json(200, {"input_tokens": 1000})
            elif path == "/v1/messages":
                request = Request(body, {name.lower(): value for name, value in self.headers.items()})
                self._message(request, self.loopback.answer(request))
            else:
                self._json(404, {"type": "error", "error": {"type": "not_found_error", "message": self.path}})

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is http.server's
        """Nothing: the test says what it wants to see."""

    def _message(self, request: Request, blocks: Sequence[Block]) -> None:
        message = Message(request.body.get("model", "scripted"), blocks)
        streaming = False
        for block in blocks:
            match block:
                case Fail():
                    error = {"type": "error", "error": {"type": block.error, "message": block.message}}
                    return self._json(block.status, error, block.headers)
                case Wait():
                    self.loopback.closing.wait(block.seconds)
                case Stall():
                    self.loopback.closing.wait()
                    return self._reset()
                case Drop():
                    return self._reset()
                case Say() | Use() if request.body.get("stream"):
                    if not streaming:
                        self._head(200, "text/event-stream", {"transfer-encoding": "chunked"})
                        self._events(message.start())
                        streaming = True
                    self._events(message.stream(block))
                case _:
                    pass
        if not request.body.get("stream"):
            return self._json(200, message.whole())
        if not streaming:
            self._head(200, "text/event-stream", {"transfer-encoding": "chunked"})
            self._events(message.start())
        self._events(message.end())
        self.wfile.write(b"0\r\n\r\n")
        return None

    def _events(self, events: Iterator[dict[str, Any]]) -> None:
        for event in events:
            data = f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def _json(self, status: int, body: object, headers: Mapping[str, str] | None = None) -> None:
        data = json.dumps(body).encode()
        self._head(status, "application/json", {"content-length": str(len(data)), **(headers or {})})
        if self.command != "HEAD":
            self.wfile.write(data)

    def _head(self, status: int, content: str, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in {"content-type": content, "connection": "close", **headers}.items():
            self.send_header(name, value)
        self.end_headers()

    def _reset(self) -> None:
        self.wfile.flush()
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True
        self.connection.close()


def _text(content: Any) -> str:
    """The text of a message or a prompt, without the reminders that claude adds by itself."""
    if isinstance(content, str):
        return content
    texts = [block["text"] for block in content if block.get("type") == "text"]
    return "\n".join(text for text in texts if not text.startswith("<system-reminder>"))
