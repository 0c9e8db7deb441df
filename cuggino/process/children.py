"""Starting child processes so that they end: each with all that it started, however cuggino ends.

A child runs under a keeper (see `cuggino.process.keeper`), which owns its process tree; here are the
keeper's other ends. Output goes to files, which `cuggino.process.follow` reads, and input comes from
one: nothing here can block because nobody reads or writes a pipe.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

import msgspec
import trio
from trio_util import wait_any

from cuggino.process import keeper
from cuggino.process.sweep import sweep_mark, variable
from cuggino.process.terminal import run_in_terminal

_numbers = itertools.count(1)
"""One count for all `Children` of this process: two of the same marker must not sweep each other's."""
_SLACK = 1.0
"""Seconds beyond its own bounds that a keeper is given before it counts as stuck."""


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """A program to run.

    `argv[0]` is looked up in the PATH of `environment`, which is the whole environment. `stdout` and
    `stderr` are files that are appended to, and made with mode 0600; no `stderr`: into `stdout`, in
    order. What a command with `linger` leaves running is not ended with it, but with its scope.
    """

    argv: tuple[str, ...]
    cwd: Path
    environment: Mapping[str, str]
    stdin: bytes = b""
    stdout: Path
    stderr: Path | None = None
    linger: bool = False


class Child:
    """A running command, seen from outside. Made by `Children`."""

    pid: int
    """Also the number of its session and of its process group."""
    gone: trio.Event
    """Set when nothing of its process tree is left; never before its own exit is known."""

    def __init__(self, command: Command, mark: bytes, process: trio.Process, orders: int, status: int) -> None:
        self.pid = 0
        self.gone = trio.Event()
        self._command = command
        self._mark = mark
        self._keeper = process
        self._orders = orders
        self._lines = trio.lowlevel.FdStream(status)
        self._executed = trio.Event()
        self._failure: OSError | None = None
        self._exited = trio.Event()
        self._status = -9
        self._swept = False
        self._interrupted = False

    async def wait(self) -> int:
        """The status of the command itself, negative for a signal, as soon as it has exited.

        What it started may still be alive then: see `gone`. A command whose keeper was killed counts as killed: -9.
        """
        await self._exited.wait()
        return self._status

    def interrupt(self) -> None:
        """Pass SIGINT on to its process group, as Ctrl+C would. Only the first call does."""
        if not self._interrupted:
            self._interrupted = True
            self._order(b"i")

    def _order(self, byte: bytes) -> None:
        if not self.gone.is_set():  # when it is, the pipe may be closed, and its number somebody else's
            with contextlib.suppress(BrokenPipeError):  # the keeper has ended
                os.write(self._orders, byte)

    async def _listen(self) -> None:
        """Take in what the keeper tells until it ends, and end the tree when it could not.

        Runs on when its scope is cancelled: `Children._stop` sees to it that the keeper ends.
        """
        with trio.CancelScope(shield=True):
            rest = b""
            async with self._lines:
                async for chunk in self._lines:
                    *lines, rest = (rest + chunk).split(b"\n")
                    for line in lines:
                        self._take(line.decode().split())
            await self._keeper.wait()
            if not self._swept and self._failure is None:
                with trio.move_on_after(keeper.SWEEP_SECONDS + _SLACK):
                    await trio.to_thread.run_sync(sweep_mark, self._mark, abandon_on_cancel=True)
            if not self._executed.is_set():
                self._failure = OSError(f"the keeper of {self._command.argv[0]} ended with {self._keeper.returncode}")
                self._executed.set()
            self._exited.set()
            self.gone.set()

    def _take(self, words: list[str]) -> None:
        match words:
            case ["pid", pid]:
                self.pid = int(pid)
                self._executed.set()
            case ["error", step, number]:
                reason = os.strerror(int(number))
                if step == "chdir":
                    self._failure = OSError(int(number), f"{reason} (the folder to work in)", str(self._command.cwd))
                else:
                    self._failure = OSError(int(number), reason, self._command.argv[0])
                self._executed.set()
            case ["exit", status]:
                self._status = int(status)
                self._exited.set()
            case ["swept"]:
                self._swept = True


class Children:
    """Starts commands, and ends them with everything that they started.

    Each child's environment has `CUGGINO_RUN_<marker>_<n>=1`, by which `cuggino.process.sweep` finds what
    escaped. A child whose scope is cancelled, or whose block is left, gets SIGINT and up to `grace` seconds
    to exit; then, or at once when `force_kill` is set, its whole tree is killed. What lingers gets SIGTERM and
    2 s. All this takes `grace` and 6 s at most, and 4 s more if somebody stopped the keeper itself.
    """

    def __init__(self, *, marker: str, force_kill: trio.Event | None = None, grace: float = 5.0) -> None:
        self._variable = variable(marker)
        self._hurry = trio.Event() if force_kill is None else force_kill
        self._grace = grace

    async def tend(self, command: Command, *, task_status: trio.TaskStatus[Child] = trio.TASK_STATUS_IGNORED) -> None:
        """For `nursery.start`: gives the `Child`, and returns when its tree is gone. Raises as `start`."""
        async with self.start(command) as child:
            task_status.started(child)
            await child.gone.wait()

    @asynccontextmanager
    async def start(self, command: Command) -> AsyncIterator[Child]:
        """Run a command for the length of a block. After the block its tree is gone, however it was left.

        Raises FileNotFoundError, PermissionError or another OSError, with the name of the program or folder
        in `filename`, when the command cannot be executed.
        """
        failure: Exception | None = None
        with ExitStack() as files:
            child = await self._launch(command, files)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(child._listen)
                try:
                    await child._executed.wait()
                    if child._failure is not None:
                        raise child._failure
                    yield child
                except Exception as error:
                    failure = error  # raised below: a nursery would wrap it in a group
                finally:
                    with trio.CancelScope(shield=True):
                        await self._stop(child)
        if failure is not None:
            try:
                raise failure
            finally:
                del failure

    async def in_terminal(self, argv: Sequence[str], *, cwd: Path, environment: Mapping[str, str]) -> int:
        """Run a command with the person's own terminal, to its end: see `run_in_terminal`. The one without a keeper."""
        mark = f"{self._variable}{next(_numbers)}"
        return await run_in_terminal(
            argv, cwd=cwd, environment=environment, mark=mark, force_kill=self._hurry, grace=self._grace
        )

    async def _launch(self, command: Command, files: ExitStack) -> Child:
        """Start the keeper. `files` holds what must stay open while it lives."""
        name = f"{self._variable}{next(_numbers)}"
        mark = f"{name}=1".encode()
        launch = _encode(command, mark)
        orders_end, orders = os.pipe()
        files.callback(os.close, orders)
        with ExitStack() as passed:
            passed.callback(os.close, orders_end)
            stdout = _appended(command.stdout, passed)
            stderr = stdout if command.stderr is None else _appended(command.stderr, passed)
            stdin = _content(command.stdin, passed) if command.stdin else subprocess.DEVNULL
            plan = _content(launch, passed)
            status, status_end = os.pipe()
            passed.callback(os.close, status_end)
            try:
                with trio.CancelScope(shield=True):
                    process = await trio.lowlevel.open_process(
                        [sys.executable, "-I", "-S", keeper.__file__, str(orders_end), str(status_end), str(plan)],
                        stdin=stdin,
                        stdout=stdout,
                        stderr=stderr,
                        pass_fds=(orders_end, status_end, plan),
                        start_new_session=True,
                        cwd="/",
                        env={k: v for k, v in os.environ.items() if k in ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")},
                    )
            except BaseException:
                os.close(status)
                raise
        return Child(command, mark, process, orders, status)

    async def _stop(self, child: Child) -> None:
        """End what is left of it: politely, then not."""
        if not child._exited.is_set():
            child.interrupt()
            with trio.move_on_after(self._grace):
                await wait_any(child._exited.wait, self._hurry.wait)
        if child._command.linger and child._exited.is_set():
            child._order(b"t")
            with trio.move_on_after(keeper.POLITE_SECONDS):
                await wait_any(child.gone.wait, self._hurry.wait)
        child._order(b"k")
        with trio.move_on_after(keeper.SWEEP_SECONDS + _SLACK):
            await child.gone.wait()
        if not child.gone.is_set():
            child._keeper.kill()


def _encode(command: Command, mark: bytes) -> bytes:
    if any("=" in name or not name for name in command.environment):
        raise ValueError(f"{command.argv[0]}: a name in the environment is empty or holds '='")
    environment = [os.fsencode(f"{name}={value}") for name, value in command.environment.items()]
    argv = [os.fsencode(argument) for argument in command.argv]
    cwd = os.fsencode(command.cwd.absolute())
    if any(b"\0" in field for field in (*argv, *environment, cwd)):
        raise ValueError(f"{command.argv[0]}: an argument, the environment or the folder holds a NUL")
    return keeper.Launch(mark, command.linger, cwd, argv, environment).encode()


def _appended(path: Path, files: ExitStack) -> int:
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    files.callback(os.close, fd)
    return fd


def _content(data: bytes, files: ExitStack) -> int:
    """A file of no name that holds the data, to be read from its beginning."""
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.seek(0)
        fd = os.dup(file.fileno())
    files.callback(os.close, fd)
    return fd
