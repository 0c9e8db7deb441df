"""What a command that is at work does just now: a fold over its log. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Literal, TypeAlias

import msgspec

from cuggino import events
from cuggino.history.logs import LogRecord

Phase: TypeAlias = Literal[
    "starting", "working", "waiting-for-spec-issues", "waiting-for-items", "validating", "ending"
]
"""What the command as a whole is at."""

JobPhase: TypeAlias = Literal[
    "starting", "planning", "setup", "check", "implementing", "commit", "reviewing", "waiting", "ending"
]

LOOP_PHASES: frozenset[JobPhase] = frozenset({"planning", "setup", "check", "implementing", "commit", "reviewing"})
"""Steps of a loop: where it is exactly between two events, its session's state knows."""


class Job(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What is worked on: an item, or the focus of a run. `since` is when the phase began. `waiting` is for a provider,
    or until the failed item is tried again: `reason` says why, `until` until when.
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
    """What a living command does. `since` is when the phase began. `jobs` are several where a watch works on several
    items at a time; it may wait for others meanwhile. `cost_usd` is what this command has spent so far.
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
    """The fold: `add` each line of the command's log, `work` is what it does after that."""

    def __init__(self, work: CurrentWork) -> None:
        self.work = work
        self._before_waiting: dict[str | None, JobPhase] = {}
        """The session of a job that waits → the phase in which it goes on."""

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
        elif (before := self._before_waiting.get(job.session)) is not None:  # the agent speaks again
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
            case events.WatchAuditStarted():
                self._change(auditing=True)
            case events.WatchAuditEnded() | events.WatchAuditInterrupted() | events.WatchAuditFailed():
                self._change(auditing=False)
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
        """A job that waits to be tried again and whose time is over came to nothing: its item is gone."""
        jobs = tuple(job for job in self.work.jobs if job.session is not None or not _over(job.until, at))
        self._change(phase=phase, since=at, jobs=jobs)

    # ---- its jobs

    def _job_of(self, session: str | None) -> Job | None:
        return None if session is None else next((job for job in self.work.jobs if job.session == session), None)

    def _begin(self, job: Job) -> None:
        """In the place of what was told of the same item."""
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
