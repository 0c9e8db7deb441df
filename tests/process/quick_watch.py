"""`cuggino` as it is, but with a watch that waits less long: `quick_watch.py INTERVALS ARGUMENTS`.

INTERVALS is a JSON object of those that are to be others than here. All are in seconds.
"""

from __future__ import annotations

import sys
from functools import partial

import msgspec

from cuggino import main
from cuggino.watch import apart, counting, item, watch


class Intervals(msgspec.Struct, forbid_unknown_fields=True):
    debounce: float = 0.1
    longest: float = 1.0
    recount: float = 0.5
    retries: tuple[float, ...] = (0.05, 0.1)
    provider: float = 0.1
    """Between two questions to a provider that is down."""
    in_the_way: float = 60.0


def shorten(intervals: Intervals) -> None:
    """The command line has no options for these, and shall have none."""
    quicker = partial(
        counting.watch_file_counts,
        debounce=intervals.debounce,
        longest=intervals.longest,
        recount=intervals.recount,
    )
    setattr(watch, "watch_file_counts", quicker)  # noqa: B010 - a name of its module, for its one user
    setattr(item, "RETRIES", intervals.retries)  # noqa: B010
    setattr(apart, "IN_THE_WAY", intervals.in_the_way)  # noqa: B010
    setattr(item, "PROVIDER_PAUSES", (intervals.provider,))  # noqa: B010


if __name__ == "__main__":
    shorten(msgspec.json.decode(sys.argv[1], type=Intervals))
    sys.exit(main.run(sys.argv[2:]))
