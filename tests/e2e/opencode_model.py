"""A model on 127.0.0.1 that plays scripts to the real opencode, in OpenAI's chat completions API.

    with OPENCODE.serve(lambda asked: [[Say("I look."), Use("shell", {"command": "ls"})], [Say("Done.")]]) as served:
        environment = OPENCODE.environment(home, served.url)

Scripts are those of `tests.e2e.messages`, tools have the neutral names of `tests.e2e.provider`; any other name is one
of opencode's own. A refusal that opencode would try again says that it may do so at once, or a test would take more
than a minute.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from pathlib import Path
from typing import Any
from uuid import uuid4

from tests.e2e.messages import Block, Drop, Fail, Say, Spent, Stall, Use, Wait
from tests.e2e.programs import find_program
from tests.e2e.provider import Asker
from tests.e2e.serving import Handler, ModelServer, model_server

_NAMES = {
    "shell": ("bash", {}, {"description": "A command of the script."}),
    "write": ("write", {"path": "filePath"}, {}),
    "read": ("read", {"path": "filePath"}, {}),
}
"""The neutral tool → opencode's, what it calls the arguments that it names otherwise, and what it wants besides."""

_PLUGIN = {"dependencies": {"@opencode-ai/plugin": "0.0.0"}}


class OpencodeAsked:
    """A request of opencode."""

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


class OpencodeProvider:
    """See `tests.e2e.provider.Provider`."""

    name = "opencode"

    def serve(self, asker: Asker) -> AbstractContextManager[ModelServer[OpencodeAsked]]:
        return model_server(asker, _Handler)

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


class _Handler(Handler[OpencodeAsked]):
    def post(self, path: str, body: dict[str, Any]) -> None:
        if path == "/v1/chat/completions":
            self._respond(body, self.server.answer(OpencodeAsked(body)))
        else:
            self.send_json(404, _error("not_found", path))

    def _respond(self, body: Mapping[str, Any], blocks: Sequence[Block]) -> None:
        head = {"id": f"chatcmpl-{uuid4().hex}", "object": "chat.completion.chunk", "created": 0}
        chunk = {**head, "model": body.get("model", "scripted")}
        used = 0
        for block in blocks:
            match block:
                case Fail():
                    error = _error(block.error, block.message)
                    return self.send_json(block.status, error, {"retry-after-ms": "1", **block.headers})
                case Wait():
                    self.server.closing.wait(block.seconds)
                case Stall() | Drop():
                    self.begin()
                    return self.break_off(block)
                case Say() | Use():
                    for delta in _deltas(block, used):
                        self._chunk({**chunk, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
                    used += isinstance(block, Use)
                case Spent():
                    pass
        spent = next((block for block in blocks if isinstance(block, Spent)), Spent())
        usage = {
            "prompt_tokens": spent.input,
            "completion_tokens": spent.output,
            "total_tokens": spent.input + spent.output,
        }
        end = {"index": 0, "delta": {}, "finish_reason": "tool_calls" if used else "stop"}
        self._chunk({**chunk, "choices": [end], "usage": usage})
        self.send("data: [DONE]\n\n")
        return self.send("")

    def _chunk(self, chunk: Mapping[str, Any]) -> None:
        self.send(f"data: {json.dumps(chunk)}\n\n")


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
