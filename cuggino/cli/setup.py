"""`cuggino setup`: a project from the answers to a few questions."""

from __future__ import annotations

import contextlib
import signal
import sys
from typing import Annotated

from cyclopts import Parameter

from cuggino.errors import CugginoError, UsageError
from cuggino.setup.dialogue import set_up
from cuggino.signals import ctrl_c_raises
from cuggino.trust import find_project


def setup(
    *,
    yes: Annotated[bool, Parameter(negative="", show_default=False)] = False,
    assignments: Annotated[list[str] | None, Parameter(name="--set", negative="")] = None,
) -> int:
    """Write `.cuggino.json` and create the directories of a project, and nothing else.

    Asks for every setting, with its current value as the default, and writes after the last answer. The project is the
    nearest parent directory with a `.cuggino.json`, or else the current directory. If the file has errors, it is kept
    with the suffix `.bak`, and its correct settings stay.

    Example: cuggino setup --set commit=true --set limits.maxCostUsd=5

    Parameters
    ----------
    yes
        Ask nothing: keep all settings and defaults.
    assignments
        Setting as `key=value`, without questions; may be repeated. The value is JSON, or else a string; null restores
        the default.
    """
    asks = not yes and not assignments
    if asks and not _is_terminal():
        raise UsageError(
            "`cuggino setup` needs a terminal: stdin and stdout must be one.",
            advice="Accept the defaults with --yes, or name settings: cuggino setup --set commit=true",
        )
    try:
        set_up(find_project(), assignments or (), _ask if asks else None, print)
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    return 0


def _is_terminal() -> bool:
    streams = (sys.stdin, sys.stdout)  # each None if it was closed from the start
    return all(stream is not None and stream.isatty() for stream in streams)


def _ask(prompt: str) -> str:
    """Read a line from the terminal. Blocks the event loop: nothing else runs, and Ctrl+C only reaches this thread."""
    with contextlib.suppress(ImportError):  # without it, lines cannot be edited
        import readline  # noqa: F401
    try:
        with ctrl_c_raises():
            return input(prompt)
    except KeyboardInterrupt:
        print("\nNothing was written.", file=sys.stderr)
        raise
    except EOFError as error:
        print()
        raise CugginoError("The input ended early. Nothing was written.") from error
