"""`cuggino doctor`: what is missing on this machine."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import msgspec
from cyclopts import Parameter

from cuggino.doctor.examine import examine
from cuggino.doctor.finding import render
from cuggino.output.terminal import open_display
from cuggino.project import Project


async def doctor(*, json: Annotated[bool, Parameter(negative="", show_default=False)] = False) -> int:
    """Look at everything that must be there to work, and say what mends it.

    Python, git, the configured agents and their logins, the configuration, the folder, file watching, processes.
    Changes nothing, asks nobody on the network, and takes two seconds at most. Ends with 1 if anything failed.

    Example: cuggino doctor

    Parameters
    ----------
    json
        One JSON object on stdout: `healthy`, and `findings` with name, level, text and fix.
    """
    report = await examine(Project.find(Path.cwd()), os.environ)
    if json:
        print(msgspec.json.encode(report).decode())
    else:
        with open_display(as_json=False) as display:
            await display.print(lambda page: render(report, page))
    return 0 if report.healthy else 1
