"""`cuggino doctor`: what is missing on this machine and how to fix it."""

from __future__ import annotations

import os
from typing import Annotated

import msgspec
from cyclopts import Parameter

from cuggino.doctor.examine import examine
from cuggino.doctor.finding import render
from cuggino.output.terminal import open_display
from cuggino.trust import find_project


async def doctor(*, json: Annotated[bool, Parameter(negative="", show_default=False)] = False) -> int:
    """Check everything that cuggino needs, and say how to fix what is missing.

    Python, git, the configured agents and their logins, the configuration, the project's directory, file watching,
    processes. Changes nothing, does not use the network, and takes up to two seconds. Exits with 1 if a check failed.

    Example: cuggino doctor

    Parameters
    ----------
    json
        Print one JSON object: `healthy`, and `findings` with name, level, text and fix.
    """
    report = await examine(find_project(), os.environ)
    if json:
        print(msgspec.json.encode(report).decode())
    else:
        with open_display(as_json=False) as display:
            await display.print(lambda page: render(report, page))
    return 0 if report.healthy else 1
