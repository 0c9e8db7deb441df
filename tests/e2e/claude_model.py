"""The neutral scripts for claude: a Provider over the loopback server that speaks the Messages API."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path

from tests.e2e.loopback import Loopback, claude_environment, loopback
from tests.e2e.messages import Block, Fail, Use, bad_key, overloaded
from tests.e2e.provider import Asker

_NAMES = {"shell": ("Bash", {}), "write": ("Write", {"path": "file_path"}), "read": ("Read", {"path": "file_path"})}
"""The neutral tool → claude's, and what it calls the arguments that it names otherwise."""


class ClaudeProvider:
    """See `tests.e2e.provider.Provider`."""

    name = "claude"

    def serve(self, asker: Asker) -> AbstractContextManager[Loopback]:
        return loopback(lambda request: [[_own(block) for block in turn] for turn in asker(request)])

    def environment(self, home: Path, url: str) -> dict[str, str]:
        return claude_environment(home, url)


CLAUDE = ClaudeProvider()


def _own(block: Block) -> Block:
    match block:
        case Use():
            name, arguments = _NAMES.get(block.name, (block.name, {}))
            return Use(name, {arguments.get(key, key): value for key, value in block.input.items()})
        case Fail(status=401):
            return bad_key()
        case Fail(status=503 | 529):
            return overloaded(block.times)
        case _:
            return block
