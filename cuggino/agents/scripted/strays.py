"""Processes that an agent leaves behind, in ways that make them hard to find.

They end by themselves after a time, so that a failing test leaves nothing forever.
"""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from cuggino.agents.scripted.steps import ChainStep, LeaveStep

_STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def leave(step: LeaveStep, cwd: Path) -> int:
    """Start the process; return its ID, which is also appended to the step's file."""
    sleep = shutil.which("sleep") or "/bin/sleep"
    environment = {} if step.empty_environment else dict(os.environ)
    reader, writer = os.pipe()

    def stray() -> NoReturn:
        if step.setsid:
            os.setsid()
        if step.double_fork and os.fork():
            os._exit(0)
        for number in _STOPPING:
            signal.signal(number, signal.SIG_IGN if step.ignore_signals else signal.SIG_DFL)
        if not step.keep_output:
            _close_output()
        os.write(writer, str(os.getpid()).encode())  # both ends close on exec
        os.execve(sleep, [sleep, str(step.seconds)], environment)

    child = _fork(stray)
    os.close(writer)
    pid = int(os.read(reader, 32))
    os.close(reader)
    if step.double_fork:
        os.waitpid(child, 0)
    if step.pids is not None:
        with (cwd / step.pids).open("a") as file:
            file.write(f"{pid}\n")
    return pid


def chain(step: ChainStep, cwd: Path) -> None:
    """Start the first process; each one writes its own ID to the step's file."""

    def link() -> NoReturn:
        _close_output()
        for number in _STOPPING:
            signal.signal(number, signal.SIG_DFL)
        end = time.monotonic() + step.seconds
        while time.monotonic() < end:
            os.setsid()
            if step.pids is not None:
                (cwd / step.pids).write_text(f"{os.getpid()}\n")
            time.sleep(step.pause)
            if os.fork():
                break
        os._exit(0)

    _fork(link)


def _close_output() -> None:
    """Close the agent's output, so that its readers do not wait for this process."""
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)


def _fork(child: Callable[[], NoReturn]) -> int:
    """Fork a child that runs `child` and never returns; return its ID."""
    pid = os.fork()
    if pid:
        return pid
    try:
        child()
    finally:
        os._exit(70)
