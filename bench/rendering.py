"""Measure the rendering of events for people, without a terminal.

`python -m bench.rendering COUNT` renders that many events of a made-up session on a coloured terminal.
"""

from __future__ import annotations

import random
import statistics
import sys
import time
from collections.abc import Iterator
from itertools import islice

from bench.measure import Row, module_run, report
from bench.session import words
from cuggino.events import AgentMessage, Event, Note, ToolCall, ToolResult
from cuggino.output.render import render

FEW, MANY = 10_000, 100_000


def rows(runs: int) -> list[Row]:
    """Measure the median rate, and the peak memory with ten times as many events."""
    few = module_run(__name__, str(FEW))
    many = [module_run(__name__, str(MANY)) for _ in range(runs)]
    rate = statistics.median(run.count / run.seconds for run in many)
    peak = max(run.peak_mb for run in many)
    return [
        Row("rendering for people", "", f"{rate:,.0f} lines/s", "10,000 lines/s", rate >= 10_000),
        Row(
            f"peak memory of rendering {MANY:,} events",
            f"{FEW:,} events: {few.peak_mb:.0f} MB",
            f"{peak:.0f} MB",
            "equal",
            peak < few.peak_mb * 1.05,
        ),
    ]


def events(seed: int = 7) -> Iterator[Event]:
    """Yield an agent's events without end: text, a tool call, its result, sometimes a note."""
    rng = random.Random(seed)
    while True:
        yield AgentMessage(text=words(rng, rng.randint(10, 80)))
        yield ToolCall(id="1", name="Bash", input={"command": words(rng, rng.randint(5, 60))})
        yield ToolResult(
            id="1", output=words(rng, min(8000, int(rng.lognormvariate(5, 1.2)))), is_error=rng.random() < 0.1
        )
        if rng.random() < 0.1:
            yield Note(content=words(rng, 20))


if __name__ == "__main__":
    lines, seconds = 0, 0.0
    for event in islice(events(), int(sys.argv[1])):
        start = time.perf_counter()
        lines += len(render(event, width=100, colour=True))
        seconds += time.perf_counter() - start
    report(seconds, lines)
