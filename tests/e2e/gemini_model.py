"""A model on 127.0.0.1 that speaks Gemini's API, and the program that asks it: `GEMINI`."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from pathlib import Path
from typing import Any

from tests.e2e.messages import Block, Drop, Fail, Say, Spent, Stall, Use, Wait
from tests.e2e.provider import Asker
from tests.e2e.serving import Handler, ModelServer, model_server

_ROOT = Path(__file__).parents[2]

_TOOLS = {
    "shell": ("run_shell_command", {"command": "command"}),
    "write": ("write_file", {"path": "file_path", "content": "content"}),
    "read": ("read_file", {"path": "file_path"}),
}


class GeminiProvider:
    """gemini, from .tools."""

    name = "gemini"

    def serve(self, asker: Asker) -> AbstractContextManager[ModelServer[GeminiRequest]]:
        return model_server(asker, _Handler)

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
    """A request of gemini."""

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

    @property
    def conversation(self) -> str:
        """gemini names none: it is known by all that has been said."""
        return json.dumps(self.body.get("contents", ()))


def _text(part: Mapping[str, Any]) -> str:
    return str(part.get("text", "")) if "text" in part else json.dumps(part, ensure_ascii=False)


def _part(block: Use) -> dict[str, Any]:
    name, names = _TOOLS.get(block.name, (block.name, {}))
    return {"functionCall": {"name": name, "args": {names.get(key, key): value for key, value in block.input.items()}}}


class _Handler(Handler[GeminiRequest]):
    def post(self, path: str, body: dict[str, Any]) -> None:
        where, _, action = path.rpartition(":")
        if action == "countTokens":
            self.send_json(200, {"totalTokens": 1000})
        elif action in ("generateContent", "streamGenerateContent"):
            request = GeminiRequest(body, where.rpartition("/")[2])
            self._answer(self.server.answer(request), streamed=action == "streamGenerateContent")
        else:
            self._error(Fail(404, "NOT_FOUND", path))

    def _answer(self, blocks: Sequence[Block], *, streamed: bool) -> None:
        parts: list[dict[str, Any]] = []
        for block in blocks:
            match block:
                case Fail():
                    return self._error(block)
                case Wait():
                    self.server.closing.wait(block.seconds)
                case Stall() | Drop():
                    return self.break_off(block)
                case Say() | Use():
                    made = [{"text": part} for part in block.parts] if isinstance(block, Say) else [_part(block)]
                    parts += made
                    if streamed:
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
            return self.send_json(200, whole)
        self._event(whole)
        return self.send("")

    def _event(self, event: Mapping[str, Any]) -> None:
        self.send(f"data: {json.dumps(event)}\r\n\r\n")

    def _error(self, fail: Fail) -> None:
        error = {"code": fail.status, "message": fail.message, "status": fail.error}
        self.send_json(fail.status, {"error": error}, fail.headers)
