"""What is going on in a project, found out from its files alone: nothing is made, written or locked.

All of them may change or vanish while they are read, and any may be spoiled: that is told in `problems`.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import msgspec

from cuggino.backlog import Unusable, read_item
from cuggino.errors import StorageError
from cuggino.history.logs import born, growing, logs, read
from cuggino.history.sessions import PastSession, recall
from cuggino.history.work import LOOP_PHASES, Following, Job, JobPhase, Work
from cuggino.inbox.folder import Entry, entries
from cuggino.lock import Owner, read_owner
from cuggino.loop.course import Step
from cuggino.loop.session import SessionState, load
from cuggino.output.summary import RunTally
from cuggino.project import SPOILED, Project
from cuggino.sandbox import records
from cuggino.watch.ledger import State


class Holder(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Whose name is in the lock. One that does not live was killed: the next command clears up after it."""

    pid: int
    command: str
    since: datetime
    lives: bool


class Paper(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A spec issue or a finding: its file's name and its first line."""

    name: str
    title: str


class BacklogItem(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An item. `reason` says why it is blocked, `failures` how often the loop failed on this content,
    `session` which one would be gone on with.
    """

    name: str
    title: str
    state: Literal["working", "ready", "behind-spec-issue", "blocked"]
    reason: str | None
    failures: int
    session: str | None


class OpenSession(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A session that can be gone on with. `cost_usd` and `seconds` are the whole session's."""

    id: str
    started: datetime | None
    focus: str
    backlog_file: str | None
    iteration: int
    step: Step
    cost_usd: float
    seconds: float


class Status(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What `cuggino status --json` prints. `at` is when it was looked at, `work` what the living holder does,
    `last` the newest session that is over or interrupted, as the newest log that has one tells of it.
    """

    at: datetime
    root: str
    holder: Holder | None
    work: Work | None
    backlog: tuple[BacklogItem, ...]
    spec_issues: tuple[Paper, ...]
    findings: tuple[Paper, ...]
    sessions: tuple[OpenSession, ...]
    last: PastSession | None
    problems: tuple[str, ...]


def gather(project: Project, now: datetime | None = None) -> Status:
    """Look at everything once. Raises nothing for what the files hold."""
    problems: list[str] = []
    owner = _owner(project, problems)
    states = list(_states(project, problems))
    apart = [state for place in _sandboxes(project) for state in _states(place, problems)]
    log = growing(project, owner)
    work = None
    if owner is not None and owner.lives():
        work = _work(owner, log, [*states, *apart], problems)
    at_work = set() if work is None else {job.session for job in work.jobs}
    unfinished = [state for state in states if state.ended is None and state.id not in at_work]
    begun = [*unfinished, *(state for state in apart if state.ended is None and state.id not in at_work)]
    issues = _papers(project.spec_issues, problems)
    return Status(
        at=now or datetime.now(UTC).replace(microsecond=0),
        root=_spelled_out(str(project.root)),
        holder=None if owner is None else _holder(owner),
        work=work,
        backlog=tuple(_backlog(project, work, bool(issues), begun, problems)),
        spec_issues=issues,
        findings=_papers(project.tbd, problems),
        sessions=tuple(_open_session(state) for state in unfinished),
        last=_last(project, log, at_work, problems),
        problems=tuple(problems),
    )


# ---- who works here, and on what --------------------------------------------------------------


def _owner(project: Project, problems: list[str]) -> Owner | None:
    try:
        return read_owner(project)
    except (StorageError, OSError, *SPOILED) as error:
        problems.append(f"Whether something runs here is not known: {project.lock_file} cannot be read: {error}")
        return None


def _holder(owner: Owner) -> Holder:
    return Holder(pid=owner.pid, command=owner.command, since=owner.since, lives=owner.lives())


def _work(owner: Owner, log: Path | None, states: list[SessionState], problems: list[str]) -> Work:
    """What the log of the living command tells, and, more exactly between two events, its session's state."""
    begin = Work(phase="starting", since=owner.since.isoformat(), log=None if log is None else log.stem)
    following = Following(begin)
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
    """What can be read of the sessions' states, oldest first."""
    for path in sorted(project.wip.glob("*.json")):
        if path.name.startswith("."):
            continue
        try:
            yield load(project, path).state
        except (StorageError, *SPOILED) as error:
            if path.exists():
                problems.append(f"A session is passed over: {_spelled_out(str(error))}")


def _sandboxes(project: Project) -> Iterator[Project]:
    """The places in which items are worked on apart."""
    for record in records.every(project):
        if record.sandbox.item is not None and record.exists:
            yield Project(record.sandbox.root)


def _open_session(state: SessionState) -> OpenSession:
    return OpenSession(
        id=state.id,
        started=born(state.id),
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
    project: Project, work: Work | None, behind: bool, begun: list[SessionState], problems: list[str]
) -> Iterator[BacklogItem]:
    """In the order in which they are taken, as the watch would judge them now."""
    troubles = _troubles(project, problems).items
    at_work = set() if work is None else {job.backlog_file for job in work.jobs}
    for entry in _entries(project.backlog, problems):
        item = read_item(project, entry.name)
        if item is None:
            continue
        shown = _spelled_out(entry.name)
        trouble = troubles.get(shown)
        if trouble is not None and trouble.digest != item.digest:
            trouble = None
        reason = trouble.blocked if trouble is not None else None
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
            failures=0 if trouble is None else trouble.attempts,
            session=next(
                (it.id for it in begun if (it.backlog_file, it.backlog_hash) == (entry.name, item.digest)), None
            ),
        )


def _troubles(project: Project, problems: list[str]) -> State:
    try:
        return msgspec.json.decode(project.state_file.read_bytes(), type=State)
    except FileNotFoundError:
        return State()
    except (OSError, *SPOILED) as error:
        problems.append(f"What failed before is not known: {project.state_file} cannot be read: {error}")
        return State()


def _papers(folder: Path, problems: list[str]) -> tuple[Paper, ...]:
    return tuple(Paper(name=_spelled_out(entry.name), title=entry.title) for entry in _entries(folder, problems))


def _entries(folder: Path, problems: list[str]) -> tuple[Entry, ...]:
    try:
        return entries(folder)
    except StorageError as error:
        problems.append(error.message)
        return ()


def _spelled_out(name: str) -> str:
    """A name that is no UTF-8 cannot be written as JSON as it is."""
    return name.encode("utf-8", "backslashreplace").decode()
