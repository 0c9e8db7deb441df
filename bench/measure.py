"""How a figure is taken: alternating runs, medians, children of their own.

Alternating, because a machine is faster in one minute than in the next; medians, because the rare
slow run belongs to something else; a process of its own for memory, because its peak never goes down.
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
    """A line of the table. `figure` and `goal` are as a person reads them."""

    what: str
    against: str
    figure: str
    goal: str
    met: bool


class Run(msgspec.Struct, frozen=True):
    """One measured run of a module of ours: wall seconds of the work alone, and the process's peak memory."""

    seconds: float
    peak_mb: float
    count: int


def alternate(first: Callable[[], float], second: Callable[[], float], runs: int) -> tuple[float, float]:
    """The medians of `runs` runs each, taken in turn."""
    pairs = [(first(), second()) for _ in range(runs)]
    return statistics.median(a for a, _ in pairs), statistics.median(b for _, b in pairs)


def timed(work: Callable[[], object]) -> float:
    """Seconds of wall time that the work took."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def command_seconds(argv: Sequence[str]) -> float:
    """Seconds from the start of a program to its end. Fails when the program does."""
    return timed(lambda: subprocess.run(argv, check=True, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL))


def module_run(module: str, *arguments: str) -> Run:
    """Run `python -m module arguments…`, which ends with `report`."""
    done = subprocess.run([sys.executable, "-m", module, *arguments], check=True, stdout=subprocess.PIPE)
    return msgspec.json.decode(done.stdout, type=Run)


def report(seconds: float, count: int) -> None:
    """Print what `module_run` reads. To be called at the end: the peak is the process's so far."""
    sys.stdout.write(msgspec.json.encode(Run(seconds, _peak_mb(), count)).decode())


def _peak_mb() -> float:
    """The peak of this process's resident memory.

    Not `ru_maxrss` on Linux: a child inherits the size of the process that forked it into that figure.
    """
    status = Path("/proc/self/status")
    if status.exists():
        return (
            next(int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith("VmHWM:")) / 1024
        )
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
