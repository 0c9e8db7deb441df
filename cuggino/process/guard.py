"""The program that watches over a child without a keeper: whatever carries the child's mark ends with cuggino.

It is run as `python -P -m cuggino.process.guard MARK`, in a session of its own, with a pipe from cuggino as its
input. The end of that pipe means that the child has exited, or that cuggino died, `kill -9` included. Then
every process that carries the mark is killed, and its descendants, as a keeper does it, and the guard ends with 0.

Weaker than a keeper, which is also the reaper of its tree: what emptied its environment *and* lost its parent
is not found.
"""

from __future__ import annotations

import os
import signal
import sys

from cuggino.process.keeper import kill_all


def main(mark: str) -> int:
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    while os.read(0, 64):
        pass
    kill_all(mark.encode(), None, lambda: False)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
