"""Past sessions, folded from the lines of logs."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from cuggino import events, records
from cuggino.history.logs import LogRecord, read
from cuggino.output.render import limit_value
from cuggino.output.summary import RunTally

Outcome: TypeAlias = Literal[
    "approved", "spec-issue", "max-iterations", "limit", "failed", "interrupted", "ended", "running"
]


class PastSession(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A loop or an audit, over all commands that worked on it.

    `seconds` is the sum over its logs of the time from the first to the last event. `outcome` is `ended` for audits,
    and `running` or `interrupted` for sessions without a last event. `why` names the limit, spec issue or failure.
    """

    id: str
    kind: Literal["loop", "audit"]
    started: str
    last_event: str
    focus: str | None
    backlog_file: str | None
    outcome: Outcome
    why: str | None
    seconds: float
    iterations: int
    tasks: int
    commits: int
    cost_usd: float | None
    cost_is_partial: bool
    logs: tuple[str, ...]


class History:
    """A fold over logs, oldest first: `begin` one, then `add` its lines. `sessions` works at any time."""

    def __init__(self) -> None:
        self.unreadable: list[str] = []
        """The logs that could not be read, each with the reason."""
        self._sessions: dict[str, _Session] = {}
        self._log = ""
        self._audit: _Session | None = None
        self._audit_begins = False

    def begin(self, log: str) -> None:
        """Start with the log that has this ID."""
        self._log, self._audit, self._audit_begins = log, None, False

    def add(self, line: LogRecord) -> None:
        if line.session is None:
            self._add_watch(line.event)
            return
        session = self._sessions.get(line.session)
        if session is None:
            session = self._sessions[line.session] = _Session(line.session, line.at)
            if self._audit_begins and not isinstance(line.event, events.LoopPhaseEvent):
                self._audit, self._audit_begins = session, False
                session.kind = "audit"
        session.add(line, self._log)

    def _add_watch(self, event: events.Event | None) -> None:
        match event:
            case events.WatchAuditStarted():
                self._audit, self._audit_begins = None, True
            case events.WatchAuditEnded() if self._audit is not None:
                self._audit.outcome = "ended"
            case events.WatchAuditFailed() if self._audit is not None:
                self._audit.outcome, self._audit.why = "failed", first_line(event.message)
            case events.WatchAuditInterrupted() if self._audit is not None:
                self._audit.outcome = "interrupted"

    def sessions(self, growing: str | None = None) -> list[PastSession]:
        """Return the sessions, latest first. Those without an end in the log `growing` are still running."""
        return [self._sessions[name].summarize(growing) for name in sorted(self._sessions, reverse=True)]


class _Session:
    """Keeps only counts and the latest values: memory does not grow with the number of events."""

    def __init__(self, id: str, at: str) -> None:  # noqa: A002 - it is the id
        self.id = id
        self.kind: Literal["loop", "audit"] = "loop"
        self.outcome: Outcome | None = None
        self.why: str | None = None
        self._start: events.LoopStart | None = None
        self._first = self._last = at
        self._began = at
        self._seconds = 0.0
        self._iterations = 0
        self._logs: list[str] = []
        self._tally = RunTally()

    def add(self, line: LogRecord, log: str) -> None:
        if self._logs[-1:] != [log]:
            self._seconds += seconds_between(self._began, self._last)
            self._began = line.at
            self._logs.append(log)
            self.outcome = self.why = None
        self._last = line.at
        match line.event:
            case None:
                return
            case events.LoopStart():
                self._start = line.event
                self.outcome = self.why = None
            case events.LoopTerminalEvent():
                self.outcome, self.why = _end(line.event)
        if isinstance(line.event, events.LoopPhaseEvent):
            self._iterations = max(self._iterations, line.event.iteration)
        self._tally.add(line.event)

    def summarize(self, growing: str | None) -> PastSession:
        seconds = self._seconds + seconds_between(self._began, self._last)
        summary = self._tally.summary(seconds=seconds)
        start = self._start
        without_end: Outcome = "running" if growing is not None and self._logs[-1] == growing else "interrupted"
        return PastSession(
            id=self.id,
            kind=self.kind,
            started=self._first,
            last_event=self._last,
            focus=None if start is None else start.focus,
            backlog_file=None if start is None else start.backlog_file,
            outcome=self.outcome or without_end,
            why=self.why,
            seconds=round(seconds, 3),
            iterations=self._iterations,
            tasks=summary.tasks,
            commits=summary.commits,
            cost_usd=None if summary.usage is None else summary.usage.cost_usd,
            cost_is_partial=summary.cost_is_partial,
            logs=tuple(self._logs),
        )


def _end(event: events.LoopTerminalEvent) -> tuple[Outcome | None, str | None]:
    match event:
        case events.LoopApproved():
            return "approved", None
        case events.LoopSpecIssue():
            return "spec-issue", event.filename
        case events.LoopMaxIterations():
            return "max-iterations", None
        case events.LoopLimitReached():
            return "limit", limit_value(event)
        case events.LoopFailed():
            return "failed", f"{event.phase}: {first_line(event.message)}"
    return None, None


def first_line(text: str) -> str:
    return text.strip().partition("\n")[0]


def seconds_between(one: str, other: str) -> float:
    """Return the seconds between two time stamps of logs; 0 if one is invalid or the clock was set back."""
    try:
        return max((datetime.fromisoformat(other) - datetime.fromisoformat(one)).total_seconds(), 0.0)
    except (ValueError, TypeError):
        return 0.0


def choose(prefix: str, sessions: Iterable[str], logs: Iterable[str]) -> tuple[str | None, str | None]:
    """Return the session, or else the log, whose ID starts with `prefix`: one of the two. Raise NotFound.

    Sessions come first: the ID of a session starts like that of its log, since both are made in the same minute.
    """
    prefix = prefix.lower()
    by_id = {id: id for id in sorted(sessions)}  # noqa: A001 - it is the id
    if not any(id.startswith(prefix) for id in by_id):  # noqa: A001
        logs = [log for log in logs if prefix and log.startswith(prefix)]
        if logs:
            return None, records.find(prefix, {log: log for log in logs}, "log", list_command="ls .cuggino/logs")
    return records.find(prefix, by_id, "session", list_command="cuggino log"), None


def recall(logs: Iterable[Path]) -> History:
    """Fold these logs, oldest first, without those that were deleted meanwhile."""
    history = History()
    for path in logs:
        history.begin(path.stem)
        try:
            for line in read(path):
                history.add(line)
        except FileNotFoundError:
            continue
        except OSError as error:
            history.unreadable.append(f"{path} cannot be read: {error.strerror}.")
    return history
