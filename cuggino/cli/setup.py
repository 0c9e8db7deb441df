"""`cuggino setup`: answers a few questions, and a project is there."""

from __future__ import annotations

import contextlib
import signal
import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from cuggino.errors import CugginoError, UsageError
from cuggino.project import Project
from cuggino.setup.dialogue import set_up


def setup(
    *,
    yes: Annotated[bool, Parameter(negative="", show_default=False)] = False,
    assignments: Annotated[list[str] | None, Parameter(name="--set", negative="")] = None,
) -> int:
    """Write `.cuggino.json` and make the folders of a project, and nothing else.

    Asks for every setting, with its current value to keep, and writes when all are answered. A project is the
    nearest folder upward with a `.cuggino.json`, else the current folder becomes one. A file that is broken is
    shown with its errors and kept, its name ending in `.bak`; what is right in it stays.

    Example: cuggino setup --set commit=true --set limits.maxCostUsd=5

    Parameters
    ----------
    yes
        Ask nothing: keep what is set, and the defaults.
    assignments
        Ask nothing and set this, as `key=value`; may be repeated. The value is JSON, else a text; null goes back to
        the default.
    """
    asks = not yes and not assignments
    if asks and not _is_terminal():
        raise UsageError(
            "There is no terminal to ask on.",
            advice="Take defaults with --yes, or set what you want: cuggino setup --set commit=true",
        )
    try:
        set_up(Project.find(Path.cwd()), assignments or (), _ask if asks else None, print)
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    return 0


def _is_terminal() -> bool:
    streams = (sys.stdin, sys.stdout)  # each None if it was closed from the start
    return all(stream is not None and stream.isatty() for stream in streams)


def _ask(prompt: str) -> str:
    """A line from the terminal. Blocks the event loop: nothing else runs, and Ctrl+C reaches no other thread."""
    with contextlib.suppress(ImportError):  # a Python without it reads lines that cannot be edited
        import readline  # noqa: F401
    try:
        return input(prompt)
    except KeyboardInterrupt:
        print("\nNothing was written.", file=sys.stderr)
        raise
    except EOFError as error:
        print()
        raise CugginoError("The answers ended early: nothing was written.") from error
