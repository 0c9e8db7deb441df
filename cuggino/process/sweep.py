"""Ending what survived its keeper: after `kill -9` of a keeper, and at the next start after one of cuggino.

Every child's environment has a name that is only its own, `CUGGINO_RUN_<marker>_<n>`; whatever a child
starts inherits it. One name for all would not do: a cuggino that an agent runs would overwrite it.
"""

from __future__ import annotations

import re

from cuggino.process import keeper


def variable(marker: str) -> str:
    """How the names begin that the children of this marker have in their environment.

    A dash in a marker becomes an underscore: `dash` drops names from the environment that are not names to a shell.
    """
    if not re.fullmatch(r"[A-Za-z0-9_-]+", marker):
        raise ValueError(f"a marker is letters, digits, dashes and underscores, not {marker!r}")
    return f"CUGGINO_RUN_{marker.replace('-', '_')}_"


def sweep(marker: str, *, seconds: float = keeper.SWEEP_SECONDS) -> int:
    """SIGKILL every process of this user that a child of `marker` started, and its descendants; returns how many.

    Blocks until two passes in a row found none, for at most `seconds`. Never ends this process or one above
    it. The caller knows that the marker's owner is dead. Does nothing on macOS, where there is no /proc.
    """
    return sweep_mark(variable(marker).encode(), seconds)


def sweep_mark(mark: bytes, seconds: float = keeper.SWEEP_SECONDS) -> int:
    """The same for those whose environment has an item that begins with `mark`."""
    return keeper.kill_all(mark, None, lambda: False, seconds)
