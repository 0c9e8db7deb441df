"""What is left of a program that has ended, in words for people: its status, and the end of its stderr."""

from __future__ import annotations

import signal

_LINES, _WIDTH = 10, 300


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
