"""Ask programs quick questions. A program's whole process tree ends with its answer or after a timeout."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import trio

from cuggino.process.children import Children, Command

ANSWER_TIMEOUT = 1.2
"""Maximum seconds for a program to answer."""


class ProgramOutput(NamedTuple):
    """A program's exit status and output, without surrounding space."""

    status: int
    out: str
    err: str

    @property
    def message(self) -> str:
        """The error message: stderr, else stdout, else the exit status."""
        return self.err or self.out or f"It exited with {self.status} and printed nothing."


class Programs:
    """Runs programs in `root`, with their output in files in `directory`."""

    def __init__(self, root: Path, environment: Mapping[str, str], directory: Path, children: Children) -> None:
        self.root = root
        self.environment = environment
        self.directory = directory
        self.children = children
        self._numbers = itertools.count(1)

    async def ask(self, *argv: str, environment: Mapping[str, str] | None = None) -> ProgramOutput | None:
        """Return the program's output, or None if it did not end in time. Raise OSError if it cannot start."""
        number = next(self._numbers)
        out, err = self.directory / f"{number}.out", self.directory / f"{number}.err"
        command = Command(
            argv=argv,
            cwd=self.root,
            environment=self.environment if environment is None else environment,
            stdout=out,
            stderr=err,
        )
        answer = None
        with trio.move_on_after(ANSWER_TIMEOUT):
            async with self.children.start(command) as child:
                status = await child.wait()
                answer = ProgramOutput(status, _text(out), _text(err))
        return answer


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace").strip()
