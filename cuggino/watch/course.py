"""What the watch does next: a pure function of what it knows."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from cuggino.events import WatchBacklogWaiting, WatchLoopEvent, WatchSpecIssueWaiting


class Known(msgspec.Struct, frozen=True, kw_only=True):
    """What is in the folders: spec issues, items that can be taken (in order), items that are set aside."""

    spec_issues: int
    ready: tuple[str, ...]
    blocked: int

    @property
    def untakeable(self) -> int:
        """Items that exist but cannot be taken."""
        return self.blocked + (len(self.ready) if self.spec_issues else 0)


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """How the watch stands. `finished` counts archived and blocked items, `validated` what the last validation saw.

    `places` is how many items may be worked on at a time, `active` how many are.
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


class Look(msgspec.Struct, frozen=True):
    """Read the folders, and decide again."""


class Wait(msgspec.Struct, frozen=True):
    """Nothing can be done. `told` is the event of this state; None while items are being worked on."""

    told: WatchLoopEvent | None


class Finish(msgspec.Struct, frozen=True):
    """Nothing new begins: wait until an item that is being worked on has come to its end."""


class Take(msgspec.Struct, frozen=True):
    """Work on this item."""

    name: str


class Validate(msgspec.Struct, frozen=True):
    """Run the validation command, alone."""


class End(msgspec.Struct, frozen=True):
    """The watch is over."""

    reason: Literal["idle", "interrupted", "validation-failed", "poll-failed", "setup-failed"]
    exit_code: int


Action: TypeAlias = Look | Wait | Take | Finish | Validate | End

_EXIT_CODES = {"validation-failed": 1, "poll-failed": 3, "setup-failed": 1}
DRAINED = 130


def decide(standing: Standing, known: Known | None) -> Action:
    """What comes next. `known` is None where the folders were not looked at since something was done.

    What is being worked on is not among what is ready.
    """
    if standing.active and (standing.draining or standing.failure is not None):
        return Finish()
    unvalidated = standing.validates and standing.finished > standing.validated
    if standing.failure in ("validation-failed", "setup-failed"):
        return End(standing.failure, _EXIT_CODES[standing.failure])
    if standing.failure is not None:
        return Validate() if unvalidated else End(standing.failure, _EXIT_CODES[standing.failure])
    if standing.draining:
        return Validate() if unvalidated else End("interrupted", DRAINED)
    if standing.validates and standing.finished >= (standing.threshold or standing.every):
        return Validate()
    if known is None:
        return Look()
    if known.spec_issues == 0 and known.ready and standing.active < standing.places:
        return Take(known.ready[0])
    if standing.active:
        return Wait(None)
    if standing.until_idle:
        if unvalidated:
            return Validate()
        return End("idle", 4 if known.spec_issues else 1 if known.blocked else 0)
    return Wait(WatchSpecIssueWaiting() if known.spec_issues else WatchBacklogWaiting())


def after_validation(standing: Standing, *, passed: bool) -> Standing:
    """The threshold moves past what was validated, in steps of `every`."""
    threshold = standing.threshold or standing.every
    while threshold <= standing.finished:
        threshold += standing.every
    return msgspec.structs.replace(
        standing,
        validated=standing.finished,
        threshold=threshold,
        failure=standing.failure if passed else "validation-failed",
    )
