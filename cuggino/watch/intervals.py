"""How long a watch waits for what. The command line has no options for these times; tests pass shorter ones."""

from __future__ import annotations

import msgspec


class WatchIntervals(msgspec.Struct, frozen=True, kw_only=True):
    """Times in seconds. The defaults are the specified ones."""

    debounce: float = 30.0
    """From a folder's last change until it is counted."""
    longest_debounce: float = 300.0
    """From a folder's first change until it is counted, however often it changes meanwhile."""
    recount: float = 60.0
    """Between two counts of folders in which nothing was noticed."""
    idle_report: float = 300.0
    """Between two `WatchIdle` events."""
    item_retries: tuple[float, ...] = (30.0, 60.0)
    """Before each retry of a failed item. After the last retry the item is blocked."""
    provider_pauses: tuple[float, ...] = (30.0, 60.0, 120.0, 240.0, 300.0)
    """Before a provider that is down is asked again. The last pause repeats."""
    merge_retry: float = 60.0
    """Before a merge that a person's uncommitted changes prevent is tried again."""
