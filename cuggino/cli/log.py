"""`cuggino log`: past sessions."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from cuggino.history.replay import list_sessions, replay
from cuggino.trust import find_project


async def log(
    session: str | None = None,
    /,
    *,
    follow: Annotated[bool, Parameter(negative="", show_default=False)] = False,
    json: Annotated[bool, Parameter(negative="", show_default=False)] = False,
) -> int:
    """List past sessions, latest first, or replay one as it was shown when it ran.

    Example: cuggino log 01a20036-613d

    Parameters
    ----------
    session
        The ID of a session or of a log (a file in `.cuggino/logs/`), or the beginning of one.
    follow
        Continue while it grows, until the command that writes it has ended. Without SESSION: the whole latest log.
    json
        Print the lines of the log; without SESSION, one JSON object per session.
    """
    project = find_project()
    if session is None and not follow:
        return await list_sessions(project, as_json=json)
    return await replay(project, session, follow=follow, as_json=json)
