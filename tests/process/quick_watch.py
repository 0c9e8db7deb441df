"""`cuggino` with a watch that waits less: `quick_watch.py INTERVALS ARGUMENTS`.

INTERVALS is a JSON object of the `WatchIntervals` that are to differ from those below.
"""

from __future__ import annotations

import sys

import msgspec

from cuggino import main
from cuggino.watch.intervals import WatchIntervals

QUICK = WatchIntervals(
    debounce=0.1, longest_debounce=1.0, recount=0.5, item_retries=(0.05, 0.1), provider_pauses=(0.1,)
)

if __name__ == "__main__":
    intervals = msgspec.structs.replace(QUICK, **msgspec.json.decode(sys.argv[1]))
    sys.exit(main.run(sys.argv[2:], {"intervals": intervals}))
