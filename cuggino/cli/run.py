"""`cuggino run`: one loop over one focus."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from cuggino.cli.completion import sessions
from cuggino.errors import UsageError
from cuggino.foreground import in_foreground
from cuggino.loop.session import Session, find_session
from cuggino.runtime import Invocation, Runtime
from cuggino.signals import Shutdown
from cuggino.trust import find_project


async def run(
    *,
    focus: Annotated[str | None, Parameter(name=["--focus", "-f"], allow_leading_hyphen=True)] = None,
    review: Path | None = None,
    resume: Annotated[str | bool | None, Parameter(negative="", completer=sessions)] = None,
    json: Annotated[bool, Parameter(negative="", show_default=False)] = False,
) -> int:
    """Plan, implement and review one focus until the code matches the specs.

    Agents work in the project's own working tree, without asking for permissions. Settings come from `.cuggino.json`.
    Ctrl+C stops the agent and keeps the session, which `--resume` continues.

    Example: cuggino run --focus "the CSV export, see .specs/export.md"

    Parameters
    ----------
    focus
        What to work on; agents read a file that is given as `@path`.
    review
        File with your own code review, for the first planner.
    resume
        Resume an interrupted or failed session: the latest, or the one whose ID starts with this.
    json
        Print events as JSON lines, as in the log, and nothing else.
    """
    if resume not in (None, False) and (focus is not None or review is not None):
        raise UsageError(
            "--resume cannot be combined with --focus or --review.", advice="The session has its own focus."
        )
    if resume in (None, False) and not (focus or "").strip():
        raise UsageError("The focus is missing.", advice='Say what to work on: cuggino run --focus "…"')
    words = _read(review) if review is not None else None
    project = find_project()

    async def work(runtime: Runtime, _shutdown: Shutdown) -> int:
        if resume not in (None, False):
            return await runtime.run(find_session(project, resume if isinstance(resume, str) and resume else None))
        return await runtime.run(Session.create(project, focus or "", review=words))

    return await in_foreground(project, Invocation(name="cuggino run", json=json), work)


def _read(review: Path) -> str:
    try:
        return review.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"The review {review} cannot be read: {error}") from error
