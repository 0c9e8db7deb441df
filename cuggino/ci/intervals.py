"""How long a watch over a pull request waits between two polls."""

from __future__ import annotations

import math

import msgspec


class CiIntervals(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds between polls: `first` at the start, then from `shortest` to `longest`, growing by `step`."""

    first: int = 60
    shortest: int = 30
    longest: int = 300
    step: int = 30
    scale: float = 1.0
    """Every wait is multiplied by it, whatever GitHub asks for: tests with real processes wait less."""

    def next(self, interval: int, *, busy: bool, limited: float | None) -> int:
        """Return the seconds until the next poll, unscaled.

        `busy`: the iteration handled something. `limited`: GitHub accepts no request for this many seconds.
        """
        if limited is not None:
            return max(self.longest, math.ceil(limited))
        if busy:
            return max(self.shortest, min(interval, self.longest) // 2)
        return min(self.longest, max(interval, self.shortest) + self.step)


DEFAULT = CiIntervals()
