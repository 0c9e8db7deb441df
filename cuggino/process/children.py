"""Start child processes so that each ends with everything that it started, however cuggino ends.

A child runs under a keeper (`cuggino.process.keeper`), which owns its process tree; this module is the other end of the
keeper's pipes. Output goes to files, which `cuggino.process.follow` reads, and input comes from a file, so nothing
blocks because a pipe is full or empty.
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
from cuggino.process.leftovers import marker_prefix, sweep_mark
from cuggino.process.terminal import run_in_terminal

_numbers = itertools.count(1)
"""Numbers the children of all `Children` of this process, so that two with one marker do not sweep each other's."""
_SLACK = 1.0
"""Seconds beyond its own time limit after which a keeper counts as stuck."""


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """A program to run.

    `argv[0]` is looked up in the PATH of `environment`, which is the whole environment. `stdout` and `stderr` are files
    that are appended to, and created with mode 0600; without `stderr`, both go to `stdout`, in order. With `linger`,
    what the command leaves running lives until the command's scope ends.
    """

    argv: tuple[str, ...]
    cwd: Path
    environment: Mapping[str, str]
    stdin: bytes = b""
    stdout: Path
    stderr: Path | None = None
    linger: bool = False


class Child:
    """A running command. Made by `Children`."""

    pid: int
    """Also the ID of its session and of its process group."""
    gone: trio.Event
    """Set when nothing of its process tree is left, and not before its exit status is known."""

    def __init__(self, command: Command, mark: bytes, process: trio.Process, control: int, status: int) -> None:
        self.pid = 0
        self.gone = trio.Event()
        self._command = command
        self._mark = mark
        self._keeper = process
        self._control = control
        self._lines = trio.lowlevel.FdStream(status)
        self._executed = trio.Event()
        self._failure: OSError | None = None
        self._exited = trio.Event()
        self._status = -9
        self._swept = False
        self._interrupted = False

    async def wait(self) -> int:
        """Return the status of the command itself, negative for a signal, as soon as it has exited.

        What it started may still be alive: see `gone`. A command whose keeper was killed counts as killed: -9.
        """
        await self._exited.wait()
        return self._status

    def interrupt(self) -> None:
        """Send SIGINT to its process group, as Ctrl+C would. Further calls do nothing."""
        if not self._interrupted:
            self._interrupted = True
            self._send_order(b"i")

    def _send_order(self, byte: bytes) -> None:
        if not self.gone.is_set():  # afterwards the pipe may be closed and its descriptor reused
            with contextlib.suppress(BrokenPipeError):  # the keeper has exited
                os.write(self._control, byte)

    async def _listen(self) -> None:
        """Read the keeper's reports until it exits, and kill the tree if the keeper could not.

        Shielded from cancellation: `Children._stop` makes the keeper exit.
        """
        with trio.CancelScope(shield=True):
            rest = b""
            async with self._lines:
                async for chunk in self._lines:
                    *lines, rest = (rest + chunk).split(b"\n")
                    for line in lines:
                        self._handle(line.decode().split())
            await self._keeper.wait()
            if not self._swept and self._failure is None:
                with trio.move_on_after(keeper.SWEEP_SECONDS + _SLACK):
                    await trio.to_thread.run_sync(sweep_mark, self._mark, abandon_on_cancel=True)
            if not self._executed.is_set():
                self._failure = OSError(f"the keeper of {self._command.argv[0]} exited with {self._keeper.returncode}")
                self._executed.set()
            self._exited.set()
            self.gone.set()

    def _handle(self, words: list[str]) -> None:
        match words:
            case ["pid", pid]:
                self.pid = int(pid)
                self._executed.set()
            case ["error", step, number]:
                reason = os.strerror(int(number))
                if step == "chdir":
                    self._failure = OSError(int(number), f"{reason} (the working directory)", str(self._command.cwd))
                else:
                    self._failure = OSError(int(number), reason, self._command.argv[0])
                self._executed.set()
            case ["exit", status]:
                self._status = int(status)
                self._exited.set()
            case ["swept"]:
                self._swept = True


class Children:
    """Starts commands, and ends each with everything that it started.

    Each child's environment has `CUGGINO_RUN_<marker>_<n>=1`, by which `cuggino.process.leftovers` finds what
    escaped. A child whose scope is cancelled, or whose block ends, gets SIGINT and up to `grace` seconds to exit;
    then, or at once when `force_kill` is set, its whole tree is killed. Lingering processes get SIGTERM and 2 s. This
    takes at most `grace` + 6 s, and 4 s more if the keeper itself was stopped by SIGSTOP.
    """

    def __init__(self, *, marker: str, force_kill: trio.Event | None = None, grace: float = 5.0) -> None:
        self._prefix = marker_prefix(marker)
        self._force_kill = trio.Event() if force_kill is None else force_kill
        self._grace = grace

    async def run(self, command: Command, *, task_status: trio.TaskStatus[Child] = trio.TASK_STATUS_IGNORED) -> None:
        """Run a command until its tree is gone; `nursery.start` returns its `Child`. Raise as `start` does."""
        async with self.start(command) as child:
            task_status.started(child)
            await child.gone.wait()

    @asynccontextmanager
    async def start(self, command: Command) -> AsyncIterator[Child]:
        """Run a command while the block runs. After the block, or when cancelled, its tree is gone.

        Raise FileNotFoundError, PermissionError or another OSError, with the program or directory in `filename`, if
        the command cannot be executed.
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
                    failure = error  # raised below, since a nursery would wrap it in a group
                finally:
                    with trio.CancelScope(shield=True):
                        await self._stop(child)
        if failure is not None:
            try:
                raise failure
            finally:
                del failure

    async def in_terminal(self, argv: Sequence[str], *, cwd: Path, environment: Mapping[str, str]) -> int:
        """Run a command in the person's terminal, to its end, without a keeper: see `run_in_terminal`."""
        mark = f"{self._prefix}{next(_numbers)}"
        return await run_in_terminal(
            argv, cwd=cwd, environment=environment, mark=mark, force_kill=self._force_kill, grace=self._grace
        )

    async def _launch(self, command: Command, files: ExitStack) -> Child:
        """Start the keeper. `files` closes what must stay open while it lives."""
        name = f"{self._prefix}{next(_numbers)}"
        mark = f"{name}=1".encode()
        launch = _encode(command, mark)
        control_end, control = os.pipe()
        files.callback(os.close, control)
        with ExitStack() as passed:
            passed.callback(os.close, control_end)
            stdout = _open_for_append(command.stdout, passed)
            stderr = stdout if command.stderr is None else _open_for_append(command.stderr, passed)
            stdin = _temporary_file(command.stdin, passed) if command.stdin else subprocess.DEVNULL
            plan = _temporary_file(launch, passed)
            status, status_end = os.pipe()
            passed.callback(os.close, status_end)
            try:
                with trio.CancelScope(shield=True):
                    process = await trio.lowlevel.open_process(
                        [sys.executable, "-I", "-S", keeper.__file__, str(control_end), str(status_end), str(plan)],
                        stdin=stdin,
                        stdout=stdout,
                        stderr=stderr,
                        pass_fds=(control_end, status_end, plan),
                        start_new_session=True,
                        cwd="/",
                        env={k: v for k, v in os.environ.items() if k in ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")},
                    )
            except BaseException:
                os.close(status)
                raise
        return Child(command, mark, process, control, status)

    async def _stop(self, child: Child) -> None:
        """End what is left of the tree: first with SIGINT or SIGTERM, then with SIGKILL."""
        if not child._exited.is_set():
            child.interrupt()
            with trio.move_on_after(self._grace):
                await wait_any(child._exited.wait, self._force_kill.wait)
        if child._command.linger and child._exited.is_set():
            child._send_order(b"t")
            with trio.move_on_after(keeper.POLITE_SECONDS):
                await wait_any(child.gone.wait, self._force_kill.wait)
        child._send_order(b"k")
        with trio.move_on_after(keeper.SWEEP_SECONDS + _SLACK):
            await child.gone.wait()
        if not child.gone.is_set():
            child._keeper.kill()


def _encode(command: Command, mark: bytes) -> bytes:
    if any("=" in name or not name for name in command.environment):
        raise ValueError(f"{command.argv[0]}: an environment variable has an empty name or one with '='")
    environment = [os.fsencode(f"{name}={value}") for name, value in command.environment.items()]
    argv = [os.fsencode(argument) for argument in command.argv]
    cwd = os.fsencode(command.cwd.absolute())
    if any(b"\0" in field for field in (*argv, *environment, cwd)):
        raise ValueError(f"{command.argv[0]}: an argument, the environment or the directory contains NUL")
    return keeper.KeeperStart(mark, command.linger, cwd, argv, environment).encode()


def _open_for_append(path: Path, files: ExitStack) -> int:
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    files.callback(os.close, fd)
    return fd


def _temporary_file(data: bytes, files: ExitStack) -> int:
    """Return a descriptor of an unnamed file with this content, at its start."""
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.seek(0)
        fd = os.dup(file.fileno())
    files.callback(os.close, fd)
    return fd
