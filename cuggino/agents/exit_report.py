"""Reporting how a program exited, and the files of its output."""

from __future__ import annotations

import signal
from pathlib import Path

_LINES, _WIDTH = 10, 300


def stderr_beside(output: Path) -> Path:
    """Return where stderr goes if stdout goes to `output`."""
    return output.with_name(f"{output.name}.err")


def delete_output(output: Path) -> None:
    """Delete both files of a program's output, which may contain secrets."""
    for path in (output, stderr_beside(output)):
        path.unlink(missing_ok=True)


def describe_exit(exit_status: int) -> str:
    """Return `exit status 1`, `killed by SIGKILL`, or `exit status 143, SIGTERM`."""
    if exit_status < 0:
        return f"killed by {_signal_name(-exit_status)}"
    if exit_status > 128 and (name := _signal_name(exit_status - 128)).startswith("SIG"):
        return f"exit status {exit_status}, {name}"
    return f"exit status {exit_status}"


def last_lines(stderr: str) -> str:
    """Return the last lines, each cut: a program that breaks may print its whole source as one line."""
    lines = stderr.strip().splitlines()[-_LINES:]
    return "\n".join(line if len(line) <= _WIDTH else f"{line[:_WIDTH]}…" for line in lines)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
