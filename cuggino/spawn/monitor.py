"""What an agent has done so far, and whether it still does something.

The counting is a fold over events; the timeouts are deadlines of a scope, so that an agent is noticed that says
nothing at all.
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
"""Seconds between two ProgressUpdate at the least."""

LAST_LINES = 50
"""Lines of an agent's output that the report of a timeout shows."""

_READING = frozenset({"read", "glob", "grep", "read_file", "read_many_files", "search_file_content", "view", "list"})
_WRITING = frozenset({"write", "edit", "multiedit", "notebookedit", "write_file", "replace", "patch", "file_change"})
_COMMIT = re.compile(r"\bgit\b[^|;&\n]*\bcommit\b")


def advance(state: ProgressState, event: Event, at: datetime) -> ProgressState:
    """The state after one more event. Pure."""
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
    """Sees every event of a spawn's agent on its way. Its counts and the total time go on over all attempts."""

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
        """Another attempt: a scope for it, which ends when the agent is silent too long or the time is used up."""
        self.activity = self._begin()
        return self.activity.scope

    @property
    def timeout(self) -> events.SpawnStatus:
        """Which of the two timeouts ended the last attempt, or the pause after it."""
        return "idle-timeout" if isinstance(self.activity.verdict(), IdleTimeout) else "total-timeout"

    def pause(self) -> trio.CancelScope:
        """A scope for a wait between two attempts: it ends when the time is used up."""
        return trio.CancelScope(deadline=self._ends)

    async def see(self, event: Event) -> None:
        """The agent did something. A PingEvent says only that it lives."""
        self.state = advance(self.state, event, self._now())
        match event:
            case events.AgentMessage():
                self._last += event.text.splitlines()
            case events.ToolCall():
                self._last.append(f"▶ {event.name}")
            case events.ToolResult():
                self._last += event.output.splitlines()[-LAST_LINES:]
        if self.activity.scope.cancel_called:  # its last words, while it is being stopped: they move no deadline
            await self._send(event)
        else:
            await self.activity.pass_on(event)
        if trio.current_time() >= self._updated + UPDATES:
            self._updated = trio.current_time()
            await self._send(ProgressUpdate(state=self.state))

    async def tell(self, event: Event) -> None:
        """An event of ours that counts."""
        self.state = advance(self.state, event, self.state.last_activity)
        await self._send(event)

    def _begin(self) -> ActivityTimeout:
        left = max(self._ends - trio.current_time(), 0.001)
        activity = ActivityTimeout(ActivityLimits(idle=self._idle, total=left), self._send)
        activity.begin()
        return activity
