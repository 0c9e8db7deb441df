"""`cuggino` as it is, but `ci watch` sleeps less long: `quick_ci.py SCALE ARGUMENTS`. The intervals are multiplied."""

from __future__ import annotations

import sys
from functools import partial

import trio

from cuggino import main
from cuggino.ci.watch import watch_pull
from cuggino.cli import ci


def shorten(scale: float) -> None:
    """The command line has no option for it, and shall have none."""

    async def sleep(seconds: float) -> None:
        await trio.sleep(seconds * scale)

    setattr(ci, "watch_pull", partial(watch_pull, sleep=sleep))  # noqa: B010 - a name of its module, for its one user


if __name__ == "__main__":
    shorten(float(sys.argv[1]))
    sys.exit(main.run(sys.argv[2:]))
