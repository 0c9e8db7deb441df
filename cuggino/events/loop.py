"""What a loop does: plan, implement, review."""

from __future__ import annotations

from datetime import datetime

from cuggino.events.agent import Event


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
