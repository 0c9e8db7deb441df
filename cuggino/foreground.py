"""A command in a terminal: its signals, its output, its last words, its exit code."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import trio

from cuggino.loop.session import Session
from cuggino.output.page import Page
from cuggino.output.summary import RunTally, render_summary
from cuggino.output.terminal import open_display
from cuggino.project import Project
from cuggino.runtime import Runtime, open_runtime
from cuggino.signals import Shutdown, ShutdownStage, handle_signals

_SAID = {
    ShutdownStage.DRAIN: "Stopping when the running work is done. Ctrl+C once more interrupts it.",
    ShutdownStage.INTERRUPT: "Stopping: the agent has 5 s to end. Ctrl+C once more kills it now.",
    ShutdownStage.KILL: "Killing what is left.",
}


async def in_foreground(
    project: Project,
    name: str,
    work: Callable[[Runtime, Shutdown], Awaitable[int]],
    *,
    as_json: bool,
    drains: bool = False,
    beside: Path | None = None,
    last_words: Callable[[Page], Sequence[str]] | None = None,
) -> int:
    """Do the work of the command `name` in a project; returns its exit code.

    Raises as `open_runtime`, which `beside` is for. When all is over `last_words` are said, or else the loops' summary.
    A signal cancels the work; then the code is 128 and the signal's number. However it
    ends, no process that it started is alive.
    """
    with open_display(as_json=as_json) as display:

        async def tell(stage: ShutdownStage) -> None:
            await display.warn(_SAID[stage])

        shutdown = Shutdown(drains=drains)
        shutdown.tell = tell
        tally = RunTally()
        code = 1
        unfinished: Session | None = None
        started = trio.current_time()
        async with handle_signals(shutdown):
            with shutdown.interrupted:
                async with open_runtime(
                    project, f"cuggino {name}", display, tally, shutdown.force_kill, beside=beside
                ) as runtime:
                    try:
                        code = await work(runtime, shutdown)
                    finally:
                        unfinished = runtime.unfinished
            summary = tally.summary(seconds=trio.current_time() - started)
            await display.print(last_words or (lambda page: render_summary(summary, page)))
            if unfinished is not None:
                await display.warn(f"The session is kept. To go on with it: cuggino run --resume {unfinished.id}")
        if shutdown.signal is not None and shutdown.stage >= ShutdownStage.INTERRUPT:
            return 128 + shutdown.signal
        return code
