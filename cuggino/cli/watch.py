"""`cuggino watch`: work through the backlog."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from cuggino.cli.arguments import integer
from cuggino.errors import UsageError
from cuggino.foreground import in_foreground
from cuggino.runtime import Invocation, Runtime
from cuggino.signals import Shutdown
from cuggino.trust import find_project
from cuggino.watch.intervals import WatchIntervals
from cuggino.watch.places import open_place
from cuggino.watch.watch import WatchOptions, run_watch


async def watch(
    *,
    validate_every: Annotated[int, Parameter(converter=integer)] = 10,
    until_idle: Annotated[bool, Parameter(negative="", show_default=False)] = False,
    jobs: Annotated[int, Parameter(converter=integer)] = 1,
    json: Annotated[bool, Parameter(negative="", show_default=False)] = False,
    intervals: Annotated[WatchIntervals, Parameter(parse=False)] = WatchIntervals(),  # noqa: B008 - frozen
) -> int:
    """Work through the backlog, and wait for more.

    Items are the files in `.cuggino/backlog/`, in the order of their names; finished ones move to `.cuggino/archive/`.
    A spec issue stops the work until you have resolved it. The first Ctrl+C lets the running item finish, the second
    interrupts it (a later watch resumes it), the third kills all processes.

    Example: cuggino watch --until-idle

    Parameters
    ----------
    validate_every
        Number of finished items after which `validateCommand` (or `checkCommand`) runs.
    until_idle
        Exit instead of waiting when nothing is ready: with 4 if there are spec issues, with 1 if items are set aside,
        or else with 0.
    jobs
        Number of items to work on at a time; if more than 1, each in a sandbox of its own that is then merged.
    json
        Print events as JSON lines, as in the log, and nothing else.
    """
    if validate_every < 1:
        raise UsageError(f"--validate-every: expected an integer ≥ 1, got {validate_every}.")
    if jobs < 1:
        raise UsageError(f"--jobs: expected an integer ≥ 1, got {jobs}.")

    async def work(runtime: Runtime, shutdown: Shutdown) -> int:
        options = WatchOptions(
            every=validate_every,
            until_idle=until_idle,
            jobs=jobs,
            already_archived=runtime.archived_before,
            intervals=intervals,
        )
        place = open_place(jobs, runtime.sandboxes, intervals)
        return await run_watch(runtime.context, shutdown, runtime.sender, place, options)

    return await in_foreground(find_project(), Invocation(name="cuggino watch", json=json, drains=True), work)
