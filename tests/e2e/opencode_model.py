"""A model on 127.0.0.1 that plays scripts to the real opencode, in OpenAI's chat completions API.

    with OPENCODE.serve(lambda asked: [[Say("I look."), Use("shell", {"command": "ls"})], [Say("Done.")]]) as served:
        environment = OPENCODE.environment(home, served.url)

Scripts are those of `tests.e2e.messages`, tools have the neutral names of `tests.e2e.provider`; any other name is one
of opencode's own. A request without tools (opencode's own: titles, summaries) is answered with "ok" and kept apart.
A refusal that opencode would try again says that it may do so at once, or a test would take more than a minute.
"""

from __future__ import annotations

import json
import os
import socket
import struct
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from uuid import uuid4

from tests.e2e.messages import Block, Drop, Fail, Say, Spent, Stall, Use, Wait
from tests.e2e.programs import find_program
from tests.e2e.provider import Asker

_NAMES = {
    "shell": ("bash", {}, {"description": "A command of the script."}),
    "write": ("write", {"path": "filePath"}, {}),
    "read": ("read", {"path": "filePath"}, {}),
}
"""The neutral tool → opencode's, what it calls the arguments that it names otherwise, and what it wants besides."""

_PLUGIN = {"dependencies": {"@opencode-ai/plugin": "0.0.0"}}


class OpencodeAsked:
    """What opencode asked."""

    def __init__(self, body: Mapping[str, Any]) -> None:
        self.body = body
        self._messages: list[dict[str, Any]] = body["messages"]

    @property
    def system(self) -> str:
        return "\n".join(_text(message) for message in self._messages if message["role"] == "system")

    @cached_property
    def text(self) -> str:
        return "\n".join(map(_text, self._messages))

    @cached_property
    def turn(self) -> int:
        return sum(message["role"] == "assistant" for message in self._messages)

    @cached_property
    def tools(self) -> Sequence[str]:
        return [tool["function"]["name"] for tool in self.body.get("tools", ())]

    @cached_property
    def tool_results(self) -> Sequence[str]:
        return [_text(message) for message in self._messages if message["role"] == "tool"]

    @property
    def conversation(self) -> str:
        return next((_text(message) for message in self._messages if message["role"] == "user"), "")


class OpencodeServed:
    """A running server."""

    def __init__(self, asker: Asker, url: str) -> None:
        self.url = url
        self.requests: list[OpencodeAsked] = []
        self.background: list[OpencodeAsked] = []
        self.problems: list[Exception] = []
        self.closing = threading.Event()
        self._asker = asker
        self._attempts: Counter[tuple[str, int]] = Counter()
        self._lock = threading.Lock()

    def answer(self, asked: OpencodeAsked) -> list[Block]:
        """The blocks to send: a Fail that has had its turns is left out."""
        if not asked.tools:
            self.background.append(asked)
            return [Say("ok")]
        with self._lock:
            self.requests.append(asked)
            self._attempts[asked.conversation, asked.turn] += 1
            attempt = self._attempts[asked.conversation, asked.turn]
        try:
            script = self._asker(asked)
        except Exception as problem:  # told at the end of the `with` block, where the test sees it
            self.problems.append(problem)
            return [Fail(400, "invalid_request_error", repr(problem))]
        answer: list[Block] = []
        for block in script[asked.turn] if asked.turn < len(script) else [Say("(the script is over)")]:
            if isinstance(block, Fail) and block.times is not None and attempt > block.times:
                attempt -= block.times
                continue
            answer.append(block)
        return answer


class OpencodeProvider:
    """See `tests.e2e.provider.Provider`."""

    name = "opencode"

    @contextmanager
    def serve(self, asker: Asker) -> Iterator[OpencodeServed]:
        http = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        http.daemon_threads = True
        served = OpencodeServed(asker, f"http://127.0.0.1:{http.server_port}")
        http.served = served  # type: ignore[attr-defined]
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.02}, name="opencode model")
        thread.start()
        try:
            yield served
        finally:
            served.closing.set()
            http.shutdown()
            thread.join()
            http.server_close()
        if served.problems:
            raise ExceptionGroup("the asker of the model failed", served.problems)

    def environment(self, home: Path, url: str) -> dict[str, str]:
        folder = home / ".config" / "opencode"
        nothing_to_install(folder)
        (folder / "opencode.json").write_text(json.dumps(_config(url)))
        (home / "tmp").mkdir(exist_ok=True)
        program = find_program("opencode")
        path = [str(program.parent)] if program is not None else []
        return {
            "PATH": os.pathsep.join([*path, os.environ["PATH"]]),
            "HOME": str(home),
            "TMPDIR": str(home / "tmp"),  # else it leaves a folder in /tmp
            "LANG": "C.UTF-8",
            "TERM": "dumb",
            "LOOPBACK_KEY": "dummy-key",
            "OPENCODE_DISABLE_MODELS_FETCH": "1",
            "OPENCODE_DISABLE_AUTOUPDATE": "1",
            "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
            "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
            "npm_config_registry": "http://127.0.0.1:9",  # nobody is there
        }


OPENCODE = OpencodeProvider()


def nothing_to_install(folder: Path) -> None:
    """opencode wants its plugins' package in each folder of configuration, and has npm fetch it where the lock file
    does not name it."""
    (folder / "node_modules").mkdir(parents=True, exist_ok=True)
    (folder / "package.json").write_text(json.dumps(_PLUGIN))
    (folder / "package-lock.json").write_text(json.dumps({"lockfileVersion": 3, "packages": {"": _PLUGIN}}))


def _config(url: str) -> dict[str, Any]:
    options = {"baseURL": f"{url}/v1", "apiKey": "{env:LOOPBACK_KEY}"}
    models = {name: {"name": name} for name in ("scripted", "other")}
    provider = {"npm": "@ai-sdk/openai-compatible", "name": "loopback", "options": options, "models": models}
    return {"provider": {"loopback": provider}, "model": "loopback/scripted", "small_model": "loopback/scripted"}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    @property
    def served(self) -> OpencodeServed:
        return self.server.served  # type: ignore[attr-defined,no-any-return]

    def do_GET(self) -> None:
        self._json(404, _error("not_found", self.path))

    def do_POST(self) -> None:
        with suppress(ConnectionError):  # the client went away: it was stopped
            body = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))) or b"{}")
            if self.path.partition("?")[0] == "/v1/chat/completions":
                self._respond(body, self.served.answer(OpencodeAsked(body)))
            else:
                self._json(404, _error("not_found", self.path))

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is http.server's
        """Nothing: the test says what it wants to see."""

    def _respond(self, body: Mapping[str, Any], blocks: Sequence[Block]) -> None:
        head = {"id": f"chatcmpl-{uuid4().hex}", "object": "chat.completion.chunk", "created": 0}
        chunk = {**head, "model": body.get("model", "scripted")}
        begun, used = False, 0
        for block in blocks:
            match block:
                case Fail():
                    return self._json(
                        block.status,
                        _error(block.error, block.message),
                        {"retry-after-ms": "1", **block.headers},
                    )
                case Wait():
                    self.served.closing.wait(block.seconds)
                case Stall() | Drop():
                    if not begun:
                        self._head(200, "text/event-stream", {"transfer-encoding": "chunked"})
                    if isinstance(block, Stall):
                        self.served.closing.wait()
                    return self._reset()
                case Say() | Use():
                    if not begun:
                        self._head(200, "text/event-stream", {"transfer-encoding": "chunked"})
                        begun = True
                    for delta in _deltas(block, used):
                        self._chunk({**chunk, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
                    used += isinstance(block, Use)
                case Spent():
                    pass
        if not begun:
            self._head(200, "text/event-stream", {"transfer-encoding": "chunked"})
        spent = next((block for block in blocks if isinstance(block, Spent)), Spent())
        usage = {
            "prompt_tokens": spent.input,
            "completion_tokens": spent.output,
            "total_tokens": spent.input + spent.output,
        }
        end = {"index": 0, "delta": {}, "finish_reason": "tool_calls" if used else "stop"}
        self._chunk({**chunk, "choices": [end], "usage": usage})
        self._send(b"data: [DONE]\n\n")
        self.wfile.write(b"0\r\n\r\n")
        return None

    def _chunk(self, chunk: Mapping[str, Any]) -> None:
        self._send(f"data: {json.dumps(chunk)}\n\n".encode())

    def _send(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def _json(self, status: int, body: object, headers: Mapping[str, str] | None = None) -> None:
        data = json.dumps(body).encode()
        self._head(status, "application/json", {"content-length": str(len(data)), **(headers or {})})
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


def _deltas(block: Say | Use, index: int) -> Iterator[dict[str, Any]]:
    if isinstance(block, Say):
        yield from ({"role": "assistant", "content": part} for part in block.parts)
        return
    name, names, besides = _NAMES.get(block.name, (block.name, {}, {}))
    given = {**besides, **{names.get(key, key): value for key, value in block.input.items()}}
    call = {"index": index, "id": f"call_{uuid4().hex[:24]}", "type": "function"}
    yield {"role": "assistant", "tool_calls": [{**call, "function": {"name": name, "arguments": json.dumps(given)}}]}


def _error(kind: str, message: str) -> dict[str, Any]:
    return {"error": {"type": kind, "code": kind, "message": message}}


def _text(message: Mapping[str, Any]) -> str:
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    return "\n".join(str(part.get("text", "")) for part in content)
