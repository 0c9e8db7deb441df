"""Errors that people read: each says what failed, where, and how to fix it.

Services raise them; only `cuggino.main` turns them into a message on stderr and an exit code.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from enum import Enum
from typing import ClassVar


class CugginoError(Exception):
    """A failure that a person can act on. The command ends with `exit_code`."""

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *, advice: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.advice = advice

    def __str__(self) -> str:
        return f"{self.message}\n{self.advice}" if self.advice else self.message


class UsageError(CugginoError):
    """Wrong arguments."""

    exit_code = 2


class ConfigError(CugginoError):
    """A wrong configuration file: names the file, the key, the value and what is expected."""

    exit_code = 2


class TrustError(CugginoError):
    """Others own or can change the project, or a checkout brought files that only cuggino may write."""

    exit_code = 2


class LockedError(CugginoError):
    """Another command works in this project."""


class StorageError(CugginoError):
    """A file of the project could not be read or written."""


class GitError(CugginoError):
    """git failed; the message quotes it."""


class GitHubError(CugginoError):
    """GitHub or the person's `gh` failed or could not be reached; the message quotes it."""


class SandboxError(CugginoError):
    """A sandbox could not be created, or its work not integrated; the work so far is kept."""


class NotFound(CugginoError):
    """Nothing has the name or ID that was given, or more than one thing has."""

    exit_code = 2


class LlmSessionErrorKind(Enum):
    """Why an agent failed, as far as its own protocol shows."""

    SETUP = "setup"
    """No program, no login, unknown flags or model, no credit: a person must act. Never retried."""
    OVERLOADED = "overloaded"
    """The provider is overloaded or limits the rate. Retried with backoff."""
    USAGE_LIMIT = "usage-limit"
    """A usage limit was reached; cuggino waits until `resets_at`, if that is known."""
    NETWORK = "network"
    """The provider could not be reached, or the connection broke. Retried with backoff."""
    REFUSED = "refused"
    """The provider refused this request (too long, invalid). Not retried."""
    CRASHED = "crashed"
    """The agent exited without a result. Asked again."""


class LlmSessionError(CugginoError):
    """An agent failed: its message, the end of its stderr, how to fix it, and the kind of failure."""

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
    """A loop failed in `phase`; LoopFailed was its last event. `kind` is set if an agent's error was the reason."""

    def __init__(self, message: str, phase: str, *, advice: str = "", kind: LlmSessionErrorKind | None = None) -> None:
        super().__init__(message, advice=advice)
        self.phase = phase
        self.kind = kind


def leaves(error: BaseException) -> Iterator[BaseException]:
    """Yield the exceptions in a tree of exception groups, in order; an exception that is not a group yields itself."""
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from leaves(inner)
    else:
        yield error
