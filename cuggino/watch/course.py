"""What a watch does next: a pure function of its state and of what is in the folders."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from cuggino.events import WatchBacklogWaiting, WatchLoopEvent, WatchSpecIssueWaiting


class WatchSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The content of the folders: the number of spec issues, the ready items in order, the number of blocked items."""

    spec_issues: int
    ready: tuple[str, ...]
    blocked: int

    @property
    def not_ready(self) -> int:
        """The number of items that cannot be taken: blocked ones, and all of them while there are spec issues."""
        return self.blocked + (len(self.ready) if self.spec_issues else 0)


class WatchState(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a watch. `finished` counts archived and blocked items, `validated` those at the last validation.

    `places` is the number of items that may be worked on at a time, `active` the number that is.
    """

    places: int = 1
    active: int = 0
    until_idle: bool = False
    validates: bool = False
    every: int = 10
    finished: int = 0
    validated: int = 0
    threshold: int = 0
    draining: bool = False
    failure: Literal["validation-failed", "poll-failed", "setup-failed"] | None = None


class Recount(msgspec.Struct, frozen=True):
    """Read the folders and decide again."""


class Wait(msgspec.Struct, frozen=True):
    """There is nothing to do now. `event` reports that; None while items are being worked on."""

    event: WatchLoopEvent | None


class AwaitItem(msgspec.Struct, frozen=True):
    """Start nothing new: wait for an item that is being worked on to end."""


class Take(msgspec.Struct, frozen=True):
    """Work on this item."""

    name: str


class Validate(msgspec.Struct, frozen=True):
    """Run the validation command, alone in the person's tree."""


class End(msgspec.Struct, frozen=True):
    """End the watch."""

    reason: Literal["idle", "interrupted", "validation-failed", "poll-failed", "setup-failed"]
    exit_code: int


Action: TypeAlias = Recount | Wait | Take | AwaitItem | Validate | End

_EXIT_CODES = {"validation-failed": 1, "poll-failed": 3, "setup-failed": 1}
DRAINED_EXIT_CODE = 130


def decide(state: WatchState, snapshot: WatchSnapshot | None) -> Action:
    """Return the next action. `snapshot` is None if the folders were not read since the last action.

    Items that are being worked on are not among the ready ones.
    """
    if state.active and (state.draining or state.failure is not None):
        return AwaitItem()
    unvalidated = state.validates and state.finished > state.validated
    if state.failure in ("validation-failed", "setup-failed"):
        return End(state.failure, _EXIT_CODES[state.failure])
    if state.failure is not None:
        return Validate() if unvalidated else End(state.failure, _EXIT_CODES[state.failure])
    if state.draining:
        return Validate() if unvalidated else End("interrupted", DRAINED_EXIT_CODE)
    if state.validates and state.finished >= (state.threshold or state.every):
        return Validate()
    if state.active >= state.places:
        return AwaitItem()
    if snapshot is None:
        return Recount()
    if snapshot.spec_issues == 0 and snapshot.ready:
        return Take(snapshot.ready[0])
    if state.active:
        return Wait(None)
    if state.until_idle:
        if unvalidated:
            return Validate()
        return End("idle", 4 if snapshot.spec_issues else 1 if snapshot.blocked else 0)
    return Wait(WatchSpecIssueWaiting() if snapshot.spec_issues else WatchBacklogWaiting())


def after_validation(state: WatchState, finished: int, *, passed: bool) -> WatchState:
    """Return the state with a threshold beyond the validated items, in steps of `every`.

    `finished` is the number of items when the validation began: those that ended meanwhile count for the next one.
    """
    threshold = state.threshold or state.every
    while threshold <= finished:
        threshold += state.every
    return msgspec.structs.replace(
        state,
        validated=finished,
        threshold=threshold,
        failure=state.failure if passed else "validation-failed",
    )
