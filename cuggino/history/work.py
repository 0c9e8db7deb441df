"""What a command that is at work does just now: a fold over its log. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Literal, TypeAlias

import msgspec

from cuggino import events
from cuggino.history.logs import Line

Phase: TypeAlias = Literal[
    "starting",
    "planning",
    "setup",
    "check",
    "implementing",
    "commit",
    "reviewing",
    "waiting",
    "waiting-for-spec-issues",
    "waiting-for-items",
    "validating",
    "ending",
]

LOOP_PHASES: frozenset[Phase] = frozenset({"planning", "setup", "check", "implementing", "commit", "reviewing"})
"""Steps of a loop: where it is exactly between two events, its session's state knows."""


class Work(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What a living command does. `since` is when the phase began. `waiting` is for a provider, or until a failed
    item is tried again: `reason` says why, `until` until when. `cost_usd` is what this command has spent so far.
    """

    phase: Phase
    since: str
    session: str | None = None
    focus: str | None = None
    backlog_file: str | None = None
    iteration: int | None = None
    max_iterations: int | None = None
    reason: str | None = None
    until: datetime | None = None
    auditing: bool = False
    stopping: Literal["drain", "interrupt", "kill"] | None = None
    completed: int = 0
    cost_usd: float | None = None
    cost_is_partial: bool = False
    log: str | None = None


class Following:
    """The fold: `add` each line of the command's log, `work` is what it does after that."""

    def __init__(self, work: Work) -> None:
        self.work = work
        self._before_waiting: Phase | None = None

    def add(self, line: Line) -> None:
        event, at = line.event, line.at
        if isinstance(event, events.WatchLoopEvent):
            self._add_watch(event, at)
        elif isinstance(event, events.LoopStart):
            self._change(session=line.session, focus=event.focus, backlog_file=event.backlog_file)
            self._to("planning", at, iteration=event.iteration)
        elif line.session is None or line.session != self.work.session:
            return  # an audit's
        elif isinstance(event, events.LoopPhaseEvent | events.LlmTerminalMarkerEvent):
            self._add_loop(event, at)
        elif self._before_waiting is not None:  # the agent speaks again
            self._to(self._before_waiting, at)

    def _add_loop(self, event: events.Event, at: str) -> None:
        match event:
            case events.IterationStart():
                self._to("planning", at, iteration=event.iteration, max_iterations=event.max_iterations)
            case events.PlanningStart():
                self._to("planning", at)
            case events.ImplementingStart():
                self._to("implementing", at)
            case events.ReviewingStart():
                self._to("reviewing", at)
            case events.PlanComplete() if self.work.phase == "planning":
                self._to("setup", at)
            case events.Progress() | events.Done() if self.work.phase == "implementing":
                self._to("commit", at)
            case events.SetupCommandOutput() | events.CommitPerformed() | events.CommitFailed():
                self._to("check", at)
            case events.AgentRetry() if event.delay > 0:
                self._wait(at, event.reason, _later(at, event.delay))
            case events.AgentWaiting():
                self._wait(at, event.reason, event.until)
            case events.LoopTerminalEvent():
                self._to("ending", at)

    def _add_watch(self, event: events.WatchLoopEvent, at: str) -> None:
        match event:
            case events.WatchProcessingItem():
                self._leave_item()
                self._to("starting", at, backlog_file=event.filename)
            case events.WatchItemFailed() if event.retry_in is not None:
                self._wait(at, event.message, _later(at, event.retry_in))
            case events.WatchItemCompleted():
                self._leave_item()
                self._to("starting", at, completed=self.work.completed + 1)
            case events.WatchItemNotRemoved() | events.WatchItemFailed() | events.WatchItemBlocked():
                self._leave_item()
                self._to("starting", at)
            case events.WatchSpecIssueWaiting():
                self._leave_item()
                self._to("waiting-for-spec-issues", at)
            case events.WatchBacklogWaiting():
                self._leave_item()
                self._to("waiting-for-items", at)
            case events.WatchAuditStarted():
                self._change(auditing=True)
            case events.WatchAuditEnded() | events.WatchAuditInterrupted() | events.WatchAuditFailed():
                self._change(auditing=False)
            case events.WatchValidationStarted():
                self._leave_item()
                self._to("validating", at)
            case events.WatchValidationPassed() | events.WatchValidationFailed():
                self._to("starting", at)
            case events.WatchStopping():
                self._change(stopping=event.stage)
            case events.WatchEnded():
                self._leave_item()
                self._to("ending", at)

    def _change(self, **changes: object) -> None:
        self.work = msgspec.structs.replace(self.work, **changes)

    def _to(self, phase: Phase, at: str, **changes: object) -> None:
        self._before_waiting = None
        self._change(phase=phase, since=at, reason=None, until=None, **changes)

    def _wait(self, at: str, reason: str, until: datetime | None) -> None:
        before = self._before_waiting or (self.work.phase if self.work.phase in LOOP_PHASES else None)
        self._to("waiting", at)
        self._change(reason=reason, until=until)
        self._before_waiting = before

    def _leave_item(self) -> None:
        self._change(session=None, focus=None, backlog_file=None, iteration=None, max_iterations=None)


def _later(at: str, seconds: float) -> datetime | None:
    try:
        return datetime.fromisoformat(at) + timedelta(seconds=seconds)
    except (ValueError, OverflowError):
        return None
