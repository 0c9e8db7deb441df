"""Measure how fast an agent's output becomes lines of the log.

`python -m bench.agent_output cuggino FILE` does what `cuggino run` does with the file: follow it, split it into
lines, decode them, find markers, log events. `… json FILE` does the least possible: `json.loads` of each line.
"""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import trio

from bench.measure import Row, alternate, module_run, report
from bench.session import write_session
from cuggino.agents.agent import AgentOptions
from cuggino.agents.claude import ClaudeBackend
from cuggino.agents.headless import HeadlessAgent
from cuggino.events import LogLine
from cuggino.output.hub import open_hub
from cuggino.process.children import Child, Children, Command
from cuggino.roles import Role

SIZE = 100 * 10**6


class _ExitedChild(Child):
    """A child that has printed everything and exited."""

    def __init__(self) -> None:
        self.gone = trio.Event()
        self.gone.set()

    async def wait(self) -> int:
        return 0


class _NoChildren(Children):
    """Start no process: the output is already there."""

    @asynccontextmanager
    async def start(self, _command: Command) -> AsyncIterator[Child]:
        yield _ExitedChild()


class _CountingDisplay:
    """A display that counts lines and shows nothing."""

    waits_for_reader = True
    due = math.inf
    count = 0

    async def show(self, lines: Sequence[LogLine], _encoded: bytes) -> None:
        self.count += len(lines)

    async def tick(self) -> None:
        pass

    async def finish(self) -> None:
        pass

    async def print(self, _words: object) -> None:
        pass

    async def warn(self, text: str) -> None:
        sys.stderr.write(text)

    async def closed(self) -> None:
        await trio.sleep_forever()


def rows(runs: int) -> list[Row]:
    """Compare the time with `json.loads`, and the peak memory with ten times the size."""
    with TemporaryDirectory() as folder:
        small = Path(folder, "small")
        write_session(small, SIZE)
        ours, theirs = alternate(
            lambda: module_run(__name__, "cuggino", str(small)).seconds,
            lambda: module_run(__name__, "json", str(small)).seconds,
            runs,
        )
        peak = module_run(__name__, "cuggino", str(small)).peak_mb
        large = Path(folder, "large")
        with large.open("wb") as file:
            for _ in range(10):
                file.write(small.read_bytes())
        small.unlink()
        large_peak = module_run(__name__, "cuggino", str(large)).peak_mb
    return [
        Row(
            "100 MB of an agent's output → decoded, markers found, logged",
            f"json.loads of each line: {theirs:.2f} s",
            f"{ours / theirs:.2f}×",
            "< 1×",
            ours < theirs,
        ),
        Row(
            "peak memory of the same at 1 GB",
            f"at 100 MB: {peak:.0f} MB",
            f"{large_peak:.0f} MB",
            "equal, < 90 MB",
            large_peak < 90 and large_peak < peak * 1.05,
        ),
    ]


async def _cuggino(printed: Path, folder: Path) -> int:
    """Read the file as an agent's output; return the number of logged events."""
    program = folder / "claude"
    program.touch(0o755)
    options = AgentOptions(
        role=Role.IMPLEMENTER, cwd=folder, prompt="", output=printed, environment={"PATH": str(folder)}
    )
    display = _CountingDisplay()
    async with open_hub(log=folder / "log", display=display) as hub:
        await HeadlessAgent(ClaudeBackend(), _NoChildren(marker="bench")).spawn(options, hub.sender("bench"))
    return display.count


def _json(printed: Path) -> int:
    count = 0
    with printed.open("rb") as file:
        for line in file:
            json.loads(line)
            count += 1
    return count


if __name__ == "__main__":
    how, path = sys.argv[1:]
    with TemporaryDirectory() as folder:
        start = time.perf_counter()
        count = trio.run(_cuggino, Path(path), Path(folder)) if how == "cuggino" else _json(Path(path))
        report(time.perf_counter() - start, count)
