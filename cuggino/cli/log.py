"""`cuggino log`: what happened."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from cuggino.history.replay import list_sessions, show_again
from cuggino.project import Project


async def log(
    session: str | None = None,
    /,
    *,
    follow: Annotated[bool, Parameter(negative="", show_default=False)] = False,
    json: Annotated[bool, Parameter(negative="", show_default=False)] = False,
) -> int:
    """List past sessions, the newest first, or show one again as it was shown when it ran.

    Example: cuggino log 01a20036-613d

    Parameters
    ----------
    session
        A session's id, or a log's (the name of its file in `.cuggino/logs/`), or the beginning of one.
    follow
        Go on as it grows, until the command that writes it has ended. Without SESSION: all of the newest log.
    json
        Its lines as they are in the log; without SESSION one JSON object a session.
    """
    project = Project.find(Path.cwd())
    if session is None and not follow:
        return await list_sessions(project, as_json=json)
    return await show_again(project, session, follow=follow, as_json=json)
