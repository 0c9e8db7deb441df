"""How a run of an agent's program failed → an LlmSessionError that a person can act on.

A backend reads its program's protocol and picks a `Cause`. Causes that all programs share are here. Only the protocol
is evidence: the program's own error lines, the status of its provider's API, the exit status, and the stderr of a run
that printed no line at all. Text from agents and tools never is.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import NamedTuple

from cuggino.agents.exit_report import describe_exit, last_lines
from cuggino.errors import LlmSessionError
from cuggino.errors import LlmSessionErrorKind as Kind

_MODEL_ADVICE = "Set `model` in .cuggino.json to one that this account may use, or remove it."


class Cause(NamedTuple):
    """Why a program failed, and what a person can do about it."""

    kind: Kind
    what: str
    advice: str = ""

    def error(
        self,
        words: str = "",
        *,
        exit_status: int | None,
        stderr: str = "",
        status: object = None,
        resets_at: datetime | None = None,
    ) -> LlmSessionError:
        """Return the error. `words` are the program's own; `status` is its provider's."""
        what = self.what if status is None else f"{self.what} ({status})"
        return LlmSessionError(
            f"{what}: {words}" if words else f"{what}.",
            self.kind,
            advice=self.advice,
            resets_at=resets_at,
            stderr=last_lines(stderr),
            exit_status=exit_status,
        )


class Causes:
    """The causes that all programs share, worded for one program.

    `login`, `network` and `model` are what a person can do about each. `refusals` maps words that the program prints on
    stderr when it refuses to start to advice. `signals` is false for a program whose exit statuses above 128 do not
    stand for signals.
    """

    def __init__(
        self,
        program: str,
        *,
        login: str,
        network: str,
        model: str = _MODEL_ADVICE,
        refusals: Mapping[str, str] | None = None,
        signals: bool = True,
    ) -> None:
        self._program = program
        self._refusals = refusals or {}
        self._signals = signals
        self.login = Cause(Kind.SETUP, f"{program} is not logged in, or its key was rejected", login)
        self.credit = Cause(
            Kind.SETUP, f"{program}'s account has no credit", "Add credit to the account, or log in with another one."
        )
        self.model = Cause(Kind.SETUP, f"{program} cannot use this model", model)
        self.usage_limit = Cause(Kind.USAGE_LIMIT, f"{program} has reached the usage limit of its account")
        self.overloaded = Cause(Kind.OVERLOADED, f"{program}'s provider is overloaded")
        self.rate = Cause(Kind.OVERLOADED, f"{program}'s provider limits the rate of requests")
        self.network = Cause(Kind.NETWORK, f"{program} could not reach its provider, or lost the connection", network)
        self.invalid = Cause(Kind.REFUSED, f"{program}'s provider rejected the request")
        self.too_long = Cause(
            Kind.REFUSED,
            f"{program}'s provider rejected the request because it is too long",
            "Give the agent less at once: a smaller focus, and fewer or shorter files to read.",
        )
        self.interrupted = Cause(Kind.CRASHED, f"{program} was interrupted, or stopped in the middle of its work")
        self.unknown = Cause(Kind.CRASHED, f"{program} failed")

    def by_status(self, status: int) -> Cause:
        """Return what a provider's HTTP status means when the protocol gives no better reason."""
        match status:
            case 401 | 403:
                return self.login
            case 402:
                return self.credit
            case 404:
                return self.model
            case 413:
                return self.too_long
            case 429:
                return self.rate
        return self.overloaded if status >= 500 or status == 408 else self.invalid

    def refused_to_start(self, stderr: str) -> Cause:
        """Return the cause for a run that printed an error instead of a line of its protocol."""
        default = (
            f"Run `{self._program} --version`, and update {self._program} if it is old:"
            " it may not know the flags that cuggino uses."
        )
        advice = next((advice for words, advice in self._refusals.items() if words in stderr), default)
        return Cause(Kind.SETUP, f"{self._program} refused to start", advice)

    def no_result(self, exit_status: int, stderr: str, *, refused: bool) -> LlmSessionError:
        """Return the error for a run that ended without saying how. `refused`: it printed no line, only an error."""
        end = last_lines(stderr)
        if refused and end:
            cause = self.refused_to_start(end)
        else:
            cause = Cause(Kind.CRASHED, f"{self._program} ended without a result ({self._exit(exit_status)})")
        return cause.error(end, exit_status=exit_status, stderr=stderr)

    def bad_exit(self, exit_status: int, stderr: str) -> LlmSessionError:
        """Return the error for a run that reported success, and whose process then failed."""
        what = f"{self._program} finished its work, but its process did not exit cleanly ({self._exit(exit_status)})"
        return Cause(Kind.CRASHED, what).error(last_lines(stderr), exit_status=exit_status, stderr=stderr)

    def _exit(self, exit_status: int) -> str:
        plain = exit_status >= 0 and not self._signals
        return f"exit status {exit_status}" if plain else describe_exit(exit_status)


def to_moment(seconds: float | None) -> datetime | None:
    """Convert seconds since the epoch; None if there are none, or if no date can hold them."""
    try:
        return None if seconds is None else datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return None
