"""A model on 127.0.0.1 that speaks Gemini's API, and the program that asks it: `GEMINI`.

A conversation's turn is a request with tools; which one is played follows from the number of the model's turns in it.
What gemini asks for itself (which model to take, whether a text may go on) has no tools: it X.
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

from tests.e2e.messages import Block, Drop, Fail, Say, Spent, Stall, Use, Wait
from tests.e2e.provider import Asker

_ROOT = Path(__file__).parents[2]

_TOOLS = {
    "shell": ("run_shell_command", {"command": "command"}),
    "write": ("write_file", {"path": "file_path", "content": "content"}),
    "read": ("read_file", {"path": "file_path"}),
}


_CLASSIFIED = '{"complexity_reasoning": "scripted", "complexity_score": 50}'


class GeminiProvider:
    """gemini, from .tools."""

    name = "gemini"

    @contextmanager
    def serve(self, asker: Asker) -> Iterator[GeminiServer]:
        http = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        http.daemon_threads = True
        server = GeminiServer(asker, f"http://127.0.0.1:{http.server_port}")
        http.served = server  # type: ignore[attr-defined]
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.02}, name="gemini-model")
        thread.start()
        try:
            yield server
        finally:
            server.closing.set()
            http.shutdown()
            thread.join()
            http.server_close()
        if server.problems:
            raise ExceptionGroup("what the model should say is not known", server.problems)

    def environment(self, home: Path, url: str) -> dict[str, str]:
        """gemini tries an overloaded provider again for minutes; here it does so once, for its own settings say so."""
        settings = home / ".gemini" / "settings.json"
        settings.parent.mkdir(parents=True, exist_ok=True)
        settings.write_text(
            json.dumps(
                {
                    "model": {"name": "scripted"},
                    "general": {"maxAttempts": 1, "enableAutoUpdate": False, "enableAutoUpdateNotification": False},
                    "privacy": {"usageStatisticsEnabled": False},
                    "security": {"auth": {"selectedType": "gemini-api-key"}},
                }
            )
        )
        return {
            "PATH": os.pathsep.join((str(_ROOT / ".tools" / "node_modules" / ".bin"), os.environ["PATH"])),
            "HOME": str(home),
            "TMPDIR": str(home),  # else it leaves reports of errors in /tmp
            "LANG": "C.UTF-8",
            "TERM": "dumb",
            "GEMINI_API_KEY": "dummy-key",
            "GOOGLE_GEMINI_BASE_URL": url,
        }


GEMINI = GeminiProvider()


class GeminiRequest:
    """What gemini asked."""

    def __init__(self, body: Mapping[str, Any], model: str) -> None:
        self.body = body
        self.model = model

    @cached_property
    def text(self) -> str:
        contents = [self.body.get("systemInstruction") or {}, *self.body.get("contents", ())]
        return "\n".join(_text(part) for content in contents for part in content.get("parts", ()))

    @property
    def system(self) -> str:
        return "\n".join(_text(part) for part in (self.body.get("systemInstruction") or {}).get("parts", ()))

    @property
    def users(self) -> list[str]:
        """The text of each message of the user, as it arrived, tool results left out."""
        contents = (content for content in self.body.get("contents", ()) if content.get("role") == "user")
        texts = ("".join(part.get("text", "") for part in content["parts"]) for content in contents)
        return [text for text in texts if text]

    @property
    def turn(self) -> int:
        return sum(content.get("role") == "model" for content in self.body.get("contents", ()))

    @property
    def tools(self) -> list[str]:
        return [
            function["name"] for tool in self.body.get("tools", ()) for function in tool.get("functionDeclarations", ())
        ]

    @property
    def tool_results(self) -> list[str]:
        parts = (part for content in self.body.get("contents", ()) for part in content.get("parts", ()))
        return [json.dumps(part["functionResponse"]) for part in parts if "functionResponse" in part]


def _text(part: Mapping[str, Any]) -> str:
    return str(part.get("text", "")) if "text" in part else json.dumps(part, ensure_ascii=False)


class GeminiServer:
    """A running server. `requests` are those of conversations, in the order in which they came."""

    def __init__(self, asker: Asker, url: str) -> None:
        self.url = url
        self.requests: list[GeminiRequest] = []
        self.background: list[GeminiRequest] = []
        self.problems: list[Exception] = []
        self.closing = threading.Event()
        self._asker = asker
        self._attempts: Counter[tuple[str, int]] = Counter()
        self._lock = threading.Lock()

    def answer(self, request: GeminiRequest) -> list[Block]:
        """The blocks to send: a Fail that has had its turns is left out."""
        if not request.tools:
            self.background.append(request)
            return [Say(_CLASSIFIED)]
        with self._lock:
            self.requests.append(request)
            key = (json.dumps(request.body.get("contents", ())), request.turn)
            self._attempts[key] += 1
            attempt = self._attempts[key]
        try:
            script = self._asker(request)
        except Exception as problem:  # told at the end of the `with` block, where the test sees it
            self.problems.append(problem)
            return [Fail(400, "INVALID_ARGUMENT", repr(problem))]
        answer: list[Block] = []
        for block in script[request.turn] if request.turn < len(script) else [Say("(the script is over)")]:
            if isinstance(block, Fail) and block.times is not None and attempt > block.times:
                attempt -= block.times
                continue
            answer.append(block)
        return answer


def _part(block: Use) -> dict[str, Any]:
    name, names = _TOOLS.get(block.name, (block.name, {}))
    return {"functionCall": {"name": name, "args": {names.get(key, key): value for key, value in block.input.items()}}}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    @property
    def served(self) -> GeminiServer:
        return self.server.served  # type: ignore[attr-defined,no-any-return]

    def do_GET(self) -> None:
        self._json(200, {})

    def do_POST(self) -> None:
        with suppress(ConnectionError):  # the client went away: it was stopped
            length = int(self.headers.get("content-length", 0))
            body = json.loads(self.rfile.read(length) or b"{}")
            where, _, action = self.path.partition("?")[0].rpartition(":")
            if action == "countTokens":
                self._json(200, {"totalTokens": 1000})
            elif action in ("generateContent", "streamGenerateContent"):
                self._answer(
                    self.served.answer(GeminiRequest(body, where.rpartition("/")[2])),
                    streamed=action == "streamGenerateContent",
                )
            else:
                self._error(Fail(404, "NOT_FOUND", self.path))

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is http.server's
        """Nothing: the test says what it wants to see."""

    def _answer(self, blocks: Sequence[Block], *, streamed: bool) -> None:
        parts: list[dict[str, Any]] = []
        streaming = False
        for block in blocks:
            match block:
                case Fail():
                    return self._error(block)
                case Wait():
                    self.served.closing.wait(block.seconds)
                case Stall():
                    self.served.closing.wait()
                    return self._reset()
                case Drop():
                    return self._reset()
                case Say() | Use():
                    made = [{"text": part} for part in block.parts] if isinstance(block, Say) else [_part(block)]
                    parts += made
                    if streamed:
                        if not streaming:
                            self._head(200, "text/event-stream", {"transfer-encoding": "chunked"})
                            streaming = True
                        for part in made:
                            self._event({"candidates": [{"content": {"role": "model", "parts": [part]}, "index": 0}]})
                case _:
                    pass
        spent = next((block for block in blocks if isinstance(block, Spent)), Spent())
        usage = {
            "promptTokenCount": spent.input,
            "candidatesTokenCount": spent.output,
            "totalTokenCount": spent.input + spent.output,
        }
        last = {"content": {"role": "model", "parts": [] if streamed else parts}, "finishReason": "STOP", "index": 0}
        whole = {"candidates": [last], "usageMetadata": usage}
        if not streamed:
            return self._json(200, whole)
        if not streaming:
            self._head(200, "text/event-stream", {"transfer-encoding": "chunked"})
        self._event(whole)
        self.wfile.write(b"0\r\n\r\n")
        return None

    def _event(self, event: Mapping[str, Any]) -> None:
        data = f"data: {json.dumps(event)}\r\n\r\n".encode()
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def _error(self, fail: Fail) -> None:
        error = {"code": fail.status, "message": fail.message, "status": fail.error}
        self._json(fail.status, {"error": error}, fail.headers)

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
