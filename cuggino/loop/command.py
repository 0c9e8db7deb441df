"""The configured shell commands: setup, check and validation.

Output goes straight to a file, stdout and stderr in order, so it may have any size. An event carries its end.
"""

from __future__ import annotations

import math
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Protocol, TypeVar

import msgspec
import trio

from cuggino.errors import GitError
from cuggino.process.children import Child, Children, Command

T = TypeVar("T")

OUTPUT_SHOWN = 64 * 1024
"""Bytes of a command's output, counted from its end, that its event carries."""

SLOW_COMMIT = 10.0
"""Seconds after which a message says that a commit is waited for."""

TIMED_OUT = 124
"""The exit code of a command that was stopped at `commandTimeout`, as with timeout(1)."""


class CommandResult(msgspec.Struct, frozen=True, kw_only=True):
    """`output` is the decoded end of the output. `exit_code` is 128 + N for a command that signal N killed."""

    output: str
    exit_code: int


class Commands(Protocol):
    """Runs shell commands for a loop."""

    async def run(self, command: str, output: Path, *, timeout: float | None) -> CommandResult:
        """Run a command to its end. When this returns or is cancelled, no process of it is alive."""
        ...

    async def set_up(
        self, command: str, output: Path, *, timeout: float | None, nursery: trio.Nursery
    ) -> CommandResult:
        """Run a command to its end. What it leaves running belongs to the nursery and lives until that is cancelled."""
        ...


class ShellCommands:
    """Runs commands with `/bin/sh -c` in a directory, each under a keeper.

    In a sandbox they run behind its launcher with its environment; None is cuggino's own environment.
    """

    def __init__(
        self,
        children: Children,
        cwd: Path,
        *,
        launcher: tuple[str, ...] = (),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._children = children
        self._cwd = cwd
        self._launcher = launcher
        self._environment = environment

    async def run(self, command: str, output: Path, *, timeout: float | None) -> CommandResult:
        status: int | None = None
        with trio.move_on_after(math.inf if timeout is None else timeout):
            async with self._children.start(self._shell(command, output, linger=False)) as child:
                status = await child.wait()
        return _result(output, status, timeout)

    async def set_up(
        self, command: str, output: Path, *, timeout: float | None, nursery: trio.Nursery
    ) -> CommandResult:
        scope = trio.CancelScope()

        async def run(task_status: trio.TaskStatus[Child]) -> None:
            with scope:
                await self._children.run(self._shell(command, output, linger=True), task_status=task_status)

        child: Child = await nursery.start(run)
        status: int | None = None
        with trio.move_on_after(math.inf if timeout is None else timeout):
            status = await child.wait()
        if status is None:
            scope.cancel(reason="commandTimeout")
            await child.gone.wait()
        return _result(output, status, timeout)

    def _shell(self, command: str, output: Path, *, linger: bool) -> Command:
        output.unlink(missing_ok=True)
        return Command(
            argv=(*self._launcher, "/bin/sh", "-c", command),
            cwd=self._cwd,
            environment=dict(os.environ) if self._environment is None else self._environment,
            stdout=output,
            linger=linger,
        )


@asynccontextmanager
async def background() -> AsyncIterator[trio.Nursery]:
    """Yield a nursery for what a setup command leaves running; it is stopped at the end of the block.

    An error of the block is raised as it is, not in a group.
    """
    failure: Exception | None = None
    async with trio.open_nursery() as nursery:
        try:
            yield nursery
        except Exception as error:
            failure = error
        nursery.cancel_scope.cancel(reason="the work is over")
    if failure is not None:
        raise failure


async def within(timeout: float | None, work: Callable[[], Awaitable[T]], slow: Callable[[], Awaitable[None]]) -> T:
    """Return what `work` returns; call `slow` once if it takes long. Raise GitError after `timeout` seconds."""

    async def report() -> None:
        await trio.sleep(SLOW_COMMIT)
        await slow()

    async with background() as nursery:
        nursery.start_soon(report)
        with trio.move_on_after(math.inf if timeout is None else timeout):
            return await work()
    raise GitError(f"git was stopped after {timeout:g} s (limits.commandTimeout).")


def _result(path: Path, status: int | None, timeout: float | None) -> CommandResult:
    if status is None:
        with path.open("a") as file:
            file.write(f"\n[cuggino] stopped after {timeout:g} s (limits.commandTimeout)\n")
        status = TIMED_OUT
    return CommandResult(output=read_end(path), exit_code=status if status >= 0 else 128 - status)


def read_end(path: Path) -> str:
    """Return the end of a command's output, as its event carries it."""
    with path.open("rb") as file:
        size = path.stat().st_size
        file.seek(max(0, size - OUTPUT_SHOWN))
        text = file.read(OUTPUT_SHOWN).decode(errors="replace")
    return text if size <= OUTPUT_SHOWN else f"[… the first {size - OUTPUT_SHOWN} bytes are left out]\n{text}"
