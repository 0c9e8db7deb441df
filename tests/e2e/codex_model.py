"""A model on 127.0.0.1 that plays scripts to the real codex, in OpenAI's Responses API.

    with CODEX.serve(lambda asked: [[Say("I look."), Use("shell", {"command": "ls"})], [Say("Done.")]]) as served:
        environment = CODEX.environment(home, served.url)

Scripts are those of `tests.e2e.messages`, tools have the neutral names of `tests.e2e.provider`. codex's model of today
has one tool, `exec`, which takes JavaScript: running commands and patching files are functions in it.
"""

from __future__ import annotations

import json
import os
import re
import socket
import struct
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from pathlib import Path
from typing import Any
from uuid import uuid4

from tests.e2e.messages import Block, Drop, Fail, Say, Spent, Stall, Use, Wait
from tests.e2e.provider import Asker

TOOLS = Path(__file__).parents[2] / ".tools" / "node_modules" / ".bin"

_CONFIG = """\
model_provider = "loopback"
check_for_update_on_startup = false
analytics.enabled = false

[model_providers.loopback]
name = "loopback"
base_url = "{url}/v1"
env_key = "OPENAI_API_KEY"
wire_api = "responses"
"""

_OWN = ("function_call", "custom_tool_call", "reasoning")
"""The types of what the model has said, beside its messages."""

_OUTPUTS = ("function_call_output", "custom_tool_call_output")


@dataclass
class UsageLimit(Fail):
    """The limit of a subscription, as it is told to one."""

    status: int = 429
    error: str = "usage_limit_reached"
    message: str = "The usage limit has been reached"
    resets_at: datetime = datetime.max  # noqa: DTZ901 - always given


class CodexAsked:
    """What codex asked."""

    def __init__(self, body: Mapping[str, Any]) -> None:
        self.body = body
        self._items: list[dict[str, Any]] = body["input"]

    @cached_property
    def text(self) -> str:
        return "\n".join([str(self.body.get("instructions") or ""), *map(_text, self._items)])

    @cached_property
    def turn(self) -> int:
        """What the model said in one turn stands together, with something of another's behind it."""
        own = [False, *(_is_own(item) for item in self._items)]
        return sum(now and not before for before, now in pairwise(own))

    @cached_property
    def tools(self) -> Sequence[str]:
        """Also those that are functions in another's JavaScript, which are only described."""
        given = [*self.body.get("tools", ()), *(tool for item in self._items for tool in item.get("tools", ()))]
        flat = [inner for tool in given for inner in tool.get("tools", [tool])]
        described = (re.findall(r"declare const tools: \{ (\w+)\(", tool.get("description", "")) for tool in flat)
        return [*(tool.get("name", tool["type"]) for tool in flat), *(name for names in described for name in names)]

    @cached_property
    def tool_results(self) -> Sequence[str]:
        return [_text(item) for item in self._items if item["type"] in _OUTPUTS]

    @property
    def conversation(self) -> str:
        return str(self.body.get("prompt_cache_key", ""))


class CodexServed:
    """A running server."""

    def __init__(self, asker: Asker, url: str) -> None:
        self.url = url
        self.requests: list[CodexAsked] = []
        self.problems: list[Exception] = []
        self.closing = threading.Event()
        self._asker = asker
        self._attempts: Counter[tuple[str, int]] = Counter()
        self._lock = threading.Lock()

    def answer(self, asked: CodexAsked) -> list[Block]:
        """The blocks to send: a Fail that has had its turns is left out."""
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


class CodexProvider:
    """See `tests.e2e.provider.Provider`."""

    name = "codex"

    @contextmanager
    def serve(self, asker: Asker) -> Iterator[CodexServed]:
        http = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        http.daemon_threads = True
        served = CodexServed(asker, f"http://127.0.0.1:{http.server_port}")
        http.served = served  # type: ignore[attr-defined]
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.02}, name="codex model")
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
        """TMPDIR is the home's: with its home in the folder for temporary files, codex has no sandbox."""
        (home / ".codex").mkdir(parents=True, exist_ok=True)
        (home / ".codex" / "config.toml").write_text(_CONFIG.format(url=url))
        (home / "tmp").mkdir(exist_ok=True)
        return {
            "PATH": os.pathsep.join([str(TOOLS), os.environ["PATH"]]),
            "HOME": str(home),
            "TMPDIR": str(home / "tmp"),
            "LANG": "C.UTF-8",
            "TERM": "dumb",
            "OPENAI_API_KEY": "dummy-key",
        }


CODEX = CodexProvider()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    @property
    def served(self) -> CodexServed:
        return self.server.served  # type: ignore[attr-defined,no-any-return]

    def do_GET(self) -> None:
        self._json(404, _error("not_found", self.path))

    def do_POST(self) -> None:
        with suppress(ConnectionError):  # the client went away: it was stopped
            body = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))) or b"{}")
            if self.path.partition("?")[0] == "/v1/responses":
                self._respond(self.served.answer(CodexAsked(body)))
            else:
                self._json(404, _error("not_found", self.path))

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is http.server's
        """Nothing: the test says what it wants to see."""

    def _respond(self, blocks: Sequence[Block]) -> None:
        response: dict[str, Any] = {"id": f"resp_{uuid4().hex}", "object": "response", "status": "in_progress"}
        begun = False
        for block in blocks:
            match block:
                case Fail():
                    error = _error(block.error, block.message)
                    if isinstance(block, UsageLimit):
                        error["error"] |= {"plan_type": "plus", "resets_at": int(block.resets_at.timestamp())}
                    return self._json(block.status, error, block.headers)
                case Wait():
                    self.served.closing.wait(block.seconds)
                case Stall() | Drop():
                    if not begun:
                        self._begin(response)
                    if isinstance(block, Stall):
                        self.served.closing.wait()
                    return self._reset()
                case Say() | Use():
                    if not begun:
                        self._begin(response)
                        begun = True
                    self._item(block)
                case Spent():
                    pass
        if not begun:
            self._begin(response)
        spent = next((block for block in blocks if isinstance(block, Spent)), Spent())
        usage = {"input_tokens": spent.input, "output_tokens": spent.output, "total_tokens": spent.input + spent.output}
        self._event("response.completed", response={**response, "status": "completed", "output": [], "usage": usage})
        self.wfile.write(b"0\r\n\r\n")
        return None

    def _begin(self, response: Mapping[str, Any]) -> None:
        self._head(200, "text/event-stream", {"transfer-encoding": "chunked"})
        self._event("response.created", response=response)

    def _item(self, block: Say | Use) -> None:
        item = _item(block)
        if isinstance(block, Say):
            self._event("response.output_item.added", item={**item, "content": []})
            for part in block.parts:
                self._event("response.output_text.delta", item_id=item["id"], delta=part)
        self._event("response.output_item.done", item=item)

    def _event(self, event: str, **fields: Any) -> None:
        data = f"event: {event}\ndata: {json.dumps({'type': event, **fields})}\n\n".encode()
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


def _item(block: Say | Use) -> dict[str, Any]:
    if isinstance(block, Say):
        content = [{"type": "output_text", "text": part, "annotations": []} for part in block.parts]
        return {"type": "message", "id": f"msg_{uuid4().hex}", "role": "assistant", "content": content}
    call = f"call_{uuid4().hex[:24]}"
    return {"type": "custom_tool_call", "id": f"ctc_{call}", "call_id": call, "name": "exec", "input": _script(block)}


def _script(use: Use) -> str:
    """The JavaScript that a model would write to use the tool."""
    given = use.input
    match use.name:
        case "shell":
            return _run(given["command"])
        case "read":
            return _run(f"cat '{given['path']}'")
        case "write":
            lines = "".join(f"+{line}\n" for line in given["content"].splitlines())
            patch = f"*** Begin Patch\n*** Add File: {given['path']}\n{lines}*** End Patch\n"
            return f"text(await tools.apply_patch({json.dumps(patch)}));"
        case name:  # one of codex's own
            return f"text(await tools.{name}({json.dumps(dict(given))}));"


def _run(command: str) -> str:
    return f"text(await tools.exec_command({json.dumps({'cmd': command, 'yield_time_ms': 30_000})}));"


def _error(kind: str, message: str) -> dict[str, Any]:
    return {"error": {"type": kind, "code": kind, "message": message}}


def _is_own(item: Mapping[str, Any]) -> bool:
    return item["type"] in _OWN or (item["type"] == "message" and item["role"] == "assistant")


def _text(item: Mapping[str, Any]) -> str:
    """What an item says, whatever its kind."""
    content = item.get("content") or item.get("output") or item.get("input") or item.get("arguments") or ""
    if isinstance(content, str):
        return content
    return "\n".join(str(part.get("text", "")) for part in content)
