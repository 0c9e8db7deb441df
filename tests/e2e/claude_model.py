"""The neutral scripts for claude: a Provider over the loopback server that speaks the Messages API."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

from tests.e2e.loopback import Loopback, Request, claude_environment, loopback
from tests.e2e.messages import Block, Fail, Script, Use, bad_key, overloaded
from tests.e2e.provider import Asker

_NAMES = {"shell": ("Bash", {}), "write": ("Write", {"path": "file_path"}), "read": ("Read", {"path": "file_path"})}
"""The neutral tool → claude's, and what it calls the arguments that it names otherwise."""


class ClaudeAsked:
    """See `tests.e2e.provider.Asked`."""

    def __init__(self, request: Request) -> None:
        self.request = request

    @cached_property
    def text(self) -> str:
        return "\n".join((self.request.system, *self.request.users, *self.request.tool_results))

    @property
    def turn(self) -> int:
        return self.request.turn

    @property
    def tools(self) -> Sequence[str]:
        return self.request.tools

    @property
    def tool_results(self) -> Sequence[str]:
        return self.request.tool_results


class ClaudeServed:
    """See `tests.e2e.provider.Served`."""

    def __init__(self, server: Loopback) -> None:
        self._server = server

    @property
    def url(self) -> str:
        return self._server.url

    @property
    def requests(self) -> Sequence[ClaudeAsked]:
        return [ClaudeAsked(request) for request in self._server.requests]


class ClaudeProvider:
    """See `tests.e2e.provider.Provider`."""

    name = "claude"

    @contextmanager
    def serve(self, asker: Asker) -> Iterator[ClaudeServed]:
        def route(request: Request) -> Script:
            return [[_own(block) for block in turn] for turn in asker(ClaudeAsked(request))]

        with loopback(route) as server:
            yield ClaudeServed(server)

    def environment(self, home: Path, url: str) -> dict[str, str]:
        return claude_environment(home, url)


CLAUDE = ClaudeProvider()


def _own(block: Block) -> Block:
    match block:
        case Use():
            name, arguments = _NAMES[block.name]
            return Use(name, {arguments.get(key, key): value for key, value in block.input.items()})
        case Fail(status=401):
            return bad_key()
        case Fail(status=503 | 529):
            return overloaded(block.times)
        case _:
            return block
