"""`cuggino status`: what is running, and what is left to do."""

from __future__ import annotations

from typing import Annotated

import msgspec
from cyclopts import Parameter

from cuggino.history.pages import render_status
from cuggino.history.status import gather
from cuggino.output.terminal import open_display
from cuggino.trust import find_project


async def status(*, json: Annotated[bool, Parameter(negative="", show_default=False)] = False) -> int:
    """Show what is running here, on what, since when and at what cost; and what is left to do.

    It only reads, so it works while a watch runs, and in a directory where cuggino never ran.

    Example: cuggino status --json

    Parameters
    ----------
    json
        Print one JSON object.
    """
    found = gather(find_project())
    with open_display(as_json=json, live=False) as display:
        await display.print(lambda page: render_status(found, page))
        await display.show((), msgspec.json.encode(found) + b"\n")
    return 0
