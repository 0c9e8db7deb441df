"""What agents do and say, and the base of all events."""

from __future__ import annotations

from typing import Any, TypeAlias, TypeGuard

import msgspec


class Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="_tag", tag=str, rename="camel"):
    """Something that happened. Immutable, compared by value."""


# ---- what agents do ---------------------------------------------------------------------------


class LlmAgentEvent(Event, frozen=True, kw_only=True):
    """Something that an agent wrote, did or used."""


class SystemMessage(LlmAgentEvent, frozen=True, kw_only=True):
    """A message from the machinery: which agent and model, a retry by the agent itself, a warning from cuggino."""

    text: str


class AgentMessage(LlmAgentEvent, frozen=True, kw_only=True):
    """Text that the agent wrote, without its markers. Never empty."""

    text: str


class ToolCall(LlmAgentEvent, frozen=True, kw_only=True):
    """The agent calls a tool. `id` is the same as in its ToolResult."""

    id: str
    name: str
    input: Any = None


class ToolResult(LlmAgentEvent, frozen=True, kw_only=True):
    """The output of a tool. `id` is the same as in its ToolCall."""

    id: str
    output: str
    is_error: bool = False


class PingEvent(LlmAgentEvent, frozen=True, kw_only=True):
    """A sign of life, up to ten times a second. The only event that is not logged."""


class UsageReport(LlmAgentEvent, frozen=True, kw_only=True):
    """What one run of an agent used: tokens, and US dollars (null if the agent does not report its cost)."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_creation_tokens: int = 0
    cost_usd: float | None = None


# ---- markers ----------------------------------------------------------------------------------


class LlmMarkerEvent(Event, frozen=True, kw_only=True):
    """A tag in an agent's own text. `content` has no surrounding space."""

    content: str


class LlmTerminalMarkerEvent(LlmMarkerEvent, frozen=True, kw_only=True):
    """A marker that ends an agent's turn."""


class Note(LlmMarkerEvent, frozen=True, kw_only=True):
    """An observation or a decision."""


class ToBeDiscussed(LlmMarkerEvent, frozen=True, kw_only=True):
    """A finding of the audit that a person must decide."""


class SpecIssue(LlmTerminalMarkerEvent, frozen=True, kw_only=True):
    """The specs are unclear or contradict each other."""


class PlanComplete(LlmTerminalMarkerEvent, frozen=True, kw_only=True):
    """The plan is written."""


class Progress(LlmTerminalMarkerEvent, frozen=True, kw_only=True):
    """One task is done, more remain."""


class Done(LlmTerminalMarkerEvent, frozen=True, kw_only=True):
    """All tasks are done."""


class Approved(LlmTerminalMarkerEvent, frozen=True, kw_only=True):
    """The code matches the specs."""


class RequestChanges(LlmTerminalMarkerEvent, frozen=True, kw_only=True):
    """The code does not match the specs."""


AgentEvent: TypeAlias = SystemMessage | AgentMessage | ToolCall | ToolResult | PingEvent | UsageReport
MarkerEvent: TypeAlias = Note | ToBeDiscussed | SpecIssue | PlanComplete | Progress | Done | Approved | RequestChanges


def is_llm_agent_event(event: Event) -> TypeGuard[LlmAgentEvent]:
    return isinstance(event, LlmAgentEvent)


def is_llm_marker_event(event: Event) -> TypeGuard[LlmMarkerEvent]:
    return isinstance(event, LlmMarkerEvent)


def is_llm_terminal_marker_event(event: Event) -> TypeGuard[LlmTerminalMarkerEvent]:
    return isinstance(event, LlmTerminalMarkerEvent)
