"""A model on 127.0.0.1 that plays scripts to the real claude, without a key, a login or costs.

    def route(request: Request) -> Script:
        return [
            [Say("I look."), Use("Bash", {"command": "ls"})],     # the answer to the prompt
            [Say("<DO", "NE>all of it</DONE>")],                  # the answer to the tool's result
        ]

    with loopback(route) as server:
        subprocess.run([claude, "-p", …], env=claude_environment(home, server.url))
        assert server.requests[0].first_user == "…"

A script is a list of turns, a turn a list of blocks. The number of the assistant's messages in the request selects the
turn, never what the server did before: so resumed and parallel runs work.
A turn's blocks are sent in order; each argument of `Say` becomes a content block of its own. Faults are blocks too:

    Fail(529, times=2)       a request of this turn is refused twice; then the rest of the turn is played
    usage_limit(resets_at)   a Fail that claude takes for its account's usage limit (needs a subscription's token)
    Wait(0.5)                half a second passes
    Drop()                   the connection breaks, here
    Stall()                  nothing more comes until the server is closed
    Spent(output=20_000)     the reported cost of the turn, in tokens

`route` is called for every request of a conversation, and may look at whatever is in it. `by_role` makes one for a
whole loop of several agents, each known by words of its prompt. Requests without tools (claude's own: titles, quota)
are answered with "ok" and kept apart. An exception in `route` is raised at the end of the `with` block.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from functools import cached_property
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
from tests.e2e.serving import Handler, ModelServer, model_server

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
    """A request of claude."""

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

    @cached_property
    def text(self) -> str:
        return "\n".join((self.system, *self.users, *self.tool_results))

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
    """Return a route with the same script for every request."""
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


Loopback: TypeAlias = ModelServer[Request]


def loopback(route: Route) -> AbstractContextManager[Loopback]:
    return model_server(route, _Handler)


class _Handler(Handler[Request]):
    def post(self, path: str, body: dict[str, Any]) -> None:
        if path == "/v1/messages/count_tokens":
            self.send_json(200, {"input_tokens": 1000})
        elif path == "/v1/messages":
            request = Request(body, {name.lower(): value for name, value in self.headers.items()})
            self._message(request, self.server.answer(request))
        else:
            self.send_json(404, {"type": "error", "error": {"type": "not_found_error", "message": path}})

    def _message(self, request: Request, blocks: Sequence[Block]) -> None:
        message = Message(request.body.get("model", "scripted"), blocks)
        for block in blocks:
            match block:
                case Fail():
                    error = {"type": "error", "error": {"type": block.error, "message": block.message}}
                    return self.send_json(block.status, error, block.headers)
                case Wait():
                    self.server.closing.wait(block.seconds)
                case Stall() | Drop():
                    return self.break_off(block)
                case Say() | Use() if request.body.get("stream"):
                    if not self.streaming:
                        self._events(message.start())
                    self._events(message.stream(block))
                case _:
                    pass
        if not request.body.get("stream"):
            return self.send_json(200, message.whole())
        if not self.streaming:
            self._events(message.start())
        self._events(message.end())
        return self.send("")

    def _events(self, events: Iterator[dict[str, Any]]) -> None:
        for event in events:
            self.send(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n")


def _text(content: Any) -> str:
    """The text of a message or a prompt, without the reminders that claude adds by itself."""
    if isinstance(content, str):
        return content
    texts = [block["text"] for block in content if block.get("type") == "text"]
    return "\n".join(text for text in texts if not text.startswith("<system-reminder>"))
