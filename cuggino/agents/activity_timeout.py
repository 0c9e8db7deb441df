"""A scope around an agent whose deadline moves with the agent's activity."""

from __future__ import annotations

import math

import msgspec
import trio

from cuggino.agents.retry import IdleTimeout, TotalTimeout
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
        """Return the configured limits."""
        return cls(idle=limits.idle_timeout, total=limits.agent_timeout)


class ActivityTimeout:
    """Cancels `scope` when the agent was idle for too long, or took too long in total.

    Every event counts as activity, pings and results of tools included: the idle limit is counted from the moment at
    which the last event was sent. It is suspended while a tool is running, which is from its ToolCall to the ToolResult
    of the same ID, and while an event is being sent: a slow receiver is not the agent's idleness. The total limit is
    counted from `begin` and never suspended. After `finish_within` only the given time counts.
    """

    def __init__(self, limits: ActivityLimits, send: Send) -> None:
        self.scope = trio.CancelScope()
        self._limits = limits
        self._send = send
        self._ends = math.inf
        self._tools: set[str] = set()
        self._finishing = False

    def begin(self) -> None:
        """Start counting: the agent is about to be started."""
        self._ends = trio.current_time() + self._limits.total
        self._rearm()

    def finish_within(self, seconds: float) -> None:
        """Replace both limits from the next event on: the agent is finished, and has `seconds` to exit."""
        if self.scope.cancel_called:
            return
        self._finishing = True
        self._ends = trio.current_time() + seconds

    async def pass_on(self, event: Event) -> None:
        """Send an event of the agent, which counts as activity. Once the scope is cancelled, no deadline moves."""
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

    def verdict(self) -> IdleTimeout | TotalTimeout | None:
        """Return which limit cancelled the scope; None if none did."""
        if not self.scope.cancelled_caught or trio.current_time() < self.scope.deadline:
            return None
        if trio.current_time() >= self._ends:
            return TotalTimeout(self._limits.total, self._limits.total_option)
        return IdleTimeout(self._limits.idle, self._limits.idle_option)

    def _rearm(self) -> None:
        suspended = self._tools or self._finishing
        idle = math.inf if suspended else trio.current_time() + self._limits.idle
        self.scope.deadline = min(self._ends, idle)
