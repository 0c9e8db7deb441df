"""A command in a terminal: its signals, its output, its last words, its exit code."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import trio

from cuggino.desk import Desk, open_desk
from cuggino.output.summary import Tally, render_summary
from cuggino.output.terminal import open_display
from cuggino.project import Project
from cuggino.signals import Stage, Stop, owning_signals

_SAID = {
    Stage.INTERRUPT: "Stopping: the agent has 5 s to end. Ctrl+C once more kills it now.",
    Stage.KILL: "Killing what is left.",
}


async def in_foreground(project: Project, name: str, work: Callable[[Desk], Awaitable[int]], *, as_json: bool) -> int:
    """Do the work of the command `name` in a project; returns its exit code.

    Raises as `open_desk`. A signal cancels the work; then the code is 128 and the signal's number. However it
    ends, no process that it started is alive.
    """
    with open_display(as_json=as_json) as display:

        async def tell(stage: Stage) -> None:
            await display.warn(_SAID[stage])

        stop = Stop()
        tally = Tally()
        code = 1
        started = trio.current_time()
        async with owning_signals(stop, tell):
            with stop.interrupted:
                async with open_desk(project, f"cuggino {name}", display, tally, stop.hurry) as desk:
                    code = await work(desk)
            summary = tally.summary(seconds=trio.current_time() - started)
            await display.say(lambda page: render_summary(summary, page))
        return code if stop.signal is None else 128 + stop.signal
