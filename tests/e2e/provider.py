"""One script for every agent's program, played by a loopback model, whatever its API.

A `Provider` is a program and the model that the tests give it. Scripts are those of `tests.e2e.messages`; tools have
neutral names here, and each provider turns them into its program's own:

    Use("shell", {"command": "ls"})
    Use("write", {"path": "/abs/a.txt", "content": "…"})
    Use("read", {"path": "/abs/a.txt"})

The number of the model's turns in the request selects the turn, never what the server did before. `Fail` with 401 is a
rejected key, and with 529 or 503 an overloaded provider, in the form of the program's own API.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol, TypeAlias

from tests.e2e.messages import Script


class Asked(Protocol):
    """A request for the next turn of a conversation (not what a program asks for itself, titles and the like)."""

    @property
    def text(self) -> str:
        """Everything in it: instructions, prompts, tool results."""
        ...

    @property
    def turn(self) -> int:
        """How many turns the model has answered."""
        ...

    @property
    def tools(self) -> Sequence[str]:
        """The tools that exist for the model, by the program's own names."""
        ...

    @property
    def tool_results(self) -> Sequence[str]: ...

    @property
    def conversation(self) -> Hashable:
        """The same for all attempts at one turn."""
        ...


Asker: TypeAlias = Callable[[Asked], Script]


class Served(Protocol):
    """A running model."""

    @property
    def url(self) -> str: ...

    @property
    def requests(self) -> Sequence[Asked]:
        """The requests, in order."""
        ...


class Provider(Protocol):
    """A program, and how to point it to a model of the tests."""

    @property
    def name(self) -> str:
        """The backend's name."""
        ...

    def serve(self, asker: Asker) -> AbstractContextManager[Served]:
        """Run a model on 127.0.0.1 during the block. An exception in `asker` is raised at its end."""
        ...

    def environment(self, home: Path, url: str) -> dict[str, str]:
        """Return a complete environment, with dummy keys, in which the program (from .tools) contacts nobody else.

        May write the program's own configuration into `home`.
        """
        ...
