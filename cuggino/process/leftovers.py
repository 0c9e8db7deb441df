"""Processes that outlived their keeper or their cuggino: recognize one that was recorded, and kill what is left.

Every child's environment has a variable that only its process tree has, `CUGGINO_RUN_<marker>_<n>`. One name for all
would not do, since a cuggino that an agent runs would overwrite it.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from cuggino.process import keeper


def start_time(pid: int) -> str | None:
    """Return when this process started, as a text unique to it; None if there is none, or it has exited.

    A PID is reused, a start time is not. On Linux it is the boot ID and the clock ticks since then, which stay unique
    over a reboot.
    """
    return _from_proc(pid) if sys.platform == "linux" else _from_ps(pid)


def _from_proc(pid: int) -> str | None:
    found = keeper.read_entry(pid)
    if found is None or found.ended:
        return None
    boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return f"{boot} {found.started}"


def _from_ps(pid: int) -> str | None:
    listed = subprocess.run(
        ["ps", "-o", "stat=,lstart=", "-p", str(pid)],
        capture_output=True,
        check=False,
        env={"PATH": "/bin:/usr/bin", "LC_ALL": "C", "TZ": "UTC"},
        text=True,
    )
    state, _, started = listed.stdout.strip().partition(" ")
    return started.strip() if started and not state.startswith("Z") else None


def marker_prefix(marker: str) -> str:
    """Return the start of the variable names that children of this marker have in their environment.

    A dash becomes an underscore: `dash` drops variables whose names a shell does not allow.
    """
    if not re.fullmatch(r"[A-Za-z0-9_-]+", marker):
        raise ValueError(f"a marker has letters, digits, dashes and underscores only, got {marker!r}")
    return f"CUGGINO_RUN_{marker.replace('-', '_')}_"


def sweep(marker: str, *, seconds: float = keeper.SWEEP_SECONDS) -> int:
    """Kill every process of this user that a child of `marker` started, with its descendants; return how many.

    Block until two passes in a row found none, for at most `seconds`. Never kill this process or its ancestors.
    Call it only when the marker's owner is dead. Do nothing on macOS, which has no /proc.
    """
    return sweep_mark(marker_prefix(marker).encode(), seconds)


def sweep_mark(mark: bytes, seconds: float = keeper.SWEEP_SECONDS) -> int:
    """Do the same for processes with an environment item that starts with `mark`."""
    return keeper.kill_all(mark, None, lambda: False, seconds)
