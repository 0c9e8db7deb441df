"""Asking programs a quick question: their whole process tree ends with the answer, or when none comes."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import trio

from cuggino.process.children import Children, Command

PATIENCE = 1.2
"""Seconds that a program has to answer."""


class ProgramOutput(NamedTuple):
    """How a program ended, and what it said, without surrounding space."""

    status: int
    out: str
    err: str

    @property
    def words(self) -> str:
        """What it complained of: all that it said, where it said nothing on stderr."""
        return self.err or self.out or f"It ended with status {self.status} and said nothing."


class Programs:
    """Starts programs in `root`. `folder` is for what they print."""

    def __init__(self, root: Path, environment: Mapping[str, str], folder: Path, children: Children) -> None:
        self.root = root
        self.environment = environment
        self.folder = folder
        self.children = children
        self._numbers = itertools.count(1)

    async def ask(self, *argv: str, environment: Mapping[str, str] | None = None) -> ProgramOutput | None:
        """The program's answer; None: it gave none in time. OSError if it cannot be started."""
        number = next(self._numbers)
        out, err = self.folder / f"{number}.out", self.folder / f"{number}.err"
        command = Command(
            argv=argv,
            cwd=self.root,
            environment=self.environment if environment is None else environment,
            stdout=out,
            stderr=err,
        )
        answer = None
        with trio.move_on_after(PATIENCE):
            async with self.children.start(command) as child:
                status = await child.wait()
                answer = ProgramOutput(status, _text(out), _text(err))
        return answer


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace").strip()
