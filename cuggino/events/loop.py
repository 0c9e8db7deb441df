"""Steps of a loop: plan, implement, review."""

from __future__ import annotations

from datetime import datetime
from typing import TypeAlias, TypeGuard

from cuggino.events.agent import Event


class LoopPhaseEvent(Event, frozen=True, kw_only=True):
    """A step of a loop."""

    iteration: int


class LoopTerminalEvent(LoopPhaseEvent, frozen=True, kw_only=True):
    """The last event of a loop."""


class LoopStart(LoopPhaseEvent, frozen=True, kw_only=True):
    """The first event of a loop: its focus. `resumed` if an agent has already worked in this session."""

    focus: str
    backlog_file: str | None
    resumed: bool


class IterationStart(LoopPhaseEvent, frozen=True, kw_only=True):
    """An iteration starts, or continues in a resumed session."""

    max_iterations: int


class PlanningStart(LoopPhaseEvent, frozen=True, kw_only=True):
    """The planner starts."""


class ImplementingStart(LoopPhaseEvent, frozen=True, kw_only=True):
    """An implementer starts: once for each task."""


class ReviewingStart(LoopPhaseEvent, frozen=True, kw_only=True):
    """The reviewer starts."""


class SetupCommandOutput(LoopPhaseEvent, frozen=True, kw_only=True):
    """stdout and stderr of the setup command, interleaved as they came."""

    output: str
    exit_code: int


class CheckCommandOutput(LoopPhaseEvent, frozen=True, kw_only=True):
    """stdout and stderr of the check command, interleaved as they came."""

    output: str
    exit_code: int


class CommitPerformed(LoopPhaseEvent, frozen=True, kw_only=True):
    """cuggino committed an implementer's work."""

    commit_hash: str
    message: str


class CommitFailed(LoopPhaseEvent, frozen=True, kw_only=True):
    """git refused the commit; `message` is its own. The loop continues."""

    message: str


class AgentRetry(LoopPhaseEvent, frozen=True, kw_only=True):
    """The agent starts again after `delay` seconds. `attempt` counts from 1."""

    attempt: int
    reason: str
    delay: float


class AgentWaiting(LoopPhaseEvent, frozen=True, kw_only=True):
    """No agent starts before `until`."""

    until: datetime
    reason: str


class LoopApproved(LoopTerminalEvent, frozen=True, kw_only=True):
    """The reviewer approved the work."""


class LoopSpecIssue(LoopTerminalEvent, frozen=True, kw_only=True):
    """An agent reported a spec issue. `filename` is the name of its file in `.cuggino/spec-issues/`."""

    content: str
    filename: str


class LoopMaxIterations(LoopTerminalEvent, frozen=True, kw_only=True):
    """The loop used up its iterations without an approval."""

    max_iterations: int


class LoopLimitReached(LoopTerminalEvent, frozen=True, kw_only=True):
    """The loop reached a limit: `limit` is its key in `limits` (`maxCostUsd`, `maxRuntime`), `value` what was used."""

    limit: str
    value: float


class LoopFailed(LoopTerminalEvent, frozen=True, kw_only=True):
    """The loop failed. Also raised, as LoopError, by the function that runs the loop."""

    phase: str
    message: str


LoopStep: TypeAlias = (
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


def is_loop_phase_event(event: Event) -> TypeGuard[LoopPhaseEvent]:
    return isinstance(event, LoopPhaseEvent)


def is_loop_terminal_event(event: Event) -> TypeGuard[LoopTerminalEvent]:
    return isinstance(event, LoopTerminalEvent)
