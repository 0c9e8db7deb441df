"""What the models on 127.0.0.1 have in common, whatever their API.

A request without tools is the program's own (titles, quota, which model to take): it is answered with "ok" and kept
apart. `running` is for any server of the tests.
"""

from __future__ import annotations

import json
import socket
import struct
import threading
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import BaseServer
from typing import Any, Generic, TypeVar

from tests.e2e.messages import Block, Drop, Fail, Say, Script, Stall
from tests.e2e.provider import Asked

_Asked = TypeVar("_Asked", bound=Asked)


class ModelServer(ThreadingHTTPServer, Generic[_Asked]):
    """A running server. `requests` are those of conversations, in the order in which they came."""

    def __init__(self, asker: Callable[[_Asked], Script], handler: type[Handler[_Asked]]) -> None:
        super().__init__(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.requests: list[_Asked] = []
        self.background: list[_Asked] = []
        self.problems: list[Exception] = []
        self.closing = threading.Event()
        self._asker = asker
        self._attempts: Counter[tuple[Hashable, int]] = Counter()
        self._lock = threading.Lock()
        self._asked = threading.Event()

    def wait_for_request(self, timeout: float = 30) -> None:
        """Wait until a conversation has begun: the program is running, and waits for its answer."""
        if not self._asked.wait(timeout):
            raise TimeoutError("nothing was asked of the model")

    def answer(self, request: _Asked) -> list[Block]:
        """Return the blocks to send, without a Fail that has failed `times` times."""
        if not request.tools:
            self.background.append(request)
            return [Say("ok")]
        with self._lock:
            self.requests.append(request)
            self._attempts[request.conversation, request.turn] += 1
            attempt = self._attempts[request.conversation, request.turn]
        self._asked.set()
        try:
            script = self._asker(request)
        except Exception as problem:  # raised at the end of the `with` block, where the test sees it
            self.problems.append(problem)
            return [Fail(400, "invalid_request_error", repr(problem))]
        answer: list[Block] = []
        for block in script[request.turn] if request.turn < len(script) else [Say("(the script is over)")]:
            if isinstance(block, Fail) and block.times is not None and attempt > block.times:
                attempt -= block.times
            else:
                answer.append(block)
        return answer


@contextmanager
def model_server(asker: Callable[[_Asked], Script], handler: type[Handler[_Asked]]) -> Iterator[ModelServer[_Asked]]:
    """Run a server until the block is left. Exceptions of `asker` are raised then."""
    server = ModelServer(asker, handler)
    with running(server, server.closing, server.problems):
        yield server


@contextmanager
def running(server: BaseServer, closing: threading.Event, problems: Sequence[Exception]) -> Iterator[None]:
    """Serve until the block is left. Then `closing` ends answers that wait, and the problems are raised."""
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield
    finally:
        closing.set()
        server.shutdown()
        thread.join()
        server.server_close()
    if problems:
        raise ExceptionGroup("the server did not know what to answer", problems)


class Handler(BaseHTTPRequestHandler, Generic[_Asked]):
    """A connection of one request: it is closed after the answer."""

    protocol_version = "HTTP/1.1"
    server: ModelServer[_Asked]
    streaming = False

    def post(self, path: str, body: dict[str, Any]) -> None:
        raise NotImplementedError

    def do_GET(self) -> None:
        self.send_json(200, {})

    do_HEAD = do_GET  # noqa: N815 - the name is http.server's

    def do_POST(self) -> None:
        with suppress(ConnectionError):  # the client went away: it was stopped
            length = int(self.headers.get("content-length", 0))
            self.post(self.path.partition("?")[0], json.loads(self.rfile.read(length) or b"{}"))

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is http.server's
        """Log nothing."""

    def send_json(self, status: int, body: object, headers: Mapping[str, str] | None = None) -> None:
        data = json.dumps(body).encode()
        self._head(status, "application/json", {"content-length": str(len(data)), **(headers or {})})
        if self.command != "HEAD":
            self.wfile.write(data)

    def begin(self) -> None:
        """Send the head of a stream, once."""
        if not self.streaming:
            self._head(200, "text/event-stream", {"transfer-encoding": "chunked"})
            self.streaming = True

    def send(self, event: str) -> None:
        """Send a piece of a stream. An empty one ends it."""
        self.begin()
        data = event.encode()
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    def break_off(self, block: Stall | Drop) -> None:
        """Reset the connection; after a Stall, when the server is closed."""
        if isinstance(block, Stall):
            self.server.closing.wait()
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True
        self.connection.close()

    def _head(self, status: int, content: str, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in {"content-type": content, "connection": "close", **headers}.items():
            self.send_header(name, value)
        self.end_headers()
