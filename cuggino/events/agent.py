"""What agents do and say, and the base of all events."""

from __future__ import annotations

from typing import Any

import msgspec


class Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="_tag", tag=str, rename="camel"):
    """Something that happened. Never mutated, compared by value."""


# ---- what agents do ---------------------------------------------------------------------------


class LlmAgentEvent(Event, frozen=True, kw_only=True):
    """Said, done or spent by an agent."""


class SystemMessage(LlmAgentEvent, frozen=True, kw_only=True):
    """A word from the machinery: the agent's start, a retry of its own, a warning of ours."""

    text: str


class AgentMessage(LlmAgentEvent, frozen=True, kw_only=True):
    """Text that the agent wrote, markers taken out. Never empty."""

    text: str


class ToolCall(LlmAgentEvent, frozen=True, kw_only=True):
    """The agent uses a tool. `id` pairs it with its ToolResult."""

    id: str
    name: str
    input: Any = None


class ToolResult(LlmAgentEvent, frozen=True, kw_only=True):
    """What a tool gave back."""

    id: str
    output: str
    is_error: bool = False


class PingEvent(LlmAgentEvent, frozen=True, kw_only=True):
    """A sign of life, at most ten a second. The only event that the log leaves out."""


class UsageReport(LlmAgentEvent, frozen=True, kw_only=True):
    """What one run of an agent has used: tokens, and US dollars where the agent tells them."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_creation_tokens: int = 0
    cost_usd: float | None = None


# ---- markers ----------------------------------------------------------------------------------


class LlmMarkerEvent(Event, frozen=True, kw_only=True):
    """A tag in an agent's own text. `content` is trimmed."""

    content: str


class LlmTerminalMarkerEvent(LlmMarkerEvent, frozen=True, kw_only=True):
    """A marker by which an agent says that it is finished."""


class Note(LlmMarkerEvent, frozen=True, kw_only=True):
    """An observation or a choice."""


class ToBeDiscussed(LlmMarkerEvent, frozen=True, kw_only=True):
    """A finding of the audit that a person must judge."""


class SpecIssue(LlmTerminalMarkerEvent, frozen=True, kw_only=True):
    """The specs are unclear or contradict themselves."""


class PlanComplete(LlmTerminalMarkerEvent, frozen=True, kw_only=True):
    """The plan is written."""


class Progress(LlmTerminalMarkerEvent, frozen=True, kw_only=True):
    """One task is done, more remain."""


class Done(LlmTerminalMarkerEvent, frozen=True, kw_only=True):
    """Every task is done."""


class Approved(LlmTerminalMarkerEvent, frozen=True, kw_only=True):
    """The code matches the specs."""


class RequestChanges(LlmTerminalMarkerEvent, frozen=True, kw_only=True):
    """The code does not match the specs."""
