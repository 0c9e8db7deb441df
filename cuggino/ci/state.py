"""The state that a watch over a pull request keeps between polls, and leaves to the next watch."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Literal

import msgspec

from cuggino.ci.intervals import DEFAULT

replace = msgspec.structs.replace


class LogEntry(msgspec.Struct, frozen=True):
    at: datetime
    text: str


class Rerun(msgspec.Struct, frozen=True):
    """A failed run of a check that was started again: the check's next failure on this head is real."""

    head: str
    run: str
    check: str


class Push(msgspec.Struct, frozen=True):
    """`commit`, on top of `onto`, is about to be pushed. It fixes `what`: a check's name, or a thread's subject."""

    onto: str
    commit: str
    kind: Literal["check", "thread"]
    what: str


class Reply(msgspec.Struct, frozen=True):
    """An answer to the thread is about to be posted; `comment` is the thread's last one."""

    thread: str
    comment: str


class ForeignSection(msgspec.Struct, frozen=True):
    """A section that is not ours, with its heading. It stays behind the mandatory section `behind`."""

    behind: str
    lines: tuple[str, ...]


class CiState(msgspec.Struct, frozen=True, kw_only=True):
    """All texts are single lines, see `one_line`."""

    number: int
    head: str
    last_push: datetime | None = None
    iteration: int = 0
    started: datetime
    interval: int = DEFAULT.first
    handled_checks: tuple[str, ...] = ()
    handled_threads: Mapping[str, str] = {}
    """Thread → the ID of its last comment when it was handled."""
    attempts: Mapping[str, int] = {}
    """Check → how many times an agent has tried to fix it."""
    log: tuple[LogEntry, ...] = ()
    status: str = ""
    reruns: tuple[Rerun, ...] = ()
    left: tuple[str, ...] = ()
    """Keys of everything that was reported as left to a person."""
    expected: tuple[str, ...] = ()
    """Labels of the checks that any head had; one that is gone blocks green."""
    accepted: tuple[str, ...] = ()
    """Labels of those that the person no longer expects."""
    in_flight: tuple[Push | Reply, ...] = ()
    """Operations outside that are about to happen."""
    foreign: tuple[ForeignSection, ...] = ()

    def with_expected(self, labels: Iterable[str]) -> CiState:
        return replace(self, expected=tuple(dict.fromkeys((*self.expected, *labels))))

    def with_check_handled(self, name: str) -> CiState:
        return replace(self, handled_checks=tuple(dict.fromkeys((*self.handled_checks, name))))

    def with_thread_handled(self, thread: str, comment: str) -> CiState:
        return replace(self, handled_threads={**self.handled_threads, thread: comment})

    def with_attempt(self, name: str) -> CiState:
        """Count an attempt to fix the check, whatever its result."""
        attempts = {**self.attempts, name: self.attempts.get(name, 0) + 1}
        return replace(self.with_check_handled(name), attempts=attempts)

    def with_head(self, head: str, at: datetime) -> CiState:
        """Move to another head, on which every failure is new."""
        reruns = tuple(rerun for rerun in self.reruns if rerun.head == head)
        return replace(self, head=head, last_push=at.replace(microsecond=0), handled_checks=(), reruns=reruns)

    def with_rerun(self, rerun: Rerun) -> CiState:
        return replace(self, reruns=(*self.reruns, rerun))

    def with_log(self, text: str, at: datetime) -> CiState:
        return replace(self, log=(*self.log, LogEntry(at.replace(microsecond=0), one_line(text) or "-")))


def one_line(text: str) -> str:
    """Return foreign text as the state file can hold it."""
    return " ".join(part for part in re.split(r"[\r\n]+", text) if part).strip()
