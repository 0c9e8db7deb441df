"""What is left of a program that has ended: in words for people, and the files of its output."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import NamedTuple

from cuggino.errors import LlmSessionErrorKind

_LINES, _WIDTH = 10, 300


class Cause(NamedTuple):
    """Why a program failed, and what a person can do about it."""

    kind: LlmSessionErrorKind
    what: str
    advice: str = ""


def stderr_beside(output: Path) -> Path:
    """Where the stderr goes of a program whose stdout goes to `output`."""
    return output.with_name(f"{output.name}.err")


def delete_output(output: Path) -> None:
    """Remove what a program has printed, both files: it may hold secrets."""
    for path in (output, stderr_beside(output)):
        path.unlink(missing_ok=True)


def describe_exit(exit_status: int) -> str:
    """`exit status 1`; `killed by SIGKILL`; `exit status 143, SIGTERM`."""
    if exit_status < 0:
        return f"killed by {_signal_name(-exit_status)}"
    if exit_status > 128 and (name := _signal_name(exit_status - 128)).startswith("SIG"):
        return f"exit status {exit_status}, {name}"
    return f"exit status {exit_status}"


def last_lines(stderr: str) -> str:
    """The last lines; cut, since a program that breaks may print its source, on one line."""
    lines = stderr.strip().splitlines()[-_LINES:]
    return "\n".join(line if len(line) <= _WIDTH else f"{line[:_WIDTH]}…" for line in lines)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
