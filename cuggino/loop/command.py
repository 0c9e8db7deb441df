"""The configured shell commands: setup, check and validation.

Their output goes to a file as it comes, stdout and stderr in order, so that no size of it matters; an event
carries at most the end of it.
"""

from __future__ import annotations

import math
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Protocol

import msgspec
import trio

from cuggino.process.children import Child, Children, Command

OUTPUT_SHOWN = 64 * 1024
"""Bytes of the end of a command's output that its event carries."""

TIMED_OUT = 124
"""The exit code of a command that was stopped at `commandTimeout`, as timeout(1) has it."""


class CommandResult(msgspec.Struct, frozen=True, kw_only=True):
    """`output` is the end of it, decoded; the file has all. One that a signal ended exits with 128 + its number."""

    output: str
    exit_code: int


class Commands(Protocol):
    """Who runs shell commands for a loop."""

    async def run(self, command: str, output: Path, *, timeout: float | None) -> CommandResult:
        """Run to the end; what it left running is dead when this returns. Cancelled: it is stopped, like an agent."""
        ...

    async def set_up(
        self, command: str, output: Path, *, timeout: float | None, nursery: trio.Nursery
    ) -> CommandResult:
        """Run to the end; what it leaves running lives on as a task of the nursery, until that is cancelled."""
        ...


class ShellCommands:
    """With `/bin/sh -c`, in a project's root, each under a keeper.

    In a sandbox they run behind its launcher and have its environment; None: cuggino's own.
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

        async def tend(task_status: trio.TaskStatus[Child]) -> None:
            with scope:
                await self._children.tend(self._shell(command, output, linger=True), task_status=task_status)

        child: Child = await nursery.start(tend)
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


def _result(path: Path, status: int | None, timeout: float | None) -> CommandResult:
    if status is None:
        with path.open("a") as file:
            file.write(f"\n[cuggino] stopped: it ran longer than {timeout:g} s (limits.commandTimeout)\n")
        status = TIMED_OUT
    return CommandResult(output=_end_of(path), exit_code=status if status >= 0 else 128 - status)


def _end_of(path: Path) -> str:
    with path.open("rb") as file:
        size = path.stat().st_size
        file.seek(max(0, size - OUTPUT_SHOWN))
        text = file.read(OUTPUT_SHOWN).decode(errors="replace")
    return text if size <= OUTPUT_SHOWN else f"[… the first {size - OUTPUT_SHOWN} bytes are not shown]\n{text}"
