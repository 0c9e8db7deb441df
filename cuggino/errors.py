"""The tree of errors that a person is meant to read.

Every error says what failed, where, and what to do about it. Services raise them; only
`cuggino.main` turns them into a line on stderr and an exit code.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from enum import Enum
from typing import ClassVar


class CugginoError(Exception):
    """Something failed that a person can act on. `exit_code` is what the command ends with."""

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *, advice: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.advice = advice

    def __str__(self) -> str:
        return f"{self.message}\n{self.advice}" if self.advice else self.message


class UsageError(CugginoError):
    """Arguments that cannot be taken."""

    exit_code = 2


class ConfigError(CugginoError):
    """A configuration file that cannot be taken: names the file, the key, what was found and what is allowed."""

    exit_code = 2


class LockedError(CugginoError):
    """Another loop works in this project."""


class StorageError(CugginoError):
    """A file of the project could not be read or written."""


class GitError(CugginoError):
    """git refused; the message holds git's own words."""


class GitHubError(CugginoError):
    """GitHub, or the person's `gh`, could not be asked, or refused; the message holds its own words."""


class SandboxError(CugginoError):
    """A sandbox could not be made, or its work not brought home; what there is of it is kept."""


class NotFound(CugginoError):
    """Nothing has the name or ID that was given, or more than one thing has."""

    exit_code = 2


class LlmSessionErrorKind(Enum):
    """Why an agent failed, as far as its own protocol tells."""

    SETUP = "setup"
    """No binary, not logged in, refused flags, unknown model, no credit: a person must act. Never retried."""
    OVERLOADED = "overloaded"
    """The provider is overloaded or limits the rate. Retried with backoff."""
    USAGE_LIMIT = "usage-limit"
    """A usage limit is reached; `resets_at` says until when, if it is known. Waited for."""
    NETWORK = "network"
    """The provider could not be reached, or the connection broke. Retried with backoff."""
    REFUSED = "refused"
    """The provider refused this request (too long, invalid). Not retried."""
    CRASHED = "crashed"
    """The agent ended without saying how. Asked again."""


class LlmSessionError(CugginoError):
    """An agent failed: what it said, the end of its stderr, what to do, and the kind of failure."""

    def __init__(
        self,
        message: str,
        kind: LlmSessionErrorKind,
        *,
        advice: str = "",
        resets_at: datetime | None = None,
        stderr: str = "",
        exit_status: int | None = None,
    ) -> None:
        super().__init__(message, advice=advice)
        self.kind = kind
        self.resets_at = resets_at
        self.stderr = stderr
        self.exit_status = exit_status


class LoopError(CugginoError):
    """A loop failed: LoopFailed was its last event. `phase` names where; `kind` an agent's error that was why."""

    def __init__(self, message: str, phase: str, *, advice: str = "", kind: LlmSessionErrorKind | None = None) -> None:
        super().__init__(message, advice=advice)
        self.phase = phase
        self.kind = kind


def leaves(error: BaseException) -> Iterator[BaseException]:
    """What a tree of exception groups holds, in order; an exception that is no group is itself."""
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from leaves(inner)
    else:
        yield error
