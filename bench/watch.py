"""What waiting costs: an idle `cuggino watch` in a terminal, and one look at a folder that holds very many files.

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
"""Seconds that are measured. A recount is among them: more often than the one a minute that there really is."""

CALM = 2.0
"""Seconds after the first word of being idle, until the start lies behind."""

FILES = 100_000

PATIENCE = 20
"""Seconds after which something is broken, not slow."""


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
            "an idle cuggino watch, CPU a minute",
            f"{WINDOW:.0f} s with a recount",
            f"{idle:.0f} ms",
            "< 50 ms",
            idle < 50,
        ),
        counting,
    ]


def _idle(argv: Sequence[str], project: Path, environment: Mapping[str, str]) -> float:
    """CPU seconds a minute of a watch in a terminal that waits for items."""
    with _in_a_terminal(argv, project, environment) as (process, terminal):
        _wait_for(b"Idle", terminal)
        time.sleep(CALM)
        before = _cpu_seconds(process.pid)
        time.sleep(WINDOW)
        spent = _cpu_seconds(process.pid) - before
        process.send_signal(signal.SIGINT)
        _wait_for(b"Ended", terminal)
        process.wait(PATIENCE)
    return spent * 60 / WINDOW


@contextmanager
def _in_a_terminal(
    argv: Sequence[str], folder: Path, environment: Mapping[str, str]
) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """The program, and the other end of its terminal. It is killed at the block's end if it still runs."""
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
    """Until the terminal has shown the words."""
    shown = b""
    while words not in shown:
        readable, _, _ = select.select([terminal], [], [], PATIENCE)
        if not readable:
            raise RuntimeError(f"the watch did not say {words!r} in {PATIENCE} s, but: {shown!r}")
        shown += os.read(terminal, 4096)


def _cpu_seconds(pid: int) -> float:
    """What a process has used until now, with all of its threads.

    /proc/PID/stat counts in hundredths of a second, too coarse here. Linux has a clock for each process, whose
    number is made like this: clock_getcpuclockid(3), which Python has for threads only.
    """
    return time.clock_gettime(~pid << 3 | 2)


def _watch(recount: float) -> int:
    return main.run(["watch"], {"intervals": WatchIntervals(recount=recount)})


if __name__ == "__main__":
    sys.exit(_watch(float(sys.argv[1])))
