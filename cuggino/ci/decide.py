"""Decide what a watch over a pull request does next: pure functions of a poll and of the stored state.

Names decide whether a failure is new, never times. Green is what remains when nothing contradicts it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Literal, TypeAlias

import msgspec

from cuggino.ci.checks import System, current_checks, label, running
from cuggino.ci.intervals import DEFAULT
from cuggino.ci.pull_request import Check, Comment, PullRequestSnapshot, Thread
from cuggino.ci.state import CiState
from cuggino.config import Threads

ATTEMPTS = 2
"""How many times an agent tries to fix one check."""

GRACE = 3
"""The number of polls of a head during which missing checks may still appear."""

MISSING = 10
"""The number of polls of a head after which a check that is gone is left to a person."""

FAILED_POLLS = 5
"""This many failed polls in a row end the watch."""

Actionable: TypeAlias = Literal["failing", "pending", "passing"]
Ending: TypeAlias = Literal["all_green", "pr_merged", "pr_closed", "iterations"]

_MARK = "<!-- cuggino: answer to {} -->"
_MARKED = re.compile(r"<!-- cuggino: answer to (\S+) -->\s*\Z")
_MEMBERS = ("OWNER", "MEMBER", "COLLABORATOR")


# ---- failures ---------------------------------------------------------------------------------


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """What failed under one name, in all workflows that have it."""

    name: str
    checks: tuple[Check, ...]


def conflict_name(base: str) -> str:
    """Return what the conflict with the base is called where checks have their names."""
    return f"(merge conflict with {base})"


# ---- threads ----------------------------------------------------------------------------------


def answer_mark(comment: str) -> str:
    """Return the hidden mark of our answer to a thread whose last comment is `comment`."""
    return _MARK.format(comment)


def has_answer(thread: Thread, comment: str) -> bool:
    """Return whether the thread contains our answer to this comment."""
    return any(_answers(each) == comment for each in thread.comments)


def _answers(comment: Comment) -> str | None:
    """Return the comment that this one of ours answers. A mark in anybody else's comment means nothing."""
    marked = _MARKED.search(comment.body) if comment.own else None
    return marked[1] if marked else None


class Trust(msgspec.Struct, frozen=True, kw_only=True):
    """Whose comments are acted on."""

    threads: Threads = "all"
    bots: tuple[str, ...] = ()

    def trusts(self, comment: Comment) -> bool:
        if comment.author is None:
            return False
        if comment.bot:
            return comment.author.lower() in {bot.lower().removesuffix("[bot]") for bot in self.bots}
        return comment.association in _MEMBERS

    def visible(self, thread: Thread) -> tuple[Comment, ...]:
        """Return the comments that an agent sees."""
        return tuple(comment for comment in thread.comments if self.trusts(comment))

    def acts_on(self, thread: Thread, handled: str | None) -> bool:
        """Return whether a comment after our last answer, and after `handled`, is one to act on."""
        fresh: list[Comment] = []
        for comment in thread.comments:
            fresh = [] if _answers(comment) is not None or comment.id == handled else [*fresh, comment]
        wanted = [comment for comment in fresh if self.trusts(comment) and (comment.bot or self.threads == "all")]
        return self.threads != "none" and bool(wanted)


def is_open(thread: Thread) -> bool:
    """Return whether the thread is unresolved and its last comment is not our answer."""
    return not thread.resolved and bool(thread.comments) and _answers(thread.comments[-1]) is None


# ---- a poll -----------------------------------------------------------------------------------


class PollContext(msgspec.Struct, frozen=True, kw_only=True):
    """What a watch knows besides its state file and the poll."""

    system: System = "unknown"
    trust: Trust = Trust()
    settling: bool = False
    """The head is new, and which checks it will have is not known."""
    empty: int = 0
    """How many polls in a row, this one included, found no check that could pass or fail."""


class View(msgspec.Struct, frozen=True, kw_only=True):
    """What a poll means; by default that nothing is known yet."""

    actionable: Actionable = "pending"
    pending: tuple[str, ...] = ()
    """Names of checks that have not ended, or that are missing."""
    missing: tuple[str, ...] = ()
    """Labels of checks that an earlier head had, or this one before, and that are gone."""
    failures: tuple[Failure, ...] = ()
    """New failures."""
    conflict: bool = False
    """A new conflict with the base."""
    threads: tuple[Thread, ...] = ()
    """New threads to act on."""
    open_threads: tuple[Thread, ...] = ()
    """Unresolved threads that are not acted on."""
    cancelled: tuple[str, ...] = ()
    green: bool = False

    @property
    def new_failures(self) -> int:
        return len(self.failures) + self.conflict

    @property
    def status(self) -> str:
        return (
            f"actionable={self.actionable} new_failures={self.new_failures} new_threads={len(self.threads)} "
            f"pending=[{', '.join(self.pending)}]"
        )


def has_results(pull: PullRequestSnapshot) -> bool:
    """Return whether any check could pass or fail."""
    return any(check.outcome != "ignored" for check in current_checks(pull))


def view(pull: PullRequestSnapshot, state: CiState, context: PollContext) -> View:
    """Return the meaning of a poll of the stored head."""
    checks = current_checks(pull, context.system)
    by_outcome = {
        outcome: tuple(dict.fromkeys(check.name for check in checks if check.outcome == outcome))
        for outcome in ("failed", "pending", "cancelled")
    }
    missing = missing_checks(pull, state)
    pending = (*by_outcome["pending"], *dict.fromkeys(running(pull, checks)), *missing)
    conflicting = pull.mergeable == "CONFLICTING"
    unresolved = [thread for thread in pull.threads if is_open(thread)]
    threads = tuple(
        thread for thread in unresolved
        if state.handled_threads.get(thread.id) != thread.comments[-1].id
        and context.trust.acts_on(thread, state.handled_threads.get(thread.id))
    )  # fmt: skip
    complete = has_results(pull) and not context.settling
    certain = pull.mergeable != "UNKNOWN" and (complete or context.empty > GRACE)
    waits = pending or by_outcome["cancelled"] or not certain
    actionable: Actionable = "failing" if by_outcome["failed"] or conflicting else "pending" if waits else "passing"
    return View(
        actionable=actionable,
        pending=pending,
        missing=missing,
        failures=_new_failures(checks, state),
        conflict=conflicting and conflict_name(pull.base) not in state.handled_checks,
        threads=threads,
        open_threads=tuple(thread for thread in unresolved if thread not in threads),
        cancelled=by_outcome["cancelled"],
        green=actionable == "passing" and not threads and pull.state == "OPEN" and pull.head == state.head,
    )


def missing_checks(pull: PullRequestSnapshot, state: CiState) -> tuple[str, ...]:
    """Return the labels of the expected checks that the head does not have. None is dropped without a person."""
    existing = {label(check) for check in pull.checks}
    return tuple(name for name in state.expected if name not in existing and name not in state.accepted)


def _new_failures(checks: Sequence[Check], state: CiState) -> tuple[Failure, ...]:
    """Return what failed and is not handled, without runs that were started again and whose next run has not begun."""
    rerun = {rerun.run for rerun in state.reruns if rerun.head == state.head}
    failed = [
        check for check in checks
        if check.outcome == "failed" and check.name not in state.handled_checks and str(check.id) not in rerun
    ]  # fmt: skip
    return tuple(
        Failure(name=name, checks=tuple(check for check in failed if check.name == name))
        for name in dict.fromkeys(check.name for check in failed)
    )


def was_rerun(failure: Failure, state: CiState) -> bool:
    """Return whether the check was run again on this head: it has then failed twice, which makes it real."""
    return any(rerun.check == failure.name and rerun.head == state.head for rerun in state.reruns)


def ending(pull: PullRequestSnapshot, seen: View, *, iterations: int, limit: int) -> Ending | None:
    """Return why the watch ends after its `iterations`th iteration, or None if it continues."""
    match pull.state:
        case "MERGED":
            return "pr_merged"
        case "CLOSED":
            return "pr_closed"
    if seen.green:
        return "all_green"
    return "iterations" if iterations >= limit else None


EXIT_CODES: Mapping[str, int] = {"all_green": 0, "pr_merged": 0, "pr_closed": 1, "failed": 1, "iterations": 5}


# ---- whose pull request -----------------------------------------------------------------------


def refusal_reason(pull: PullRequestSnapshot, *, author_may_write: bool, trust_author: bool) -> str | None:
    """Return why this pull request is not watched, or None if it is. `author_may_write`: to the base repository."""
    if pull.state != "OPEN":
        return None
    if pull.head is None or pull.head_repository is None:
        return f"its branch {pull.branch} does not exist any more."
    if pull.foreign and not trust_author:
        return (
            f"it comes from another repository ({pull.head_repository}), so agents would read the code, logs and "
            "instructions of strangers. To watch it anyway: --trust-author"
        )
    if not author_may_write and not trust_author:
        return (
            f"its author ({pull.author or 'a deleted account'}) cannot write to the repository, so agents would read "
            "the code, logs and instructions of a stranger. To watch it anyway: --trust-author"
        )
    if not pull.may_push:
        return f"its branch {pull.branch} in {pull.head_repository} cannot be pushed to with this login."
    return None


def head_is_recent(pull: PullRequestSnapshot, stored: CiState | None, now: datetime) -> bool:
    """Return whether the head is so new that checks may be missing, which a watch that starts now cannot know."""
    pushes = (pull.pushed, stored.last_push if stored is not None else None)
    return any(at is not None and (now - at).total_seconds() < GRACE * DEFAULT.first for at in pushes)
