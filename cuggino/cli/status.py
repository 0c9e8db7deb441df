"""`cuggino status`: what is going on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
from cyclopts import Parameter

from cuggino.history.pages import render_status
from cuggino.history.status import gather
from cuggino.output.terminal import open_display
from cuggino.project import Project


async def status(*, json: Annotated[bool, Parameter(negative="", show_default=False)] = False) -> int:
    """Show what is going on here: what runs, on what, since when, at what cost; and what is to be done.

    Only reads: it works while a watch runs, and in a folder where cuggino never ran.

    Example: cuggino status --json

    Parameters
    ----------
    json
        One JSON object on stdout: the same for programs.
    """
    found = gather(Project.find(Path.cwd()))
    with open_display(as_json=json, live=False) as display:
        await display.print(lambda page: render_status(found, page))
        await display.show((), msgspec.json.encode(found) + b"\n")
    return 0
