"""What claude's protocol says went wrong → errors that a person can act on.

Evidence is the protocol only: the `error` of a synthetic message, the status of the API, a rate limit event,
the exit status, and the stderr of a run that printed no line at all. What agents and tools say is none.
"""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec

from cuggino.agents.claude.lines import Line, RateLimit
from cuggino.agents.exit_report import Cause, describe_exit, last_lines
from cuggino.errors import LlmSessionError
from cuggino.errors import LlmSessionErrorKind as Kind


class Complaint(msgspec.Struct):
    """What has been said about a request that failed."""

    error: str | None = None
    words: str = ""
    limit: RateLimit | None = None
    retried: int | None = None
    """The status for which claude last tried again by itself."""


_LOG_IN = "Run `claude` and type /login, or set ANTHROPIC_API_KEY to a valid key."
_LOGIN = Cause(Kind.SETUP, "claude is not logged in, or its key is refused", _LOG_IN)
_MODEL = Cause(
    Kind.SETUP,
    "claude cannot use this model",
    "Set `model` in .cuggino.json to one that this account may use, or leave it out.",
)
_INVALID = Cause(Kind.REFUSED, "claude's provider refused the request")
_OVERLOADED = Cause(Kind.OVERLOADED, "claude's provider is overloaded")
_RATE = Cause(Kind.OVERLOADED, "claude's provider limits the rate of requests")
_USAGE_LIMIT = Cause(Kind.USAGE_LIMIT, "claude has reached the usage limit of its account")
_NETWORK = Cause(
    Kind.NETWORK,
    "claude could not reach its provider, or lost the connection",
    "Check the network, and ANTHROPIC_BASE_URL if it is set.",
)
_TOO_LONG = Cause(
    Kind.REFUSED,
    "claude's provider refused the request, which is too long",
    "Give the agent less at once: a smaller focus, fewer or shorter files that it must read.",
)
_STOPPED = Cause(Kind.CRASHED, "claude was interrupted, or stopped in the middle of its work")
_NOT_STARTED = Cause(
    Kind.SETUP,
    "claude could not start this conversation",
    "To go on with a conversation, claude must be in the folder in which it began.",
)
_UNKNOWN = Cause(Kind.CRASHED, "claude failed")

_BY_NAME = {
    "authentication_failed": _LOGIN,
    "oauth_org_not_allowed": Cause(
        Kind.SETUP, "claude's login is not allowed by its organization", "Log in with another account, or use a key."
    ),
    "billing_error": Cause(
        Kind.SETUP, "claude's account has no credit", "Add credit to the account, or log in with another one."
    ),
    "model_not_found": _MODEL,
    "invalid_request": _INVALID,
    "overloaded": _OVERLOADED,
    "rate_limit": _RATE,
}


def is_login(error: str, status: int | None) -> bool:
    """Refused for who asks, which no further attempt changes."""
    return status in (401, 403) or error in ("authentication_failed", "oauth_org_not_allowed")


def protocol_failure(
    complaint: Complaint, result: Line | None, exit_status: int | None, stderr: str, *, started: bool
) -> LlmSessionError:
    """claude told that it failed: by `result`, or before it by `complaint` alone."""
    status = (result.api_error_status if result else None) or complaint.retried
    limit = complaint.limit
    if limit is not None and limit.status == "rejected" and (status == 429 or complaint.error == "rate_limit"):
        cause = _USAGE_LIMIT
        resets_at = _moment(limit.resetsAt)
    else:
        cause, resets_at = _cause(complaint, result, status, started=started), None
    words = complaint.words or (result.result if result else None) or "; ".join(result.errors if result else ())
    told = f" ({status})" if status is not None else ""
    message = f"{cause.what}{told}: {words}" if words else f"{cause.what}{told}."
    return LlmSessionError(
        message,
        cause.kind,
        advice=cause.advice,
        resets_at=resets_at,
        stderr=last_lines(stderr),
        exit_status=exit_status,
    )


def _cause(complaint: Complaint, result: Line | None, status: int | None, *, started: bool) -> Cause:
    if not started:
        return _NOT_STARTED
    if status == 413 or (result is not None and result.terminal_reason == "prompt_too_long"):
        return _TOO_LONG
    if complaint.error in _BY_NAME:
        return _BY_NAME[complaint.error]
    match status:
        case 401 | 403:
            return _LOGIN
        case 404:
            return _MODEL
        case 429:
            return _RATE
        case int() if status >= 500 or status == 408:
            return _OVERLOADED
        case int():
            return _INVALID
    if complaint.error == "server_error":
        return _NETWORK
    if result is not None and result.subtype == "error_during_execution":
        return _STOPPED
    return _UNKNOWN


def program_failed(exit_status: int, stderr: str, *, printed_nothing: bool) -> LlmSessionError:
    """claude ended without a result, and so without saying how."""
    end = last_lines(stderr)
    if printed_nothing and exit_status == 1 and end:
        return LlmSessionError(
            f"claude refused to start: {end}",
            Kind.SETUP,
            advice=_start_advice(end),
            stderr=end,
            exit_status=exit_status,
        )
    told = f" It wrote: {end}" if end else ""
    return LlmSessionError(
        f"claude ended without a result ({describe_exit(exit_status)}).{told}",
        Kind.CRASHED,
        stderr=end,
        exit_status=exit_status,
    )


def did_not_end(exit_status: int, stderr: str) -> LlmSessionError:
    """claude told a good result, and then its process came to a bad end."""
    end = last_lines(stderr)
    told = f" It wrote: {end}" if end else ""
    return LlmSessionError(
        f"claude finished its work, but then it did not exit well ({describe_exit(exit_status)}).{told}",
        Kind.CRASHED,
        stderr=end,
        exit_status=exit_status,
    )


def _start_advice(stderr: str) -> str:
    if "root/sudo" in stderr:
        return "Run cuggino as another user, or set IS_SANDBOX=1 if this machine is a sandbox."
    if "already in use" in stderr:
        return "Another claude works in this conversation, or it has been used before: start a new one, or resume it."
    return "Run `claude --version`, and update claude if it is old: cuggino uses flags that it does not know."


def _moment(seconds: float | None) -> datetime | None:
    try:
        return None if seconds is None else datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return None
