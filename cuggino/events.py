"""Everything that happens, as one tagged union.

An event is a frozen struct. On the wire it is a JSON object whose `_tag` is the class name and whose
fields are camelCase. Base classes are the categories; the `is_…` guards ask for them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any, Literal, TypeAlias, TypeGuard

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


# ---- the loop ---------------------------------------------------------------------------------


class LoopPhaseEvent(Event, frozen=True, kw_only=True):
    """A step of a loop."""

    iteration: int


class LoopTerminalEvent(LoopPhaseEvent, frozen=True, kw_only=True):
    """The last event of a loop's stream."""


class LoopStart(LoopPhaseEvent, frozen=True, kw_only=True):
    """The first event of a loop's stream: what the session is about. `resumed`: an agent has worked in it before."""

    focus: str
    backlog_file: str | None
    resumed: bool


class IterationStart(LoopPhaseEvent, frozen=True, kw_only=True):
    max_iterations: int


class PlanningStart(LoopPhaseEvent, frozen=True, kw_only=True):
    pass


class ImplementingStart(LoopPhaseEvent, frozen=True, kw_only=True):
    pass


class ReviewingStart(LoopPhaseEvent, frozen=True, kw_only=True):
    pass


class SetupCommandOutput(LoopPhaseEvent, frozen=True, kw_only=True):
    """stdout and stderr in the order they came."""

    output: str
    exit_code: int


class CheckCommandOutput(LoopPhaseEvent, frozen=True, kw_only=True):
    """stdout and stderr in the order they came."""

    output: str
    exit_code: int


class CommitPerformed(LoopPhaseEvent, frozen=True, kw_only=True):
    commit_hash: str
    message: str


class CommitFailed(LoopPhaseEvent, frozen=True, kw_only=True):
    """The loop goes on; `message` is git's own."""

    message: str


class AgentRetry(LoopPhaseEvent, frozen=True, kw_only=True):
    """The agent is started again after `delay` seconds. `attempt` counts from 1."""

    attempt: int
    reason: str
    delay: float


class AgentWaiting(LoopPhaseEvent, frozen=True, kw_only=True):
    """Nothing is started before `until`."""

    until: datetime
    reason: str


class LoopApproved(LoopTerminalEvent, frozen=True, kw_only=True):
    pass


class LoopSpecIssue(LoopTerminalEvent, frozen=True, kw_only=True):
    """`filename` is the name of the file in `.cuggino/spec-issues/`."""

    content: str
    filename: str


class LoopMaxIterations(LoopTerminalEvent, frozen=True, kw_only=True):
    max_iterations: int


class LoopLimitReached(LoopTerminalEvent, frozen=True, kw_only=True):
    """`limit` is the key in `limits` (`maxCostUsd`, `maxRuntime`), `value` what was reached."""

    limit: str
    value: float


class LoopFailed(LoopTerminalEvent, frozen=True, kw_only=True):
    """Also raised, as LoopError, by who runs the loop."""

    phase: str
    message: str


# ---- the watch --------------------------------------------------------------------------------


class WatchLoopEvent(Event, frozen=True, kw_only=True):
    """What the loop over the backlog does."""


class WatchSpecIssueWaiting(WatchLoopEvent, frozen=True, kw_only=True):
    """Spec issues exist: a person must clear them."""


class WatchBacklogWaiting(WatchLoopEvent, frozen=True, kw_only=True):
    """No spec issue, and nothing is ready."""


class WatchIdle(WatchLoopEvent, frozen=True, kw_only=True):
    """Idle for so many seconds. `blocked` items exist but cannot be taken; None: unknown."""

    wait_seconds: int
    blocked: int | None


class WatchProcessingItem(WatchLoopEvent, frozen=True, kw_only=True):
    filename: str


class WatchItemCompleted(WatchLoopEvent, frozen=True, kw_only=True):
    """It was finished and left the backlog."""

    filename: str


class WatchItemNotRemoved(WatchLoopEvent, frozen=True, kw_only=True):
    """The loop ended and no file was removed."""

    filename: str
    reason: Literal["changed", "spec-issue", "gone"]


class WatchItemFailed(WatchLoopEvent, frozen=True, kw_only=True):
    """The loop failed on it. `retry_in` seconds later it is tried again; None: it is not."""

    filename: str
    message: str
    attempt: int
    retry_in: float | None


class WatchItemBlocked(WatchLoopEvent, frozen=True, kw_only=True):
    """Set aside until its content changes or the watch starts anew."""

    filename: str
    reason: str


class WatchAuditStarted(WatchLoopEvent, frozen=True, kw_only=True):
    pass


class WatchAuditEnded(WatchLoopEvent, frozen=True, kw_only=True):
    """By itself."""


class WatchAuditInterrupted(WatchLoopEvent, frozen=True, kw_only=True):
    """Work arrived, or a stop; nothing of it is alive."""


class WatchAuditFailed(WatchLoopEvent, frozen=True, kw_only=True):
    """The watch goes on."""

    message: str


class WatchTbdItemFound(WatchLoopEvent, frozen=True, kw_only=True):
    """A finding was saved to `.cuggino/tbd/`."""

    content: str
    filename: str


class WatchValidationStarted(WatchLoopEvent, frozen=True, kw_only=True):
    completed: int


class WatchValidationPassed(WatchLoopEvent, frozen=True, kw_only=True):
    completed: int


class WatchValidationFailed(WatchLoopEvent, frozen=True, kw_only=True):
    completed: int
    output: str
    exit_code: int


class WatchPollFailed(WatchLoopEvent, frozen=True, kw_only=True):
    """The folders could not be read; `attempt` counts from 1, three in a row end the watch."""

    attempt: int
    message: str


class WatchStopping(WatchLoopEvent, frozen=True, kw_only=True):
    """A stop was asked for. `active` is how many items are being worked on."""

    stage: Literal["drain", "interrupt", "kill"]
    active: int


class WatchEnded(WatchLoopEvent, frozen=True, kw_only=True):
    """The last one, always."""

    reason: Literal["idle", "interrupted", "validation-failed", "poll-failed", "setup-failed"]
    completed: int
    exit_code: int


AgentEvent: TypeAlias = SystemMessage | AgentMessage | ToolCall | ToolResult | PingEvent | UsageReport
MarkerEvent: TypeAlias = Note | ToBeDiscussed | SpecIssue | PlanComplete | Progress | Done | Approved | RequestChanges
PhaseEvent: TypeAlias = (
    LoopStart
    | IterationStart
    | PlanningStart
    | ImplementingStart
    | ReviewingStart
    | SetupCommandOutput
    | CheckCommandOutput
    | CommitPerformed
    | CommitFailed
    | AgentRetry
    | AgentWaiting
    | LoopApproved
    | LoopSpecIssue
    | LoopMaxIterations
    | LoopLimitReached
    | LoopFailed
)
LoopEvent: TypeAlias = AgentEvent | MarkerEvent | PhaseEvent
WatchEvent: TypeAlias = (
    LoopEvent
    | WatchSpecIssueWaiting
    | WatchBacklogWaiting
    | WatchIdle
    | WatchProcessingItem
    | WatchItemCompleted
    | WatchItemNotRemoved
    | WatchItemFailed
    | WatchItemBlocked
    | WatchAuditStarted
    | WatchAuditEnded
    | WatchAuditInterrupted
    | WatchAuditFailed
    | WatchTbdItemFound
    | WatchValidationStarted
    | WatchValidationPassed
    | WatchValidationFailed
    | WatchPollFailed
    | WatchStopping
    | WatchEnded
)
PrintableEvent: TypeAlias = WatchEvent


def is_llm_agent_event(event: Event) -> TypeGuard[LlmAgentEvent]:
    return isinstance(event, LlmAgentEvent)


def is_llm_marker_event(event: Event) -> TypeGuard[LlmMarkerEvent]:
    return isinstance(event, LlmMarkerEvent)


def is_llm_terminal_marker_event(event: Event) -> TypeGuard[LlmTerminalMarkerEvent]:
    return isinstance(event, LlmTerminalMarkerEvent)


def is_loop_phase_event(event: Event) -> TypeGuard[LoopPhaseEvent]:
    return isinstance(event, LoopPhaseEvent)


def is_loop_terminal_event(event: Event) -> TypeGuard[LoopTerminalEvent]:
    return isinstance(event, LoopTerminalEvent)


def is_watch_loop_event(event: Event) -> TypeGuard[WatchLoopEvent]:
    return isinstance(event, WatchLoopEvent)


# ---- how events travel ------------------------------------------------------------------------

Send: TypeAlias = Callable[[Event], Awaitable[None]]
"""Where a service sends its events. Awaits while the receiver is behind; a checkpoint only then.

Services take a function, not a channel, so that who calls them can look at each event and stamp it with
its session without a second channel: one hop from the decoder to the hub."""


class LogLine(msgspec.Struct, frozen=True, kw_only=True):
    """A line of the log and of `--json`: `at` is UTC in milliseconds, `session` the loop's id or null."""

    at: str
    session: str | None
    event: PrintableEvent


encoder = msgspec.json.Encoder()
decode_event: Callable[[bytes | str], PrintableEvent] = msgspec.json.Decoder(PrintableEvent).decode
decode_log_line: Callable[[bytes | str], LogLine] = msgspec.json.Decoder(LogLine).decode
