"""Run a child in the person's terminal, with its keys, signals and modes.

Such a child cannot run under a keeper, whose children are in sessions of their own, since a terminal belongs to one
session. So it is in cuggino's process group, in the terminal's foreground, like an editor that git opens. Ctrl+C,
Ctrl+\\ and Ctrl+Z reach it as they reach any program; cuggino ignores the first two and stops with the third, as a
shell expects. A guard (`cuggino.process.guard`) kills what the child leaves behind.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import termios
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import trio
from trio_util import wait_any

from cuggino.process import keeper
from cuggino.process.leftovers import sweep_mark

_STDIN = 0
_SLACK = 1.0
"""Seconds beyond its own time limit after which a guard counts as stuck."""


async def run_in_terminal(
    argv: Sequence[str], *, cwd: Path, environment: Mapping[str, str], mark: str, force_kill: trio.Event, grace: float
) -> int:
    """Run a program with cuggino's stdin (a terminal), stdout and stderr. Return its status, negative for a signal.

    `mark` names a variable in its environment. When cancelled, the program gets SIGTERM and up to `grace` seconds to
    exit, none if `force_kill` is set; then it is killed. When this returns or raises, no process with the mark is
    alive, and the terminal has its former modes and foreground group. Raise OSError if the program cannot be executed.
    """
    with _ignore_signals(signal.SIGINT, signal.SIGQUIT), _restore_terminal(_STDIN):
        async with _run_guard(f"{mark}=1"):
            with trio.open_signal_receiver(signal.SIGCHLD) as changes:
                with trio.CancelScope(shield=True):
                    process = await trio.lowlevel.open_process(argv, cwd=cwd, env={**environment, mark: "1"})
                try:
                    async with trio.open_nursery() as nursery:
                        nursery.start_soon(_stop_with_child, process.pid, changes)
                        status = await process.wait()
                        nursery.cancel_scope.cancel(reason="it has exited")
                finally:
                    with trio.CancelScope(shield=True):
                        await _end(process, force_kill, grace)
    return status


async def _end(process: trio.Process, force_kill: trio.Event, grace: float) -> None:
    """End the process if it is still running: first with SIGTERM, then with SIGKILL."""
    if process.returncode is None:
        process.terminate()
        process.send_signal(signal.SIGCONT)  # a stopped process cannot react to SIGTERM
        with trio.move_on_after(grace):
            await wait_any(process.wait, force_kill.wait)
        process.kill()
        await process.wait()


async def _stop_with_child(pid: int, changes: AsyncIterator[int]) -> None:
    """Stop cuggino when the child has stopped, since only then does the shell take its terminal back.

    A program that reads single keys gets Ctrl+Z as a key and may stop only itself. Without a shell with job control,
    the kernel does not stop cuggino, and the child continues at once.
    """
    if not hasattr(os, "waitid"):  # macOS before Python 3.13: only a Ctrl+Z that the terminal handles works
        return
    async for _ in changes:
        with contextlib.suppress(ChildProcessError):  # it has exited meanwhile
            if os.waitid(os.P_PID, pid, os.WSTOPPED | os.WNOHANG) is not None:  # noqa: ASYNC222 - WNOHANG
                os.killpg(os.getpgrp(), signal.SIGTSTP)
                os.kill(pid, signal.SIGCONT)


@contextmanager
def _ignore_signals(*numbers: signal.Signals) -> Iterator[None]:
    """Make cuggino ignore signals in the block, by handlers, since children would inherit SIG_IGN."""
    before = {number: signal.getsignal(number) for number in numbers}
    taken = [number for number, handler in before.items() if handler is not signal.SIG_IGN]
    for number in taken:
        signal.signal(number, lambda *_: None)
    try:
        yield
    finally:
        for number in taken:
            signal.signal(number, before[number])


@contextmanager
def _restore_terminal(fd: int) -> Iterator[None]:
    """Restore the terminal's modes and foreground group after the block.

    Do nothing if another group has the terminal by then: a shell that took it back has set it up for itself.
    """
    modes = termios.tcgetattr(fd)
    try:
        yield
    finally:
        with contextlib.suppress(OSError, termios.error):  # it was closed
            front, ours = os.tcgetpgrp(fd), os.getpgrp()
            if front == ours or not _group_exists(front):
                _set_up(fd, ours, modes)


def _set_up(fd: int, group: int, modes: list[int | list[bytes | int]]) -> None:
    """Set group and modes, with SIGTTOU blocked, which would stop a background process that does this."""
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTTOU})
    try:
        os.tcsetpgrp(fd, group)
        termios.tcsetattr(fd, termios.TCSANOW, modes)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


def _group_exists(number: int) -> bool:
    try:
        os.killpg(number, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


@asynccontextmanager
async def _run_guard(mark: str) -> AsyncIterator[None]:
    """Kill every process with the mark after the block, or when cuggino dies in it. Takes a few seconds at most."""
    reading, writing = os.pipe()
    try:
        with trio.CancelScope(shield=True):
            guard = await trio.lowlevel.open_process(
                [sys.executable, "-P", "-m", "cuggino.process.guard", mark],
                stdin=reading,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
    except BaseException:
        os.close(writing)
        raise
    finally:
        os.close(reading)
    try:
        yield
    finally:
        os.close(writing)
        with trio.CancelScope(shield=True):
            with trio.move_on_after(keeper.SWEEP_SECONDS + _SLACK):
                await guard.wait()
            if guard.returncode != 0:
                guard.kill()
                await guard.wait()
                await trio.to_thread.run_sync(sweep_mark, mark.encode())
