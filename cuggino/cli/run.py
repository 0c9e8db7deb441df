"""`cuggino run`: one loop over one focus."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from cuggino.cli.completion import sessions
from cuggino.errors import UsageError
from cuggino.foreground import in_foreground
from cuggino.loop.session import Session, find_session
from cuggino.project import Project
from cuggino.runtime import Invocation, Runtime
from cuggino.signals import Shutdown
from cuggino.trust import find_project


async def run(
    words: Annotated[str | None, Parameter(name="FOCUS")] = None,
    /,
    *,
    focus: Annotated[str | None, Parameter(name=["--focus", "-f"], allow_leading_hyphen=True)] = None,
    review: Path | None = None,
    resume: Annotated[str | bool | None, Parameter(negative="", completer=sessions)] = None,
    json: Annotated[bool, Parameter(negative="", show_default=False)] = False,
) -> int:
    """Plan, implement and review one focus until the code matches the specs.

    Agents work in the project's own working tree, without asking for permissions. Settings come from `.cuggino.json`.
    Ctrl+C stops the agent and keeps the session, which `--resume` continues.

    Example: cuggino run "the CSV export, see .specs/export.md"

    Parameters
    ----------
    words
        What to work on; agents read a file that is given as `@path`.
    focus
        The same, as an option: for a text that starts with a dash.
    review
        File with your own code review, for the first planner.
    resume
        Resume an interrupted or failed session: the latest, or the one whose ID starts with this.
    json
        Print events as JSON lines, as in the log, and nothing else.
    """
    if words is not None and focus is not None:
        raise UsageError("The focus is there twice.", advice="Give it either as an argument or with --focus.")
    focus = words if focus is None else focus
    if resume not in (None, False) and (focus is not None or review is not None):
        raise UsageError(
            "--resume cannot be combined with a focus or --review.", advice="The session has its own focus."
        )
    if resume in (None, False) and not (focus or "").strip():
        raise UsageError("The focus is missing.", advice='Say what to work on: cuggino run "…"')
    own_review = _read(review) if review is not None else None
    project = find_project()
    _check_file(focus or "", project)

    async def work(runtime: Runtime, _shutdown: Shutdown) -> int:
        if resume not in (None, False):
            return await runtime.run(find_session(project, resume if isinstance(resume, str) and resume else None))
        return await runtime.run(Session.create(project, focus or "", review=own_review))

    return await in_foreground(project, Invocation(name="cuggino run", json=json), work)


def _check_file(focus: str, project: Project) -> None:
    """Raise UsageError if the focus starts with `@path` and there is no such file for the agents to read.

    An @ elsewhere may be part of the text: a decorator, a person, an npm package.
    """
    text = focus.strip()
    if not text.startswith("@"):
        return
    first = text.split()[0]
    named = first[1:].rstrip(".,:;")
    names = [name for name in (text[1:], first[1:], named) if name]
    if not any(os.path.exists(project.root / name) for name in names):  # noqa: PTH110 - Path.exists raises for long names
        raise UsageError(
            f"The focus is in {named or '@'}, which does not exist in {project.root}.",
            advice="Agents read `@path` from there. Correct the path, or write the focus itself.",
        )


def _read(review: Path) -> str:
    try:
        return review.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"The review {review} cannot be read: {error}") from error
