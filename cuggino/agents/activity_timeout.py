"""A scope around an agent, whose deadline moves with what the agent does."""

from __future__ import annotations

import math

import msgspec
import trio

from cuggino.agents.retry import Overlong, Silent
from cuggino.config import Limits
from cuggino.events import Event, Send, ToolCall, ToolResult


class ActivityLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Maximum seconds without activity and in total, and the options that set them, for messages."""

    idle: float
    total: float
    idle_option: str = "limits.idleTimeout"
    total_option: str = "limits.agentTimeout"

    @classmethod
    def of(cls, limits: Limits) -> ActivityLimits:
        """The configured limits."""
        return cls(idle=limits.idle_timeout, total=limits.agent_timeout)


class ActivityTimeout:
    """Cancels its scope when the agent was silent for too long, or took too long.

    A tool that is still running is no silence. Nor is the time that whoever shows an event takes for it.
    """

    def __init__(self, limits: ActivityLimits, send: Send) -> None:
        self.scope = trio.CancelScope()
        self._limits = limits
        self._send = send
        self._ends = math.inf
        self._tools: set[str] = set()
        self._finishing = False

    def begin(self) -> None:
        self._ends = trio.current_time() + self._limits.total
        self._rearm()

    def finish_within(self, seconds: float) -> None:
        """The agent has said that it is finished: it has so long to end, silent or not."""
        if self.scope.cancel_called:
            return
        self._finishing = True
        self._ends = trio.current_time() + seconds

    async def pass_on(self, event: Event) -> None:
        """The agent did something: its event is sent on. Last words of one that is being stopped move no deadline."""
        if self.scope.cancel_called:
            await self._send(event)
            return
        if isinstance(event, ToolCall):
            self._tools.add(event.id)
        elif isinstance(event, ToolResult):
            self._tools.discard(event.id)
        self.scope.deadline = self._ends
        await self._send(event)
        self._rearm()

    def verdict(self) -> Silent | Overlong | None:
        """Why the scope was cancelled; None: not by this."""
        if not self.scope.cancelled_caught or trio.current_time() < self.scope.deadline:
            return None
        if trio.current_time() >= self._ends:
            return Overlong(self._limits.total, self._limits.total_option)
        return Silent(self._limits.idle, self._limits.idle_option)

    def _rearm(self) -> None:
        silent = math.inf if self._tools or self._finishing else trio.current_time() + self._limits.idle
        self.scope.deadline = min(self._ends, silent)
