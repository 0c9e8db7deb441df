"""Measure the cost of waiting: an idle `cuggino watch` in a terminal, and a recount of a folder with 100,000 files.

`python -m bench.watch SECONDS` is `cuggino watch` with SECONDS between two recounts.
"""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.measure import Row, alternate, command_seconds, timed
from bench.project import small_project
from cuggino import main
from cuggino.items import list_items
from cuggino.watch.intervals import WatchIntervals

ROOT = Path(__file__).parents[1]

WINDOW = 24.0
"""Seconds that are measured. They include a recount, which really happens only once a minute."""

CALM = 2.0
"""Seconds from the first idle report until all work of the start is done."""

FILES = 100_000

TOO_LONG = 20
"""Seconds after which a program counts as broken, not slow."""


def rows(runs: int) -> list[Row]:
    with TemporaryDirectory() as name:
        folder = Path(name)
        for number in range(FILES):
            (folder / f"item-{number:06}.md").touch()
        recount, ls = alternate(
            lambda: timed(lambda: list_items(folder)), lambda: command_seconds(["ls", "-f", name]), runs
        )
    counting = Row(
        f"a recount of a folder of {FILES:,} files",
        f"ls -f of it: {ls * 1000:.0f} ms",
        f"{recount / ls:.1f}×",
        "≤ 5×",
        recount <= 5 * ls,
    )
    if sys.platform != "linux":  # see `_cpu_seconds`
        return [counting]
    with small_project() as (project, environment):
        idle = _idle([sys.executable, "-m", __name__, str(WINDOW)], project, environment) * 1000
    return [
        Row(
            "an idle cuggino watch, CPU per minute",
            f"{WINDOW:.0f} s with a recount",
            f"{idle:.0f} ms",
            "< 50 ms",
            idle < 50,
        ),
        counting,
    ]


def _idle(argv: Sequence[str], project: Path, environment: Mapping[str, str]) -> float:
    """Return the CPU seconds per minute of a watch in a terminal that waits for items."""
    with _in_a_terminal(argv, project, environment) as (process, terminal):
        _wait_for(b"Idle", terminal)
        time.sleep(CALM)
        before = _cpu_seconds(process.pid)
        time.sleep(WINDOW)
        spent = _cpu_seconds(process.pid) - before
        process.send_signal(signal.SIGINT)
        _wait_for(b"Ended", terminal)
        process.wait(TOO_LONG)
    return spent * 60 / WINDOW


@contextmanager
def _in_a_terminal(
    argv: Sequence[str], folder: Path, environment: Mapping[str, str]
) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """Start the program and yield it with the other end of its terminal. Kill it at the end of the block."""
    terminal, its_end = pty.openpty()
    try:
        with subprocess.Popen(
            argv,
            cwd=folder,
            env={**environment, "TERM": "xterm", "PYTHONPATH": str(ROOT)},
            stdin=subprocess.DEVNULL,
            stdout=its_end,
            stderr=its_end,
        ) as process:
            os.close(its_end)
            try:
                yield process, terminal
            finally:
                process.kill()
    finally:
        os.close(terminal)


def _wait_for(words: bytes, terminal: int) -> None:
    """Wait until the terminal has shown the words."""
    shown = b""
    while words not in shown:
        readable, _, _ = select.select([terminal], [], [], TOO_LONG)
        if not readable:
            raise RuntimeError(f"the watch did not say {words!r} in {TOO_LONG} s, but: {shown!r}")
        shown += os.read(terminal, 4096)


def _cpu_seconds(pid: int) -> float:
    """Return the CPU seconds that a process has used until now, with all of its threads.

    /proc/PID/stat counts in hundredths of a second, which is too coarse. Linux has a clock for each process; this is
    its number, as in clock_getcpuclockid(3), which Python has for threads only.
    """
    return time.clock_gettime(~pid << 3 | 2)


def _watch(recount: float) -> int:
    return main.run(["watch"], {"intervals": WatchIntervals(recount=recount)})


if __name__ == "__main__":
    sys.exit(_watch(float(sys.argv[1])))
