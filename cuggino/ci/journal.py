"""Where a watch records what it does: in the state file, in the report of this run, and as events."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from cuggino.ci.pull_request import Thread
from cuggino.ci.state import CiState, Push, Reply, one_line, replace
from cuggino.ci.state_file import StateFile
from cuggino.events import CiNeedsPerson, CiPushed, Send

_SHOWN = 200


@dataclass
class CiReport:
    """What one run of a watch achieved, collected while it runs."""

    threads: list[tuple[str, str | None, str]] = field(default_factory=list)
    """Path, commit or None, the agent's summary."""
    fixed: list[tuple[str, str]] = field(default_factory=list)
    """Name and cause."""
    commits: list[str] = field(default_factory=list)
    left: list[tuple[str, str]] = field(default_factory=list)
    """What, and why."""
    open_threads: Sequence[Thread] = ()
    status: str = ""
    errors: list[str] = field(default_factory=list)

    def lines(self) -> tuple[str, ...]:
        lines = [*self.errors]
        for path, commit, summary in self.threads:
            lines.append(f"thread {path}: {commit[:7] if commit else 'not changed'}: {_short(summary)}")
        lines += [f"fixed {name}: {_short(cause)}" for name, cause in self.fixed]
        lines += [f"pushed {commit}" for commit in self.commits]
        lines += [f"for you: {what}: {_short(reason)}" for what, reason in self.left]
        lines += [f"open thread: {thread.path}: {_short(thread.comments[-1].body)}" for thread in self.open_threads]
        return (*lines, *([f"now: {self.status}"] if self.status else ()))


def _short(text: str) -> str:
    line = one_line(text)
    return f"{line[:_SHOWN]}…" if len(line) > _SHOWN else line


class Journal:
    """The record of one watch. `busy` and `head_moved` are about the current iteration.

    An operation outside is written into the state file before it happens, and its result right after. If a watch is
    killed in between, the next one finds out whether it happened, and does nothing twice.
    """

    def __init__(self, file: StateFile, report: CiReport, send: Send, now: Callable[[], datetime]) -> None:
        self.report = report
        self.send = send
        self.busy = False
        """Something was handled."""
        self.head_moved = False
        """We pushed."""
        self._file = file
        self._now = now

    def start_iteration(self) -> None:
        self.busy = self.head_moved = False

    def read(self) -> CiState:
        return self._file.read()

    def record(self, change: Callable[[CiState], CiState]) -> None:
        """Change the state because something was handled."""
        self.busy = True
        self._file.update(change)

    def log(self, text: str) -> None:
        self._file.update(lambda state: state.with_log(text, self._now()))

    def start(self, operation: Push | Reply) -> None:
        """Record that the operation is about to happen."""
        self._file.update(lambda state: replace(state, in_flight=(*state.in_flight, operation)))

    def finish(self, operation: Push | Reply, text: str, *, tried: bool = True) -> None:
        """Record the end of the operation in one write. `tried`: it counts as handled, or as an attempt."""
        self.record(lambda state: self._finished(state, operation, text, tried=tried))

    def _finished(self, state: CiState, operation: Push | Reply, text: str, *, tried: bool) -> CiState:
        in_flight = tuple(each for each in state.in_flight if each != operation)
        state = replace(state.with_log(text, self._now()), in_flight=in_flight)
        if isinstance(operation, Push) and operation.kind == "check" and tried:
            return state.with_attempt(operation.what)
        if isinstance(operation, Reply) and tried:
            return state.with_thread_handled(operation.thread, operation.comment)
        return state

    async def finish_push(self, operation: Push, branch: str) -> None:
        """Record that `operation` is the branch's head now."""
        self.head_moved = True
        text = f"pushed {operation.commit[:7]}: {operation.what}"
        self.record(
            lambda state: self._finished(state, operation, text, tried=True).with_head(operation.commit, self._now())
        )
        self.report.commits.append(operation.commit)
        await self.send(CiPushed(branch=branch, commit=operation.commit))

    async def leave(self, key: str, what: str, reason: str) -> None:
        """Leave `what` to the person, and report that once for each `key`."""
        key = one_line(key)
        if key not in self.read().left:
            self._file.update(lambda state: replace(state, left=(*state.left, key)))
            self.log(f"left to a person: {what}: {reason}")
            self.report.left.append((what, reason))
            await self.send(CiNeedsPerson(what=what, reason=reason))
