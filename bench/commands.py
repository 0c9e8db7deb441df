"""Measure what a person waits for: the start of a command, and its end after Ctrl+C.

The agent reports its start, then sleeps until it is interrupted.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from bench.measure import Row, alternate, command_seconds
from bench.project import small_project

CUGGINO = Path(sys.executable).with_name("cuggino")

TOO_LONG = 20
"""Seconds after which a program counts as broken, not slow."""


def rows(runs: int) -> list[Row]:
    version, bare = alternate(
        lambda: command_seconds([str(CUGGINO), "--version"]),
        lambda: command_seconds([sys.executable, "-c", "pass"]),
        runs,
    )
    with small_project() as (project, environment):
        start, imports = alternate(
            lambda: _start_and_stop([str(CUGGINO), "run", "--focus", "bench"], project, environment)[0],
            lambda: command_seconds([sys.executable, "-c", "import trio, cyclopts, msgspec"]),
            runs,
        )
        stop, own = alternate(
            lambda: _start_and_stop([str(CUGGINO), "run", "--focus", "bench"], project, environment)[1],
            lambda: _start_and_stop([str(project / "bin" / "claude")], project, environment)[1],
            runs,
        )
    return [
        Row(
            "cuggino --version",
            f"python -c pass: {bare * 1000:.0f} ms",
            f"{version / bare:.1f}×",
            "≤ 4×",
            version <= 4 * bare,
        ),
        Row(
            "cuggino run until the agent is executed",
            f'python -c "import trio, cyclopts, msgspec": {imports * 1000:.0f} ms',
            f"{start / imports:.1f}×",
            "≤ 1.5×",
            start <= 1.5 * imports,
        ),
        Row(
            "Ctrl+C until exit, agent that exits at once",
            f"the agent's own exit: {own * 1000:.0f} ms",
            f"+ {(stop - own) * 1000:.0f} ms",
            "≤ + 100 ms",
            stop - own <= 0.1,
        ),
    ]


def _start_and_stop(argv: Sequence[str], project: Path, environment: dict[str, str]) -> tuple[float, float]:
    """Return the seconds until the agent is executed, and from SIGINT to the exit."""
    started = os.open(environment["BENCH_STARTED"], os.O_RDONLY | os.O_NONBLOCK)
    errors = project / "errors"
    try:
        begin = time.perf_counter()
        with (
            errors.open("wb") as stderr,
            subprocess.Popen(
                argv, cwd=project, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=stderr
            ) as run,
        ):
            readable, _, _ = select.select([started], [], [], TOO_LONG)
            start = time.perf_counter() - begin
            time.sleep(0.1)  # until the agent sleeps, and so exits at once on SIGINT
            begin = time.perf_counter()
            run.send_signal(signal.SIGINT)
            try:
                run.wait(timeout=TOO_LONG)
            finally:
                run.kill()
            stop = time.perf_counter() - begin
    finally:
        os.close(started)
    if not readable:
        raise RuntimeError(f"{argv[0]} did not start the agent in {TOO_LONG} s:\n{errors.read_text()}")
    return start, stop
