"""`cuggino status`: what is running, and what is left to do."""

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
    """Show what is running here, on what, since when and at what cost; and what is left to do.

    It only reads, so it works while a watch runs, and in a directory where cuggino never ran.

    Example: cuggino status --json

    Parameters
    ----------
    json
        Print one JSON object.
    """
    found = gather(Project.find(Path.cwd()))
    with open_display(as_json=json, live=False) as display:
        await display.print(lambda page: render_status(found, page))
        await display.show((), msgspec.json.encode(found) + b"\n")
    return 0
