"""Everything that happens, as one tagged union.

An event is a frozen struct. On the wire it is a JSON object whose `_tag` is the class name and whose
fields are camelCase. Base classes are the categories; the `is_…` guards ask for them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias, TypeGuard

import msgspec

from cuggino.events.agent import (
    AgentMessage,
    Approved,
    Done,
    Event,
    LlmAgentEvent,
    LlmMarkerEvent,
    LlmTerminalMarkerEvent,
    Note,
    PingEvent,
    PlanComplete,
    Progress,
    RequestChanges,
    SpecIssue,
    SystemMessage,
    ToBeDiscussed,
    ToolCall,
    ToolResult,
    UsageReport,
)
from cuggino.events.ci import (
    CiCheckTriaged,
    CiEvent,
    CiFixFinished,
    CiFixStarted,
    CiNeedsPerson,
    CiPolled,
    CiPollFailed,
    CiPushDetected,
    CiPushed,
    CiRateLimited,
    CiStateLoaded,
    CiThreadAnswered,
    CiWatchEnded,
)
from cuggino.events.loop import (
    AgentRetry,
    AgentWaiting,
    CheckCommandOutput,
    CommitFailed,
    CommitPerformed,
    ImplementingStart,
    IterationStart,
    LoopApproved,
    LoopFailed,
    LoopLimitReached,
    LoopMaxIterations,
    LoopPhaseEvent,
    LoopSpecIssue,
    LoopStart,
    LoopTerminalEvent,
    PlanningStart,
    ReviewingStart,
    SetupCommandOutput,
)
from cuggino.events.spawn import (
    ConflictsFound,
    LLMCompleted,
    LLMStarted,
    ManifestReady,
    PermissionError,  # noqa: A004 - the specification's name
    PRCreated,
    ProgressState,
    ProgressUpdate,
    RecoveryAttempt,
    SandboxCreated,
    SpawnCompleted,
    SpawnEvent,
    SpawnStatus,
)
from cuggino.events.watch import (
    WatchAuditEnded,
    WatchAuditFailed,
    WatchAuditInterrupted,
    WatchAuditStarted,
    WatchBacklogWaiting,
    WatchEnded,
    WatchIdle,
    WatchItemBlocked,
    WatchItemCompleted,
    WatchItemFailed,
    WatchItemNotRemoved,
    WatchLoopEvent,
    WatchPollFailed,
    WatchProcessingItem,
    WatchSpecIssueWaiting,
    WatchStopping,
    WatchTbdItemFound,
    WatchValidationFailed,
    WatchValidationPassed,
    WatchValidationStarted,
)

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
SpawnSteps: TypeAlias = (
    ManifestReady
    | SandboxCreated
    | LLMStarted
    | ProgressUpdate
    | PermissionError
    | RecoveryAttempt
    | LLMCompleted
    | ConflictsFound
    | PRCreated
    | SpawnCompleted
)
CiSteps: TypeAlias = (
    CiStateLoaded
    | CiPolled
    | CiPollFailed
    | CiPushDetected
    | CiCheckTriaged
    | CiFixStarted
    | CiFixFinished
    | CiPushed
    | CiThreadAnswered
    | CiNeedsPerson
    | CiRateLimited
    | CiWatchEnded
)
PrintableEvent: TypeAlias = WatchEvent | SpawnSteps | CiSteps


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


def is_spawn_event(event: Event) -> TypeGuard[SpawnEvent]:
    return isinstance(event, SpawnEvent)


def is_ci_event(event: Event) -> TypeGuard[CiEvent]:
    return isinstance(event, CiEvent)


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

__all__ = [
    "AgentEvent",
    "AgentMessage",
    "AgentRetry",
    "AgentWaiting",
    "Approved",
    "CheckCommandOutput",
    "CiCheckTriaged",
    "CiEvent",
    "CiFixFinished",
    "CiFixStarted",
    "CiNeedsPerson",
    "CiPollFailed",
    "CiPolled",
    "CiPushDetected",
    "CiPushed",
    "CiRateLimited",
    "CiStateLoaded",
    "CiSteps",
    "CiThreadAnswered",
    "CiWatchEnded",
    "CommitFailed",
    "CommitPerformed",
    "ConflictsFound",
    "Done",
    "Event",
    "ImplementingStart",
    "IterationStart",
    "LLMCompleted",
    "LLMStarted",
    "LlmAgentEvent",
    "LlmMarkerEvent",
    "LlmTerminalMarkerEvent",
    "LogLine",
    "LoopApproved",
    "LoopEvent",
    "LoopFailed",
    "LoopLimitReached",
    "LoopMaxIterations",
    "LoopPhaseEvent",
    "LoopSpecIssue",
    "LoopStart",
    "LoopTerminalEvent",
    "ManifestReady",
    "MarkerEvent",
    "Note",
    "PRCreated",
    "PermissionError",
    "PhaseEvent",
    "PingEvent",
    "PlanComplete",
    "PlanningStart",
    "PrintableEvent",
    "Progress",
    "ProgressState",
    "ProgressUpdate",
    "RecoveryAttempt",
    "RequestChanges",
    "ReviewingStart",
    "SandboxCreated",
    "Send",
    "SetupCommandOutput",
    "SpawnCompleted",
    "SpawnEvent",
    "SpawnStatus",
    "SpawnSteps",
    "SpecIssue",
    "SystemMessage",
    "ToBeDiscussed",
    "ToolCall",
    "ToolResult",
    "UsageReport",
    "WatchAuditEnded",
    "WatchAuditFailed",
    "WatchAuditInterrupted",
    "WatchAuditStarted",
    "WatchBacklogWaiting",
    "WatchEnded",
    "WatchEvent",
    "WatchIdle",
    "WatchItemBlocked",
    "WatchItemCompleted",
    "WatchItemFailed",
    "WatchItemNotRemoved",
    "WatchLoopEvent",
    "WatchPollFailed",
    "WatchProcessingItem",
    "WatchSpecIssueWaiting",
    "WatchStopping",
    "WatchTbdItemFound",
    "WatchValidationFailed",
    "WatchValidationPassed",
    "WatchValidationStarted",
    "decode_event",
    "decode_log_line",
    "encoder",
    "is_ci_event",
    "is_llm_agent_event",
    "is_llm_marker_event",
    "is_llm_terminal_marker_event",
    "is_loop_phase_event",
    "is_loop_terminal_event",
    "is_spawn_event",
    "is_watch_loop_event",
]
