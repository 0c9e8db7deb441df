"""A command in a terminal: its signals, its output, its last words, its exit code."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import trio

from cuggino.loop.session import Session
from cuggino.output.page import Page
from cuggino.output.summary import RunTally, render_summary
from cuggino.output.terminal import open_display
from cuggino.project import Project
from cuggino.runtime import Invocation, Runtime, open_runtime
from cuggino.signals import Shutdown, ShutdownStage, handle_signals

_MESSAGES = {
    ShutdownStage.DRAIN: "Stopping after the running work. Press Ctrl+C again to interrupt it.",
    ShutdownStage.INTERRUPT: "Stopping: the agent has 5 s to exit. Press Ctrl+C again to kill it now.",
    ShutdownStage.KILL: "Killing all processes.",
}


async def in_foreground(
    project: Project,
    invocation: Invocation,
    work: Callable[[Runtime, Shutdown], Awaitable[int]],
    *,
    last_words: Callable[[Page], Sequence[str]] | None = None,
) -> int:
    """Do a command's work in a project and return its exit code: 128 plus the signal's number if one interrupted it.

    Raise what `open_runtime` raises. Print `last_words` at the end, or else the summary of the loops. However it
    ends, no process that it started is alive.
    """
    with open_display(as_json=invocation.json) as display:

        async def warn(stage: ShutdownStage) -> None:
            await display.warn(_MESSAGES[stage])

        shutdown = Shutdown(drains=invocation.drains)
        tally = RunTally()
        code = 1
        unfinished: Session | None = None
        started = trio.current_time()
        with shutdown.reported_to(warn):
            async with handle_signals(shutdown):
                with shutdown.interrupted:
                    async with open_runtime(project, invocation, display, tally, shutdown.force_kill) as runtime:
                        try:
                            code = await work(runtime, shutdown)
                        finally:
                            unfinished = runtime.unfinished
                summary = tally.summary(seconds=trio.current_time() - started)
                await display.print(last_words or (lambda page: render_summary(summary, page)))
                if unfinished is not None:
                    await display.warn(f"The session is kept. To resume it: cuggino run --resume {unfinished.id}")
        if shutdown.signal is not None and shutdown.stage.value >= ShutdownStage.INTERRUPT:
            return 128 + shutdown.signal
        return code
