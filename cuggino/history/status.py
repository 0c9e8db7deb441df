"""The status of a project, from its files alone: nothing is created, written or locked.

Files may change or disappear while they are read, and any may be damaged: `problems` says so.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import msgspec

from cuggino import records
from cuggino.backlog import Unusable, read_item
from cuggino.clock import time_of
from cuggino.errors import StorageError
from cuggino.files import DECODE_ERRORS
from cuggino.history.logs import growing, logs, read
from cuggino.history.sessions import PastSession, recall
from cuggino.history.work import LOOP_PHASES, CurrentWork, Job, JobPhase, SessionFollower
from cuggino.inbox.folder import InboxEntry, entries
from cuggino.lock import Owner, read_owner
from cuggino.loop.course import Step
from cuggino.loop.session import SessionState, state_files
from cuggino.output.summary import RunTally
from cuggino.project import Project
from cuggino.sandbox.records import load_all as all_sandboxes
from cuggino.watch.ledger import LedgerState


class Holder(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Who holds the lock. If it is not alive, it was killed, and the next command cleans up after it."""

    pid: int
    command: str
    since: datetime
    lives: bool


class InboxFile(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A spec issue or a finding: the name of its file and its first line."""

    name: str
    title: str


class BacklogItem(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An item: why it is blocked, how often the loop failed on this content, and the session that would be resumed."""

    name: str
    title: str
    state: Literal["working", "ready", "behind-spec-issue", "blocked"]
    reason: str | None
    failures: int
    session: str | None


class OpenSession(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A session that can be resumed. `cost_usd` and `seconds` are those of the whole session."""

    id: str
    started: datetime | None
    focus: str
    backlog_file: str | None
    iteration: int
    step: Step
    cost_usd: float
    seconds: float


class Status(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What `cuggino status --json` prints.

    `at` is the time of the status, `work` what the living holder is doing, `last` the latest session that has ended or
    was interrupted, according to the latest log that has one.
    """

    at: datetime
    root: str
    holder: Holder | None
    work: CurrentWork | None
    backlog: tuple[BacklogItem, ...]
    spec_issues: tuple[InboxFile, ...]
    findings: tuple[InboxFile, ...]
    sessions: tuple[OpenSession, ...]
    last: PastSession | None
    problems: tuple[str, ...]


def gather(project: Project, now: datetime | None = None) -> Status:
    """Read everything once. Never raises, whatever the files hold."""
    problems: list[str] = []
    owner = _owner(project, problems)
    states = list(_states(project, problems))
    in_sandboxes = [state for place in _sandboxes(project) for state in _states(place, problems)]
    log = growing(project, owner)
    work = None
    if owner is not None and owner.lives():
        work = _work(owner, log, [*states, *in_sandboxes], problems)
    at_work = set() if work is None else {job.session for job in work.jobs}
    unfinished = [state for state in states if state.ended is None and state.id not in at_work]
    started = [*unfinished, *(state for state in in_sandboxes if state.ended is None and state.id not in at_work)]
    issues = _inbox_files(project.spec_issues, problems)
    return Status(
        at=now or datetime.now(UTC).replace(microsecond=0),
        root=_escape(str(project.root)),
        holder=None if owner is None else _holder(owner),
        work=work,
        backlog=tuple(_backlog(project, work, bool(issues), started, problems)),
        spec_issues=issues,
        findings=_inbox_files(project.tbd, problems),
        sessions=tuple(_open_session(state) for state in unfinished),
        last=_last(project, log, at_work, problems),
        problems=tuple(problems),
    )


# ---- who works here, and on what --------------------------------------------------------------


def _owner(project: Project, problems: list[str]) -> Owner | None:
    try:
        return read_owner(project)
    except (StorageError, OSError, *DECODE_ERRORS) as error:
        problems.append(f"Unknown whether a command runs here: {project.lock_file} cannot be read: {error}")
        return None


def _holder(owner: Owner) -> Holder:
    return Holder(pid=owner.pid, command=owner.command, since=owner.since, lives=owner.lives())


def _work(owner: Owner, log: Path | None, states: list[SessionState], problems: list[str]) -> CurrentWork:
    """Combine the log of the living command with its sessions' states, which are more exact between two events."""
    begin = CurrentWork(phase="starting", since=owner.since.isoformat(), log=None if log is None else log.stem)
    following = SessionFollower(begin)
    tally = RunTally()
    if log is not None:
        try:
            for line in read(log):
                following.add(line)
                if line.event is not None:
                    tally.add(line.event)
        except OSError as error:
            problems.append(f"{log} cannot be read: {error.strerror}.")
    spent = tally.summary(seconds=0)
    cost = None if spent.usage is None else spent.usage.cost_usd
    work = msgspec.structs.replace(following.work, cost_usd=cost, cost_is_partial=spent.cost_is_partial)
    known = {state.id: state for state in states}
    return msgspec.structs.replace(work, jobs=tuple(_exactly(job, known.get(job.session or "")) for job in work.jobs))


def _exactly(job: Job, state: SessionState | None) -> Job:
    if state is None or job.phase not in LOOP_PHASES:
        return job
    return msgspec.structs.replace(job, phase=_PHASES[state.course.step] if state.ended is None else "ending")


_PHASES: dict[Step, JobPhase] = {
    Step.PLAN: "planning",
    Step.SETUP: "setup",
    Step.CHECK: "check",
    Step.IMPLEMENT: "implementing",
    Step.COMMIT: "commit",
    Step.REVIEW: "reviewing",
}


def _states(project: Project, problems: list[str]) -> Iterator[SessionState]:
    """Yield the states of the sessions that can be read, oldest first."""
    for path in state_files(project):
        try:
            yield records.load(path, SessionState)
        except StorageError as error:
            if os.path.exists(path):  # noqa: PTH110 - Path.exists raises where it may not look
                problems.append(f"A session is left out: {_escape(error.message)}")


def _sandboxes(project: Project) -> Iterator[Project]:
    """Yield the sandboxes in which items are worked on."""
    for record in all_sandboxes(project):
        if record.sandbox.item is not None and record.exists:
            yield Project(record.sandbox.root)


def _open_session(state: SessionState) -> OpenSession:
    return OpenSession(
        id=state.id,
        started=time_of(state.id),
        focus=state.focus,
        backlog_file=state.backlog_file,
        iteration=state.course.iteration,
        step=state.course.step,
        cost_usd=state.cost_usd,
        seconds=round(state.elapsed, 3),
    )


def _last(project: Project, log: Path | None, at_work: set[str | None], problems: list[str]) -> PastSession | None:
    for path in reversed(logs(project)):
        history = recall([path])
        problems += history.unreadable
        for session in history.sessions(None if log is None else log.stem):
            if session.id not in at_work and session.kind == "loop":
                return session
    return None


# ---- folders ----------------------------------------------------------------------------------


def _backlog(
    project: Project, work: CurrentWork | None, behind: bool, started: list[SessionState], problems: list[str]
) -> Iterator[BacklogItem]:
    """Yield the items in the order in which they are taken, as the watch would judge them now."""
    failures = _failures(project, problems).items
    at_work = set() if work is None else {job.backlog_file for job in work.jobs}
    for entry in _entries(project.backlog, problems):
        item = read_item(project, entry.name)
        if item is None:
            continue
        shown = _escape(entry.name)
        failure = failures.get(shown)
        if failure is not None and failure.digest != item.digest:
            failure = None
        reason = failure.blocked if failure is not None else None
        if reason is None and isinstance(item, Unusable):
            reason = item.reason
        yield BacklogItem(
            name=shown,
            title=entry.title,
            state="working"
            if shown in at_work
            else "blocked"
            if reason
            else "behind-spec-issue"
            if behind
            else "ready",
            reason=reason,
            failures=0 if failure is None else failure.attempts,
            session=next(
                (it.id for it in started if (it.backlog_file, it.backlog_hash) == (entry.name, item.digest)), None
            ),
        )


def _failures(project: Project, problems: list[str]) -> LedgerState:
    try:
        return records.load(project.state_file, LedgerState)
    except StorageError as error:
        if os.path.exists(project.state_file):  # noqa: PTH110
            problems.append(f"Earlier failures are not known: {error.message}")
        return LedgerState()


def _inbox_files(folder: Path, problems: list[str]) -> tuple[InboxFile, ...]:
    return tuple(InboxFile(name=_escape(entry.name), title=entry.title) for entry in _entries(folder, problems))


def _entries(folder: Path, problems: list[str]) -> tuple[InboxEntry, ...]:
    try:
        return entries(folder)
    except StorageError as error:
        problems.append(error.message)
        return ()


def _escape(name: str) -> str:
    """Escape what is not valid UTF-8 and so cannot be encoded as JSON."""
    return name.encode("utf-8", "backslashreplace").decode()
