"""Measure with alternating runs, medians, and a process for each run.

Runs alternate because a machine is faster in one minute than in the next. Medians ignore the rare slow run, which has
other causes. Each run has its own process because a process's peak memory never falls.
"""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec


class Row(NamedTuple):
    """A line of the table. `figure` and `goal` are texts for people."""

    what: str
    against: str
    figure: str
    goal: str
    met: bool


class Run(msgspec.Struct, frozen=True):
    """One run of a module: seconds of wall time of the work alone, and the peak memory of the process."""

    seconds: float
    peak_mb: float
    count: int


def alternate(first: Callable[[], float], second: Callable[[], float], runs: int) -> tuple[float, float]:
    """Call both in turn, `runs` times each, and return the medians."""
    pairs = [(first(), second()) for _ in range(runs)]
    return statistics.median(a for a, _ in pairs), statistics.median(b for _, b in pairs)


def timed(work: Callable[[], object]) -> float:
    """Return the seconds of wall time that the work takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def command_seconds(argv: Sequence[str]) -> float:
    """Return the seconds from the start of a program to its end. Raise CalledProcessError if it fails."""
    return timed(lambda: subprocess.run(argv, check=True, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL))


def module_run(module: str, *arguments: str) -> Run:
    """Run `python -m module arguments…`, which calls `report` at its end."""
    done = subprocess.run([sys.executable, "-m", module, *arguments], check=True, stdout=subprocess.PIPE)
    return msgspec.json.decode(done.stdout, type=Run)


def report(seconds: float, count: int) -> None:
    """Print what `module_run` reads. Call it last: the peak memory is that of the process until now."""
    sys.stdout.write(msgspec.json.encode(Run(seconds, _peak_mb(), count)).decode())


def _peak_mb() -> float:
    """Return the peak resident memory of this process, in MB.

    Linux's `ru_maxrss` starts with the size of the parent process, so /proc is read instead.
    """
    status = Path("/proc/self/status")
    if status.exists():
        return (
            next(int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith("VmHWM:")) / 1024
        )
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
