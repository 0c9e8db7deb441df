"""Count what an agent does, and stop it at its timeouts.

Counting is a fold over events. The timeouts are deadlines of a cancel scope, so an agent that prints nothing at all is
stopped, too.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable
from datetime import datetime

import msgspec
import trio

from cuggino import events
from cuggino.agents.activity_timeout import ActivityLimits, ActivityTimeout
from cuggino.agents.retry import IdleTimeout
from cuggino.events import Event, ProgressState, ProgressUpdate, Send

UPDATES = 5.0
"""Minimum seconds between two ProgressUpdate events."""

LAST_LINES = 50
"""How many lines of an agent's output the report of a timeout shows."""

_READING = frozenset({"read", "glob", "grep", "read_file", "read_many_files", "search_file_content", "view", "list"})
_WRITING = frozenset({"write", "edit", "multiedit", "notebookedit", "write_file", "replace", "patch", "file_change"})
_COMMIT = re.compile(r"\bgit\b[^|;&\n]*\bcommit\b")


def advance(state: ProgressState, event: Event, at: datetime) -> ProgressState:
    """Return the state after one more event. Pure."""
    changes: dict[str, object] = {"last_activity": at}
    match event:
        case events.ToolCall():
            name = event.name.lower()
            if name in _READING:
                changes["files_read"] = state.files_read + 1
            elif name in _WRITING:
                changes["files_written"] = state.files_written + 1
            elif _commits(event.input):
                changes["commits_made"] = state.commits_made + 1
        case events.ToolResult():
            changes["output_lines"] = state.output_lines + _lines(event.output)
            if event.is_error:
                changes["other_errors"] = state.other_errors + 1
        case events.AgentMessage():
            changes["output_lines"] = state.output_lines + _lines(event.text)
        case events.PermissionError():  # its tool's result was counted as an error before
            changes["permission_errors"] = state.permission_errors + 1
            changes["other_errors"] = max(0, state.other_errors - 1)
    return msgspec.structs.replace(state, **changes)


def _commits(tool_input: object) -> bool:
    command = tool_input.get("command") if isinstance(tool_input, dict) else tool_input
    return isinstance(command, str) and _COMMIT.search(command) is not None


def _lines(text: str) -> int:
    return len(text.splitlines())


class Monitor:
    """Passes on every event of a spawn's agent. Counts and total time continue across attempts."""

    def __init__(self, *, idle: float, total: float, now: Callable[[], datetime], send: Send) -> None:
        """`idle` and `total` in seconds."""
        self._idle = idle
        self._ends = trio.current_time() + total
        self._now = now
        self._send = send
        started = now()
        self.state = ProgressState(start_time=started, last_activity=started)
        self._updated = trio.current_time()
        self._last: deque[str] = deque(maxlen=LAST_LINES)
        self.activity = self._begin()

    @property
    def last_lines(self) -> tuple[str, ...]:
        return tuple(self._last)

    def begin(self) -> trio.CancelScope:
        """Return a scope for one attempt, which is cancelled when the agent is idle for too long or its time is up."""
        self.activity = self._begin()
        return self.activity.scope

    @property
    def timeout(self) -> events.SpawnStatus:
        """The timeout that ended the last attempt, or the pause after it."""
        return "idle-timeout" if isinstance(self.activity.verdict(), IdleTimeout) else "total-timeout"

    def pause(self) -> trio.CancelScope:
        """Return a scope for a wait between two attempts. It is cancelled when the time is used up."""
        return trio.CancelScope(deadline=self._ends)

    async def see(self, event: Event) -> None:
        """Count an event of the agent, and pass it on. A PingEvent only shows that the agent is alive."""
        self.state = advance(self.state, event, self._now())
        match event:
            case events.AgentMessage():
                self._last += event.text.splitlines()
            case events.ToolCall():
                self._last.append(f"▶ {event.name}")
            case events.ToolResult():
                self._last += event.output.splitlines()[-LAST_LINES:]
        if self.activity.scope.cancel_called:  # the agent is being stopped: too late to move the deadline
            await self._send(event)
        else:
            await self.activity.pass_on(event)
        if trio.current_time() >= self._updated + UPDATES:
            self._updated = trio.current_time()
            await self._send(ProgressUpdate(state=self.state))

    async def report(self, event: Event) -> None:
        """Count and send an event that is not the agent's own."""
        self.state = advance(self.state, event, self.state.last_activity)
        await self._send(event)

    def _begin(self) -> ActivityTimeout:
        left = max(self._ends - trio.current_time(), 0.001)
        activity = ActivityTimeout(ActivityLimits(idle=self._idle, total=left), self._send)
        activity.begin()
        return activity
