"""`cuggino watch`: the loop over the backlog, for ever."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from cuggino.agents.backends import backend
from cuggino.errors import UsageError
from cuggino.foreground import in_foreground
from cuggino.project import Project
from cuggino.runtime import Invocation, Runtime
from cuggino.signals import Shutdown
from cuggino.watch import item
from cuggino.watch.item import Process
from cuggino.watch.watch import run_watch


async def watch(
    *,
    validate_every: int = 10,
    until_idle: Annotated[bool, Parameter(negative="", show_default=False)] = False,
    jobs: int = 1,
    json: Annotated[bool, Parameter(negative="", show_default=False)] = False,
) -> int:
    """Work through the backlog, and wait for more.

    Items are the files in `.cuggino/backlog/`, done in the order of their names; a finished one moves to
    `.cuggino/archive/`. A spec issue stops the work until a person has cleared it. Ctrl+C lets the running item
    finish; once more interrupts it, and a later watch goes on with it; a third time kills what is left.

    Example: cuggino watch --until-idle

    Parameters
    ----------
    validate_every
        Run `validateCommand` (or `checkCommand`) after so many finished items.
    until_idle
        End when nothing is ready, instead of waiting: 0; 4 with spec issues open; 1 with items set aside.
    jobs
        Items that are worked on at a time. With more than 1 each is done in a sandbox of its own and then merged.
    json
        One event a line on stdout, as in the log, and nothing else.
    """
    if validate_every < 1:
        raise UsageError(f"--validate-every {validate_every}: it must be 1 or more.")
    if jobs < 1:
        raise UsageError(f"--jobs {jobs}: it must be 1 or more.")

    async def work(runtime: Runtime, shutdown: Shutdown) -> int:
        process = item.process if jobs == 1 else await _apart(runtime)
        return await run_watch(
            runtime.context,
            shutdown,
            runtime.sender,
            every=validate_every,
            until_idle=until_idle,
            already_archived=runtime.archived_before,
            places=jobs,
            process=process,
        )

    return await in_foreground(Project.find(Path.cwd()), Invocation(name="cuggino watch", json=json, drains=True), work)


async def _apart(runtime: Runtime) -> Process:
    """Each item in a sandbox of its own."""
    from cuggino.watch.apart import Apart, sweep

    config = runtime.context.config
    children = runtime.children
    apart = Apart(
        runtime.context.project, config, children, lambda role: backend(config.backend(role)), dict(os.environ)
    )
    await sweep(runtime.context.project)
    return apart.process
