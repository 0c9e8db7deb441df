"""What a running command is doing, folded from the lines of its log. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Literal, TypeAlias

import msgspec

from cuggino import events
from cuggino.history.logs import LogRecord

Phase: TypeAlias = Literal[
    "starting", "working", "waiting-for-spec-issues", "waiting-for-items", "validating", "ending"
]
"""What the command as a whole is doing."""

JobPhase: TypeAlias = Literal[
    "starting", "planning", "setup", "check", "implementing", "commit", "reviewing", "waiting", "ending"
]

LOOP_PHASES: frozenset[JobPhase] = frozenset({"planning", "setup", "check", "implementing", "commit", "reviewing"})
"""Steps of a loop. Between two events, the session's state knows the step more exactly."""


class Job(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An item that is worked on, or the focus of a run. `since` is when the phase began.

    `waiting` is for a provider, or until a failed item is tried again; then `reason` and `until` are set.
    """

    phase: JobPhase
    since: str
    session: str | None = None
    focus: str | None = None
    backlog_file: str | None = None
    iteration: int | None = None
    max_iterations: int | None = None
    reason: str | None = None
    until: datetime | None = None


class CurrentWork(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What a living command is doing. `since` is when the phase began; `cost_usd` is its cost so far.

    A watch that works on several items at a time has several `jobs`, and may wait for more items meanwhile.
    """

    phase: Phase
    since: str
    jobs: tuple[Job, ...] = ()
    auditing: bool = False
    stopping: Literal["drain", "interrupt", "kill"] | None = None
    completed: int = 0
    cost_usd: float | None = None
    cost_is_partial: bool = False
    log: str | None = None


class SessionFollower:
    """The fold: `add` each line of the command's log; `work` is what it does afterwards."""

    def __init__(self, work: CurrentWork) -> None:
        self.work = work
        self._before_waiting: dict[str | None, JobPhase] = {}
        """The session of a waiting job → the phase that it returns to."""

    def add(self, line: LogRecord) -> None:
        event, at = line.event, line.at
        if isinstance(event, events.WatchLoopEvent):
            self._add_watch(event, at)
        elif isinstance(event, events.LoopStart):
            self._begin(
                Job(
                    phase="planning",
                    since=at,
                    session=line.session,
                    focus=event.focus,
                    backlog_file=event.backlog_file,
                    iteration=event.iteration,
                )
            )
        elif (job := self._job_of(line.session)) is None:
            return  # an audit's
        elif isinstance(event, events.LoopPhaseEvent | events.LlmTerminalMarkerEvent):
            self._add_loop(job, event, at)
        elif (before := self._before_waiting.get(job.session)) is not None:  # the agent works again
            self._to(job, before, at)

    def _add_loop(self, job: Job, event: events.Event, at: str) -> None:
        match event:
            case events.IterationStart():
                self._to(job, "planning", at, iteration=event.iteration, max_iterations=event.max_iterations)
            case events.PlanningStart():
                self._to(job, "planning", at)
            case events.ImplementingStart():
                self._to(job, "implementing", at)
            case events.ReviewingStart():
                self._to(job, "reviewing", at)
            case events.PlanComplete() if job.phase == "planning":
                self._to(job, "setup", at)
            case events.Progress() | events.Done() if job.phase == "implementing":
                self._to(job, "commit", at)
            case events.SetupCommandOutput() | events.CommitPerformed() | events.CommitFailed():
                self._to(job, "check", at)
            case events.AgentRetry() if event.delay > 0:
                self._wait(job, at, event.reason, _later(at, event.delay))
            case events.AgentWaiting():
                self._wait(job, at, event.reason, event.until)
            case events.LoopTerminalEvent():
                self._to(job, "ending", at)

    def _add_watch(self, event: events.WatchLoopEvent, at: str) -> None:
        match event:
            case events.WatchProcessingItem():
                self._begin(Job(phase="starting", since=at, backlog_file=event.filename))
            case events.WatchItemFailed() if event.retry_in is not None:
                until = _later(at, event.retry_in)
                failed = Job(phase="waiting", since=at, backlog_file=event.filename, reason=event.message, until=until)
                self._begin(failed)
            case events.WatchItemCompleted():
                self._end(event.filename, at)
                self._change(completed=self.work.completed + 1)
            case events.WatchItemNotRemoved() | events.WatchItemFailed() | events.WatchItemBlocked():
                self._end(event.filename, at)
            case events.WatchSpecIssueWaiting():
                self._enter("waiting-for-spec-issues", at)
            case events.WatchBacklogWaiting():
                self._enter("waiting-for-items", at)
            case (
                events.WatchAuditStarted()
                | events.WatchAuditEnded()
                | events.WatchAuditInterrupted()
                | events.WatchAuditFailed()
            ):
                self._change(auditing=isinstance(event, events.WatchAuditStarted))
            case events.WatchValidationStarted():
                self._enter("validating", at)
            case events.WatchValidationPassed() | events.WatchValidationFailed():
                self._enter("starting", at)
            case events.WatchStopping():
                self._change(stopping=event.stage)
            case events.WatchEnded():
                self._change(jobs=())
                self._enter("ending", at)

    # ---- the command

    def _change(self, **changes: object) -> None:
        self.work = msgspec.structs.replace(self.work, **changes)

    def _enter(self, phase: Phase, at: str) -> None:
        """Drop jobs that were to be tried again by now: their items were deleted."""
        jobs = tuple(job for job in self.work.jobs if job.session is not None or not _over(job.until, at))
        self._change(phase=phase, since=at, jobs=jobs)

    # ---- its jobs

    def _job_of(self, session: str | None) -> Job | None:
        return None if session is None else next((job for job in self.work.jobs if job.session == session), None)

    def _begin(self, job: Job) -> None:
        """Replace the job of the same item, if there is one."""
        others = tuple(it for it in self.work.jobs if it.backlog_file is None or it.backlog_file != job.backlog_file)
        if self.work.phase != "working":
            self._change(phase="working", since=job.since)
        self._change(jobs=(*others, job))

    def _end(self, backlog_file: str, at: str) -> None:
        self._change(jobs=tuple(job for job in self.work.jobs if job.backlog_file != backlog_file))
        if not self.work.jobs:
            self._enter("starting", at)

    def _to(
        self,
        job: Job,
        phase: JobPhase,
        at: str,
        *,
        reason: str | None = None,
        until: datetime | None = None,
        **changes: object,
    ) -> None:
        self._before_waiting.pop(job.session, None)
        changed = msgspec.structs.replace(job, phase=phase, since=at, reason=reason, until=until, **changes)
        self._change(jobs=tuple(changed if it is job else it for it in self.work.jobs))

    def _wait(self, job: Job, at: str, reason: str, until: datetime | None) -> None:
        before = self._before_waiting.get(job.session, job.phase)
        self._to(job, "waiting", at, reason=reason, until=until)
        if before in LOOP_PHASES:
            self._before_waiting[job.session] = before


def _over(until: datetime | None, at: str) -> bool:
    try:
        return until is not None and until <= datetime.fromisoformat(at)
    except (ValueError, TypeError):
        return False


def _later(at: str, seconds: float) -> datetime | None:
    try:
        return datetime.fromisoformat(at) + timedelta(seconds=seconds)
    except (ValueError, OverflowError):
        return None
