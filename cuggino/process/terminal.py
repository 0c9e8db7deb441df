"""A child that has the person's own terminal: its keys, its signals, its modes.

It cannot run under a keeper: a keeper's children are in sessions of their own, and a terminal belongs to one
session. So it is in cuggino's own process group, in the terminal's foreground, as an editor that git opens. Ctrl+C,
Ctrl+\\ and Ctrl+Z reach it as they reach any program. cuggino takes no notice of the first two, and of the third
as the shell expects it. A guard (see `cuggino.process.guard`) ends what the child leaves behind.
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
from cuggino.process.sweep import sweep_mark

_STDIN = 0
_SLACK = 1.0
"""Seconds beyond its own bound that a guard is given before it counts as stuck."""


async def run_in_terminal(
    argv: Sequence[str], *, cwd: Path, environment: Mapping[str, str], mark: str, force_kill: trio.Event, grace: float
) -> int:
    """Run a program with cuggino's own stdin, stdout and stderr, stdin being a terminal; returns its status.

    The status is negative for a signal. `mark` is a name for its environment. Cancelled, the program gets SIGTERM
    and up to `grace` seconds to exit, none when `force_kill` is set; then it is killed. When this returns or raises, no
    process that carries the mark is alive, and the terminal has the modes and the foreground group that it had. Raises
    OSError when the program cannot be executed.
    """
    with _left_to_the_child(signal.SIGINT, signal.SIGQUIT), _terminal_kept(_STDIN):
        async with _guarded(f"{mark}=1"):
            with trio.open_signal_receiver(signal.SIGCHLD) as changes:
                with trio.CancelScope(shield=True):
                    process = await trio.lowlevel.open_process(argv, cwd=cwd, env={**environment, mark: "1"})
                try:
                    async with trio.open_nursery() as nursery:
                        nursery.start_soon(_stop_along, process.pid, changes)
                        status = await process.wait()
                        nursery.cancel_scope.cancel(reason="it has exited")
                finally:
                    with trio.CancelScope(shield=True):
                        await _end(process, force_kill, grace)
    return status


async def _end(process: trio.Process, force_kill: trio.Event, grace: float) -> None:
    """Ends it if it has not ended: politely, then not."""
    if process.returncode is None:
        process.terminate()
        process.send_signal(signal.SIGCONT)  # a stopped one could not obey
        with trio.move_on_after(grace):
            await wait_any(process.wait, force_kill.wait)
        process.kill()
        await process.wait()


async def _stop_along(pid: int, changes: AsyncIterator[int]) -> None:
    """When the child has stopped, stop cuggino, too: only then does the shell take its terminal back.

    A program that reads single keys gets Ctrl+Z as one, and may stop itself alone. Where nobody could start it again
    (no shell with jobs above), the kernel lets cuggino run on, and then the child does so at once.
    """
    if not hasattr(os, "waitid"):  # macOS, before Python 3.13: only the Ctrl+Z that the terminal itself obeys works
        return
    async for _ in changes:
        with contextlib.suppress(ChildProcessError):  # it has ended meanwhile
            if os.waitid(os.P_PID, pid, os.WSTOPPED | os.WNOHANG) is not None:  # noqa: ASYNC222 - WNOHANG
                os.killpg(os.getpgrp(), signal.SIGTSTP)
                os.kill(pid, signal.SIGCONT)


@contextmanager
def _left_to_the_child(*numbers: signal.Signals) -> Iterator[None]:
    """Signals that do nothing to cuggino in the block. Handlers, not SIG_IGN, which a child would inherit."""
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
def _terminal_kept(fd: int) -> Iterator[None]:
    """The terminal's modes and its foreground group are the same again after the block.

    Not when somebody else has the terminal by then: a shell that was given it back has set it up for itself.
    """
    modes = termios.tcgetattr(fd)
    try:
        yield
    finally:
        with contextlib.suppress(OSError, termios.error):  # it was closed
            front, ours = os.tcgetpgrp(fd), os.getpgrp()
            if front == ours or not _is_a_group(front):
                _set_up(fd, ours, modes)


def _set_up(fd: int, group: int, modes: list[int | list[bytes | int]]) -> None:
    """SIGTTOU would stop a process in the background that does this: it is kept away."""
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTTOU})
    try:
        os.tcsetpgrp(fd, group)
        termios.tcsetattr(fd, termios.TCSANOW, modes)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


def _is_a_group(number: int) -> bool:
    try:
        os.killpg(number, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


@asynccontextmanager
async def _guarded(mark: str) -> AsyncIterator[None]:
    """What carries the mark is dead after the block, and if cuggino dies in it. Bounded by a few seconds."""
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
