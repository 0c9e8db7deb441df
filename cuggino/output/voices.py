"""Whose lines these are, while several loops speak at the same time."""

from __future__ import annotations

from pathlib import PurePath

from cuggino.events import LogLine, LoopStart, LoopTerminalEvent
from cuggino.output.text import columns, shorten, visible_name

LONGEST = 16
"""Columns of a name."""


class Voices:
    """Sees every line in order. A loop speaks from its LoopStart to its last event."""

    def __init__(self) -> None:
        self._speaking: dict[str, str] = {}

    def name(self, line: LogLine) -> str:
        """What goes before the lines that show this one: the name of its item; empty while only one loop speaks."""
        session = line.session or ""
        if isinstance(line.event, LoopStart):
            event = line.event
            name = PurePath(event.backlog_file).stem if event.backlog_file is not None else event.focus
            self._speaking[session] = shorten(visible_name(name), LONGEST)
        several = len(self._speaking) > 1
        name = self._speaking.get(session, "") if several else ""
        if isinstance(line.event, LoopTerminalEvent):
            self._speaking.pop(session, None)
        if not name:
            return ""
        widest = max(columns(each) for each in (*self._speaking.values(), name))
        return f"{name}{' ' * (widest - columns(name))} │ "
