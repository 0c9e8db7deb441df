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
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any
from uuid import uuid4

from tests.e2e.messages import Block, Drop, Fail, Say, Spent, Stall, Use, Wait
from tests.e2e.provider import Asker
from tests.e2e.serving import Handler, ModelServer, model_server

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
    """The usage limit of a subscription."""

    status: int = 429
    error: str = "usage_limit_reached"
    message: str = "The usage limit has been reached"
    resets_at: datetime = datetime.max  # noqa: DTZ901 - always given


class CodexAsked:
    """A request of codex."""

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


class CodexProvider:
    """See `tests.e2e.provider.Provider`."""

    name = "codex"

    def serve(self, asker: Asker) -> AbstractContextManager[ModelServer[CodexAsked]]:
        return model_server(asker, _Handler)

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


class _Handler(Handler[CodexAsked]):
    def post(self, path: str, body: dict[str, Any]) -> None:
        if path == "/v1/responses":
            self._respond(self.server.answer(CodexAsked(body)))
        else:
            self.send_json(404, _error("not_found", path))

    def _respond(self, blocks: Sequence[Block]) -> None:
        response: dict[str, Any] = {"id": f"resp_{uuid4().hex}", "object": "response", "status": "in_progress"}
        for block in blocks:
            match block:
                case Fail():
                    error = _error(block.error, block.message)
                    if isinstance(block, UsageLimit):
                        error["error"] |= {"plan_type": "plus", "resets_at": int(block.resets_at.timestamp())}
                    return self.send_json(block.status, error, block.headers)
                case Wait():
                    self.server.closing.wait(block.seconds)
                case Stall() | Drop():
                    self._start(response)
                    return self.break_off(block)
                case Say() | Use():
                    self._start(response)
                    self._item(block)
                case Spent():
                    pass
        self._start(response)
        spent = next((block for block in blocks if isinstance(block, Spent)), Spent())
        usage = {"input_tokens": spent.input, "output_tokens": spent.output, "total_tokens": spent.input + spent.output}
        self._event("response.completed", response={**response, "status": "completed", "output": [], "usage": usage})
        return self.send("")

    def _start(self, response: Mapping[str, Any]) -> None:
        if not self.streaming:
            self._event("response.created", response=response)

    def _item(self, block: Say | Use) -> None:
        item = _item(block)
        if isinstance(block, Say):
            self._event("response.output_item.added", item={**item, "content": []})
            for part in block.parts:
                self._event("response.output_text.delta", item_id=item["id"], delta=part)
        self._event("response.output_item.done", item=item)

    def _event(self, event: str, **fields: Any) -> None:
        self.send(f"event: {event}\ndata: {json.dumps({'type': event, **fields})}\n\n")


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
