"""A command in a terminal: its signals, its output, its last words, its exit code."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import trio

from cuggino.desk import Desk, open_desk
from cuggino.loop.session import Session
from cuggino.output.page import Page
from cuggino.output.summary import Tally, render_summary
from cuggino.output.terminal import open_display
from cuggino.project import Project
from cuggino.signals import Stage, Stop, owning_signals

_SAID = {
    Stage.DRAIN: "Stopping when the running work is done. Ctrl+C once more interrupts it.",
    Stage.INTERRUPT: "Stopping: the agent has 5 s to end. Ctrl+C once more kills it now.",
    Stage.KILL: "Killing what is left.",
}


async def in_foreground(
    project: Project,
    name: str,
    work: Callable[[Desk, Stop], Awaitable[int]],
    *,
    as_json: bool,
    drains: bool = False,
    beside: Path | None = None,
    last_words: Callable[[Page], Sequence[str]] | None = None,
) -> int:
    """Do the work of the command `name` in a project; returns its exit code.

    Raises as `open_desk`, which `beside` is for. When all is over `last_words` are said, or else the loops' summary.
    A signal cancels the work; then the code is 128 and the signal's number. However it
    ends, no process that it started is alive.
    """
    with open_display(as_json=as_json) as display:

        async def tell(stage: Stage) -> None:
            await display.warn(_SAID[stage])

        stop = Stop(drains=drains)
        stop.tell = tell
        tally = Tally()
        code = 1
        unfinished: Session | None = None
        started = trio.current_time()
        async with owning_signals(stop):
            with stop.interrupted:
                async with open_desk(project, f"cuggino {name}", display, tally, stop.hurry, beside=beside) as desk:
                    try:
                        code = await work(desk, stop)
                    finally:
                        unfinished = desk.unfinished
            summary = tally.summary(seconds=trio.current_time() - started)
            await display.say(last_words or (lambda page: render_summary(summary, page)))
            if unfinished is not None:
                await display.warn(f"The session is kept. To go on with it: cuggino run --resume {unfinished.id}")
        if stop.signal is not None and stop.stage >= Stage.INTERRUPT:
            return 128 + stop.signal
        return code
