"""A failed job's log, cut down to what tells why: an agent reads it whole, and logs have no end."""

from __future__ import annotations

import re

_LINES = 600
_BEFORE, _AFTER = 60, 10
"""Lines around each that GitHub has marked as an error."""
_WIDTH = 2000
_TIME = re.compile(r"^\ufeff?\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z ?")
_COLOURS = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)")
_ERROR = "##[error]"


def trimmed(log: bytes) -> str:
    """Without time stamps and colours: what is around errors, and the end, at most some hundred lines."""
    text = log.decode(errors="replace").replace("\r\n", "\n")
    lines = [_COLOURS.sub("", _TIME.sub("", line))[:_WIDTH] for line in text.split("\n")]
    while lines and not lines[-1].strip():
        lines.pop()
    if len(lines) <= _LINES:
        return "\n".join(lines)
    wanted: set[int] = set()
    for place, line in enumerate(lines):
        if line.startswith(_ERROR) and len(wanted) < _LINES // 2:
            wanted |= set(range(max(0, place - _BEFORE), min(len(lines), place + _AFTER)))
    wanted |= set(range(len(lines) - (_LINES - min(len(wanted), _LINES // 2)), len(lines)))
    shown: list[str] = []
    before = -1
    for place in sorted(wanted):
        if place > before + 1:
            shown.append(f"[… {place - before - 1} lines are left out]")
        shown.append(lines[place])
        before = place
    return "\n".join(shown)
