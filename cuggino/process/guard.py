"""The program that guards a child without a keeper: every process with the child's mark ends with cuggino.

It runs as `python -P -m cuggino.process.guard MARK`, in a session of its own, with a pipe from cuggino as its input.
End of file means that the child has exited or that cuggino died, even by `kill -9`. Then the guard kills every process
with the mark, and its descendants, as a keeper does, and exits with 0.

It is weaker than a keeper, which also reaps its tree: a process that emptied its environment *and* lost its parent is
not found.
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
