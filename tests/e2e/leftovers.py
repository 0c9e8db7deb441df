"""What is still alive of the programs that a test has started."""

from __future__ import annotations

import os
from pathlib import Path


def left(canary: str, folder: Path) -> list[str]:
    """The command lines of those that have the canary in their environment or arguments, that work in the folder or
    have a file in it open. Not this process."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes()
            if (
                int(process.name) != os.getpid()
                and _alive(process)
                and (canary.encode() in words + (process / "environ").read_bytes() or _is_in(folder, process))
            ):
                found.append(words.replace(b"\0", b" ").decode(errors="replace"))
        except OSError:  # it has ended meanwhile, or is somebody else's
            continue
    return found


def _alive(process: Path) -> bool:
    return (process / "stat").read_text().rpartition(")")[2].split()[0] != "Z"


def _is_in(folder: Path, process: Path) -> bool:
    inside = f"{folder}/"
    return any(f"{link.readlink()}/".startswith(inside) for link in (process / "cwd", *(process / "fd").iterdir()))
