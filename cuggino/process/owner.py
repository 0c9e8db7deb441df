"""Whether a process that was written down is still the same one: pids are used again, start times are not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from cuggino.process import keeper


def start_time(pid: int) -> str | None:
    """When the process with this pid started, as a text that only this process ever has; None: there is none.

    On Linux it is the boot's id and the clock ticks since then, so it holds over a reboot. A process that has
    ended, though its parent has not collected it yet, is none.
    """
    return _from_proc(pid) if sys.platform == "linux" else _from_ps(pid)


def _from_proc(pid: int) -> str | None:
    found = keeper.entry(pid)
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
