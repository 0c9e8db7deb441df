"""`cuggino`, with a `ci watch` that waits less: `quick_ci.py SCALE ARGUMENTS`. All waits are multiplied by SCALE."""

from __future__ import annotations

import sys
from functools import partial

from cuggino import main
from cuggino.ci.intervals import CiIntervals
from cuggino.ci.watch import watch_pull_request
from cuggino.cli import ci

if __name__ == "__main__":
    intervals = CiIntervals(scale=float(sys.argv[1]))
    # the command line has no option for it
    setattr(ci, "watch_pull_request", partial(watch_pull_request, intervals=intervals))  # noqa: B010
    sys.exit(main.run(sys.argv[2:]))
