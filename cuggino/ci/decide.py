"""What a watch over a pull request does next: from what a poll told, and what is remembered, to what is to be done.

Pure, all of it. Names decide whether a failure is new, never times; and green is what remains when nothing speaks
against it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Literal, TypeAlias

import msgspec

from cuggino.ci.pull import Check, Comment, PullRequest, Thread
from cuggino.ci.state import FIRST_INTERVAL, State
from cuggino.config import Threads

ATTEMPTS = 2
"""How often an agent tries to mend one check."""

GRACE = 3
"""Polls of a head in which checks that are not there may yet come."""

SHORTEST, LONGEST, STEP = 30, 300, 30
"""Bounds of the interval, and what it grows by, in seconds."""

FAILED_POLLS = 5
"""So many in a row end the watch."""

System: TypeAlias = Literal["github-actions", "buildkite", "unknown"]
Actionable: TypeAlias = Literal["failing", "pending", "passing"]
Ending: TypeAlias = Literal["all_green", "pr_merged", "pr_closed", "iterations"]

_MARK = "<!-- cuggino: answer to {} -->"
_MARKED = re.compile(r"<!-- cuggino: answer to (\S+) -->\s*\Z")
_MEMBERS = ("OWNER", "MEMBER", "COLLABORATOR")


# ---- checks -----------------------------------------------------------------------------------


def newest(checks: Iterable[Check]) -> tuple[Check, ...]:
    """Of the runs of one name, workflow and event the newest; one that has not started yet is newer than all."""
    found: dict[tuple[str, str, str], Check] = {}
    for check in checks:
        key = (check.name, check.workflow, check.event)
        if key not in found or _age(check) >= _age(found[key]):
            found[key] = check
    return tuple(found.values())


def _age(check: Check) -> tuple[float, int]:
    started = check.started.timestamp() if check.started is not None else math.inf
    return started, check.id or 0


def without_parent(checks: Sequence[Check], system: System) -> tuple[Check, ...]:
    """Buildkite's failed check of a whole build, beside those of its steps, says nothing that they do not say."""
    names = [check.name for check in checks if check.outcome != "ignored"]

    def is_parent(check: Check) -> bool:
        return re.fullmatch(r"buildkite/[^/]+", check.name) is not None and any(
            name.startswith(f"{check.name}/") for name in names
        )

    return tuple(
        check for check in checks if system != "buildkite" or check.outcome != "failed" or not is_parent(check)
    )


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """What has failed under one name, in all workflows that have it."""

    name: str
    checks: tuple[Check, ...]


def conflict_name(base: str) -> str:
    """What the conflict with the base is called where checks have their names."""
    return f"(merge conflict with {base})"


# ---- threads ----------------------------------------------------------------------------------


def answer_mark(comment: str) -> str:
    """The hidden mark of our answer to a thread whose last comment was this one."""
    return _MARK.format(comment)


def answered(thread: Thread, comment: str) -> bool:
    """Whether the thread holds our answer to this comment."""
    return any(_ours(each) == comment for each in thread.comments)


def _ours(comment: Comment) -> str | None:
    """The comment that this one of ours answers. Nobody else's is ours, whatever mark it carries."""
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
        """What an agent sees of it."""
        return tuple(comment for comment in thread.comments if self.trusts(comment))

    def acts_on(self, thread: Thread, handled: str | None) -> bool:
        """Whether a comment that nobody has acted on yet is one to act on."""
        fresh: list[Comment] = []
        for comment in thread.comments:
            fresh = [] if _ours(comment) is not None or comment.id == handled else [*fresh, comment]
        wanted = [comment for comment in fresh if self.trusts(comment) and (comment.bot or self.threads == "all")]
        return self.threads != "none" and bool(wanted)


def is_open(thread: Thread) -> bool:
    """Unresolved, and the last word is not ours."""
    return not thread.resolved and bool(thread.comments) and _ours(thread.comments[-1]) is None


# ---- a poll -----------------------------------------------------------------------------------


class Known(msgspec.Struct, frozen=True, kw_only=True):
    """What a watch knows besides its file and the poll."""

    system: System = "unknown"
    trust: Trust = Trust()
    settling: bool = False
    """The head is new: checks that it will have may not be there yet."""
    expected: frozenset[str] | None = frozenset()
    """Names of checks that the head before this one had, if that is known."""
    empty: int = 0
    """How many polls in a row have found no check that says anything, this one included."""


class View(msgspec.Struct, frozen=True, kw_only=True):
    """What a poll means."""

    actionable: Actionable
    pending: tuple[str, ...]
    """Names of checks that are not over, or that are expected and not there."""
    failures: tuple[Failure, ...]
    """New ones."""
    conflict: bool
    """A new conflict with the base."""
    threads: tuple[Thread, ...]
    """New ones to act on."""
    open: tuple[Thread, ...]
    """Unresolved ones that are not acted on."""
    cancelled: tuple[str, ...]
    green: bool

    @property
    def new_failures(self) -> int:
        return len(self.failures) + self.conflict

    @property
    def status(self) -> str:
        return (
            f"actionable={self.actionable} new_failures={self.new_failures} new_threads={len(self.threads)} "
            f"pending=[{', '.join(self.pending)}]"
        )


def says_something(pull: PullRequest) -> bool:
    """Whether there is any check that could pass or fail."""
    return any(check.outcome != "ignored" for check in pull.checks)


def view(pull: PullRequest, state: State, known: Known) -> View:
    """The meaning of a poll of the stored head."""
    checks = without_parent(newest(pull.checks), known.system)
    by_outcome = {
        outcome: tuple(dict.fromkeys(check.name for check in checks if check.outcome == outcome))
        for outcome in ("passed", "failed", "pending", "cancelled")
    }
    there = {check.name for check in pull.checks}
    missing = sorted((known.expected or frozenset()) - there) if known.settling else []
    going_on = {check.workflow for check in checks if check.outcome == "pending"}
    to_come = (f"(the rest of {workflow})" for workflow in pull.unfinished if workflow not in going_on)
    pending = (*by_outcome["pending"], *dict.fromkeys(to_come), *missing)
    failed = [
        check for check in checks if check.outcome == "failed" and check.name not in state.checks
        and not _is_run_again(check, state)
    ]  # fmt: skip
    failures = tuple(
        Failure(name=name, checks=tuple(check for check in failed if check.name == name))
        for name in dict.fromkeys(check.name for check in failed)
    )
    conflicting = pull.mergeable == "CONFLICTING"
    unresolved = [thread for thread in pull.threads if is_open(thread)]
    threads = tuple(
        thread for thread in unresolved
        if state.threads.get(thread.id) != thread.comments[-1].id
        and known.trust.acts_on(thread, state.threads.get(thread.id))
    )  # fmt: skip
    complete = says_something(pull) and not (known.settling and known.expected is None)
    certain = pull.mergeable != "UNKNOWN" and (complete or known.empty > GRACE)
    waits = pending or by_outcome["cancelled"] or not certain
    actionable: Actionable = "failing" if by_outcome["failed"] or conflicting else "pending" if waits else "passing"
    return View(
        actionable=actionable,
        pending=pending,
        failures=failures,
        conflict=conflicting and conflict_name(pull.base) not in state.checks,
        threads=threads,
        open=tuple(thread for thread in unresolved if thread not in threads),
        cancelled=by_outcome["cancelled"],
        green=actionable == "passing" and not threads and pull.state == "OPEN" and pull.head == state.head,
    )


def _is_run_again(check: Check, state: State) -> bool:
    """Whether this very run was run again: what follows it is not there yet."""
    return any(again.run == run_name(check) and again.head == state.head for again in state.again)


def run_name(check: Check) -> str:
    return str(check.id)


def was_run_again(failure: Failure, state: State) -> bool:
    """Whether the check was run again on this head: then it has failed twice, and that is real."""
    return any(again.check == failure.name and again.head == state.head for again in state.again)


def ending(pull: PullRequest, seen: View, *, iterations: int, limit: int) -> Ending | None:
    """Why the watch is over after this iteration, which is its `iterations`th; None: it goes on."""
    match pull.state:
        case "MERGED":
            return "pr_merged"
        case "CLOSED":
            return "pr_closed"
    if seen.green:
        return "all_green"
    return "iterations" if iterations >= limit else None


EXIT_CODES: Mapping[str, int] = {
    "all_green": 0,
    "pr_merged": 0,
    "pr_closed": 1,
    "failed": 1,
    "iterations": 5,
}


def next_interval(interval: int, *, busy: bool, limited: float | None) -> int:
    """Seconds until the next poll. `limited`: GitHub wants so many without a request; `busy`: something was done."""
    if limited is not None:
        return max(LONGEST, math.ceil(limited))
    if busy:
        return max(SHORTEST, min(interval, LONGEST) // 2)
    return min(LONGEST, max(interval, SHORTEST) + STEP)


# ---- whose pull request -----------------------------------------------------------------------


def refusal(pull: PullRequest, *, author_may_write: bool, trust_author: bool) -> str | None:
    """Why this pull request is not worked on; None: it is. `author_may_write` in the repository that it is for."""
    if pull.state != "OPEN":
        return None
    if pull.head is None or pull.head_repository is None:
        return f"its branch {pull.branch} does not exist any more."
    if pull.foreign and not trust_author:
        return (
            f"it comes from another repository ({pull.head_repository}): its code, logs and instructions are other "
            "people's, and agents would read them. --trust-author watches it all the same."
        )
    if not author_may_write and not trust_author:
        return (
            f"its author ({pull.author or 'whose account is gone'}) cannot write to the repository: agents would read "
            "a stranger's code, logs and instructions. --trust-author watches it all the same."
        )
    if not pull.may_push:
        return f"its branch {pull.branch} in {pull.head_repository} cannot be pushed to with this login."
    return None


def resumed_head_is_young(state: State, now: datetime) -> bool:
    """Whether the head was pushed so lately that its checks may not all be there: what the last watch knew of them is
    lost."""
    return state.last_push is not None and (now - state.last_push).total_seconds() < GRACE * FIRST_INTERVAL
