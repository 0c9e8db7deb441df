"""Ask the person in the terminal about one denied permission. Events are still shown meanwhile."""

from __future__ import annotations

import os
import sys

import trio

from cuggino.output.text import visible
from cuggino.spawn.context import Permission

_ANSWERS: dict[str, Permission] = {
    "a": "allow",
    "allow": "allow",
    "y": "allow",
    "yes": "allow",
    "d": "deny",
    "deny": "deny",
    "n": "deny",
    "no": "deny",
    "all": "allow all",
    "allow all": "allow all",
    "s": "stop",
    "stop": "stop",
}
_LINE = 1024


def has_terminal() -> bool:
    """Return whether stdin and stderr are terminals, so that a person can be asked."""
    return sys.stdin is not None and sys.stdin.isatty() and sys.stderr is not None and sys.stderr.isatty()


async def ask_person(question: str) -> Permission:
    """Ask until the answer is valid. The end of input counts as `stop`. Cancelled, it reads nothing more."""
    while True:
        print(f"\n{visible(question)}\n[a]llow, [d]eny, allow [all], [s]top: ", end="", file=sys.stderr, flush=True)
        await trio.lowlevel.wait_readable(sys.stdin.fileno())
        line = os.read(sys.stdin.fileno(), _LINE)  # a terminal delivers whole lines
        if not line:
            return "stop"
        answer = _ANSWERS.get(line.decode(errors="replace").strip().lower())
        if answer is not None:
            return answer
