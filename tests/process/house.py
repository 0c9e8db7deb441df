"""A project with the scripted agent, and `cuggino` started in it as a person would start it.

The environment is built from nothing. Everything that cuggino starts inherits a canary from it, or, where an
agent empties the environment, has it in its arguments: `House.left` finds what is still alive.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any
from uuid import uuid4

import trio
from trio_util import RepeatedEvent

from cuggino.events import LogLine, PrintableEvent, WatchLoopEvent, decode_log_line

Step = dict[str, Any]

COMMAND = ("-m", "cuggino")
QUICK_WATCH = str(Path(__file__).with_name("quick_watch.py"))

PLAN: Sequence[Step] = (
    {"do": "write", "path": "{writable}", "text": "# Plan\n1. The task."},
    {"do": "marker", "name": "PLAN_COMPLETE", "text": "planned"},
)
PROGRESS: Sequence[Step] = (
    {"do": "append", "path": "work.txt", "text": "a part\n"},
    {"do": "marker", "name": "PROGRESS", "text": "A part"},
)
DONE: Sequence[Step] = (
    {"do": "append", "path": "work.txt", "text": "the rest\n"},
    {"do": "marker", "name": "DONE", "text": "The rest"},
)
APPROVE: Sequence[Step] = ({"do": "marker", "name": "APPROVED", "text": "good"},)
CHANGES: Sequence[Step] = ({"do": "marker", "name": "REQUEST_CHANGES", "text": "not good"},)


def turn(*steps: Step, **more: Any) -> dict[str, Any]:
    """A turn of a script."""
    return {"steps": list(steps), **more}


def script(**roles: Sequence[Sequence[Step] | dict[str, Any]]) -> dict[str, Any]:
    """Turns for some roles, each given as its steps or whole; then, and where none is given, a role plays well."""
    good: dict[str, Sequence[Step]] = {"planner": PLAN, "implementer": DONE, "reviewer": APPROVE, "audit": ()}
    turns = {role: [it if isinstance(it, dict) else turn(*it) for it in roles.get(role, ())] for role in good}
    return {role: [*turns[role], turn(*steps, times=0)] for role, steps in good.items()}


AT_GATE: Step = {"do": "run", "command": "touch gate; while test -e gate; do sleep 0.02; done"}
"""Waits in a tool until the file `gate`, which it makes, is removed: `House.at_gate` and `House.open_gate`."""


class Printed:
    """What cuggino printed with `--json`."""

    events: list[PrintableEvent]

    @property
    def names(self) -> list[str]:
        return [type(event).__name__ for event in self.events]

    @property
    def reported(self) -> list[WatchLoopEvent]:
        """The watch's own events."""
        return [event for event in self.events if isinstance(event, WatchLoopEvent)]


@dataclass(kw_only=True)
class Finished(Printed):
    """A cuggino that has ended. `code` is negative for a signal."""

    code: int
    out: str
    err: str

    @cached_property
    def events(self) -> list[PrintableEvent]:  # type: ignore[override]
        return [decode_log_line(line).event for line in self.out.splitlines()]


class House:
    """A git project below `folder`."""

    def __init__(self, folder: Path, *, play: dict[str, Any] | None = None, **config: Any) -> None:
        self.canary = f"canary-{uuid4().hex}"
        self.root = folder / "project"
        self.home = folder / "home"
        self.home.mkdir()
        (self.root / ".specs").mkdir(parents=True)
        (self.root / ".specs" / "app.md").write_text("# App\n")
        (self.root / ".cuggino.json").write_text(json.dumps({"agent": "scripted", **config}))
        self.script = folder / "script.json"
        self.play(play or script())
        for arguments in (["init", "-q"], ["add", "."], ["commit", "-qm", "start"]):
            self.git(*arguments)

    @property
    def environment(self) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "LANG": "C.UTF-8",
            "TERM": "xterm",
            "CUGGINO_SCRIPT": str(self.script),
            "CANARY": self.canary,
            **{f"GIT_{who}_{what}": "tester" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
        }

    @property
    def state(self) -> Path:
        return self.root / ".cuggino"

    @property
    def wip(self) -> list[str]:
        return sorted(path.name for path in (self.state / "wip").iterdir())

    @property
    def backlog(self) -> Path:
        """The backlog's folder, which is made if it is missing."""
        folder = self.state / "backlog"
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    @property
    def archived(self) -> list[tuple[str, str]]:
        """The names and contents of finished items, as they came to the archive."""
        paths = sorted((self.state / "archive").iterdir())
        return [(path.name[37:], path.read_text()) for path in paths]

    def item(self, name: str, text: str = "Do it.\n") -> Path:
        """Put an item into the backlog."""
        path = self.backlog / name
        path.write_text(text)
        return path

    async def at_gate(self) -> None:
        """Wait until an agent plays AT_GATE."""
        while not (self.root / "gate").exists():  # noqa: ASYNC110 - a file of another process
            await trio.sleep(0.01)

    def open_gate(self) -> None:
        (self.root / "gate").unlink()

    def play(self, play: dict[str, Any]) -> None:
        self.script.write_text(json.dumps(play))

    def git(self, *arguments: str) -> str:
        return subprocess.run(
            ["git", *arguments], cwd=self.root, env=self.environment, check=True, capture_output=True, text=True
        ).stdout

    def logged(self) -> list[LogLine]:
        """The newest log's whole lines."""
        path = max((self.state / "logs").glob("*.jsonl"))
        return [decode_log_line(line) for line in path.read_bytes().split(b"\n")[:-1]]

    async def run(
        self,
        *arguments: str,
        cwd: Path | None = None,
        environment: dict[str, str] | None = None,
        program: Sequence[str] = COMMAND,
    ) -> Finished:
        """`cuggino ARGUMENTS`, to its end."""
        done = await trio.run_process(
            [sys.executable, *program, *arguments],
            cwd=cwd or self.root,
            env=environment or self.environment,
            capture_stdout=True,
            capture_stderr=True,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        return Finished(code=done.returncode, out=done.stdout.decode(), err=done.stderr.decode())

    @asynccontextmanager
    async def started(
        self, *arguments: str, under: Sequence[str] = (), program: Sequence[str] = COMMAND
    ) -> AsyncIterator[Running]:
        """`cuggino ARGUMENTS --json` for the length of the block; killed at its end if it still runs."""
        process = await trio.lowlevel.open_process(
            [*under, sys.executable, *program, *arguments, "--json"],
            cwd=self.root,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        async with trio.open_nursery() as nursery:
            running = Running(process)
            nursery.start_soon(running.read)
            try:
                yield running
            finally:
                if process.returncode is None:
                    process.kill()
                with trio.CancelScope(shield=True):
                    await process.wait()
                nursery.cancel_scope.cancel()

    async def watch_until_idle(self, *arguments: str, **intervals: Any) -> Finished:
        """`cuggino watch --until-idle --json`, to its end, with the intervals of `quick_watch`."""
        return await self.run("watch", "--until-idle", "--json", *arguments, program=quick_watch(**intervals))

    def watching(self, *arguments: str, **intervals: Any) -> AbstractAsyncContextManager[Running]:
        """`cuggino watch --json` for the length of the block, with the intervals of `quick_watch`."""
        return self.started("watch", *arguments, program=quick_watch(**intervals))

    def left(self) -> list[str]:
        """The processes that carry the canary and are alive."""
        found = []
        for folder in Path("/proc").iterdir():
            if not folder.name.isdigit() or int(folder.name) == os.getpid():
                continue
            try:
                words = (folder / "cmdline").read_bytes()
                if self.canary.encode() in words or self.canary.encode() in (folder / "environ").read_bytes():
                    state = (folder / "stat").read_text().rpartition(")")[2].split()[0]
                    if state != "Z":
                        found.append(words.replace(b"\0", b" ").decode())
            except OSError:
                continue
        return found


async def until_exists(path: Path) -> None:
    while not path.exists():  # noqa: ASYNC110 - a file of another process
        await trio.sleep(0.01)


def quick_watch(**intervals: Any) -> tuple[str, ...]:
    """The program that is `cuggino` with a watch that waits less long."""
    return ("-P", QUICK_WATCH, json.dumps(intervals))


class Running(Printed):
    """A running cuggino. Its output is read all the time."""

    def __init__(self, process: trio.Process) -> None:
        self.process = process
        self.err = b""
        self.events: list[PrintableEvent] = []
        self._more = RepeatedEvent()
        self._ended = False

    async def read(self) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._read_err)
            assert self.process.stdout is not None
            rest = b""
            async for chunk in self.process.stdout:
                *lines, rest = (rest + chunk).split(b"\n")
                self.events += [decode_log_line(line).event for line in lines]
                self._more.set()
            self._ended = True
            self._more.set()

    async def _read_err(self) -> None:
        assert self.process.stderr is not None
        async for chunk in self.process.stderr:
            self.err += chunk

    async def until(self, what: str | PrintableEvent, times: int = 1) -> None:
        """Wait until an event of this kind, or this very event, was printed that many times."""
        while (self.names.count(what) if isinstance(what, str) else self.events.count(what)) < times:
            assert not self._ended, f"it ended without {what}: {self.names[-5:]} {self.err.decode()}"
            await self._more.wait()

    async def until_more(self) -> None:
        """Wait until something is printed, or it ends."""
        if not self._ended:
            await self._more.wait()

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def kill_keepers(self) -> None:
        """Stop it, and kill the keepers of its children. They are children of the threads that started them."""
        self.send(signal.SIGSTOP)
        for children in Path(f"/proc/{self.process.pid}/task").glob("*/children"):
            for child in children.read_text().split():
                os.kill(int(child), signal.SIGKILL)

    async def end(self) -> tuple[int, float]:
        """Its exit code, negative for a signal, and how long that took from now. All that it printed is read then."""
        begun = trio.current_time()
        code = await self.process.wait()
        seconds = trio.current_time() - begun
        while not self._ended:
            await self._more.wait()
        return code, seconds
