"""`cuggino demo`: the whole loop, without a key or a network."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from cuggino.demo.demo import run_demo


async def demo(*, json: Annotated[bool, Parameter(negative="", show_default=False)] = False) -> int:
    """Work through a small sample project, to see what cuggino does.

    Makes a git repository with a specification and two backlog items in a temporary directory, and runs the loop over
    them, with real processes, files and commits. Only the agent is a script: no key, no network, no cost.

    Example: cuggino demo

    Parameters
    ----------
    json
        Print events as JSON lines, as in the log, and nothing else.
    """
    return await run_demo(json=json)
