"""What opencode's protocol says went wrong → errors that a person can act on.

Evidence is the protocol only: the name of an `error` line, the status and the body of the provider's answer in it,
the exit status, and the stderr of a run that printed no line at all. What agents and tools say is none.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from cuggino.agents.exit_report import Cause, describe_exit, last_lines
from cuggino.agents.opencode.lines import Error
from cuggino.errors import LlmSessionError
from cuggino.errors import LlmSessionErrorKind as Kind

_LOGIN = Cause(
    Kind.SETUP,
    "opencode is not logged in, or its key is refused",
    "Run `opencode auth login`, or set the provider's key to a valid one.",
)
_CREDIT = Cause(Kind.SETUP, "opencode's provider gives no more credit", "Add credit to the account, or use another.")
_MODEL = Cause(
    Kind.SETUP,
    "opencode's provider does not know this model",
    "Set `model` in .cuggino.json to one that `opencode models` lists, as provider/model, or leave it out.",
)
_NOT_STARTED = Cause(
    Kind.SETUP,
    "opencode failed before it asked its provider",
    "Often the model is the reason: `opencode models` lists those that there are, as provider/model. "
    "opencode's log says more: ~/.local/share/opencode/log.",
)
_OVERLOADED = Cause(Kind.OVERLOADED, "opencode's provider is overloaded")
_RATE = Cause(Kind.OVERLOADED, "opencode's provider limits the rate of requests")
_USAGE_LIMIT = Cause(Kind.USAGE_LIMIT, "opencode has reached the usage limit of its account")
_NETWORK = Cause(
    Kind.NETWORK,
    "opencode could not reach its provider, or lost the connection",
    "Check the network, and the provider's address in opencode's configuration.",
)
_TOO_LONG = Cause(
    Kind.REFUSED,
    "opencode's provider refused the request, which is too long",
    "Give the agent less at once: a smaller focus, fewer or shorter files that it must read.",
)
_INVALID = Cause(Kind.REFUSED, "opencode's provider refused the request")
_STOPPED = Cause(Kind.CRASHED, "opencode was interrupted, or stopped in the middle of its work")
_UNKNOWN = Cause(Kind.CRASHED, "opencode failed")

_BY_NAME = {
    "ProviderAuthError": _LOGIN,
    "ContextOverflowError": _TOO_LONG,
    "ContentFilterError": _INVALID,
    "MessageAbortedError": _STOPPED,
}
_LIMITS = ("usage_limit_reached", "GoUsageLimitError", "FreeUsageLimitError")
_NO_CREDIT = ("insufficient_quota", "billing_error", "CreditsError")


def is_login(error: Error) -> bool:
    """Refused for who asks, which no further attempt changes."""
    return _cause(error, started=True) is _LOGIN


def protocol_failure(
    error: Error, exit_status: int | None, stderr: str, *, started: bool = True, now: datetime | None = None
) -> LlmSessionError:
    """opencode told that it failed."""
    cause, status = _cause(error, started=started), error.data.status_code
    told = f" ({status})" if status is not None else ""
    words = error.data.message or error.name
    if logged := _logged(error.data.ref, stderr):
        words = logged
        cause = _MODEL if logged.startswith("ProviderModelNotFoundError") else cause
    return LlmSessionError(
        f"{cause.what}{told}: {words}" if words else f"{cause.what}{told}.",
        cause.kind,
        advice=cause.advice,
        resets_at=_reset(error, now or datetime.now(UTC)) if cause.kind is Kind.USAGE_LIMIT else None,
        stderr=last_lines(stderr),
        exit_status=exit_status,
    )


def _cause(error: Error, *, started: bool) -> Cause:
    if error.name in _BY_NAME:
        return _BY_NAME[error.name]
    if error.name != "APIError":
        return _UNKNOWN if started else _NOT_STARTED
    told = _told(error)
    names = {value for key in ("type", "code") if isinstance(value := told.get(key), str)}
    if names.intersection(_LIMITS):
        return _USAGE_LIMIT
    if names.intersection(_NO_CREDIT):
        return _CREDIT
    match error.data.status_code:
        case None:
            return _NETWORK
        case 401 | 403:
            return _LOGIN
        case 402:
            return _CREDIT
        case 404:
            return _MODEL
        case 413:
            return _TOO_LONG
        case 429:
            return _RATE
        case int(status) if status >= 500 or status == 408:
            return _OVERLOADED
    return _INVALID


def _told(error: Error) -> dict[str, Any]:
    """The `error` of the provider's answer, which names it by `type` or `code`."""
    try:
        body = msgspec.json.decode(error.data.response_body)
    except (msgspec.DecodeError, RecursionError):
        return {}
    told = body.get("error") if isinstance(body, dict) else None
    return told if isinstance(told, dict) else {}


def _logged(ref: str | None, stderr: str) -> str:
    """What the log on stderr has under this name; empty if it is not there."""
    if ref is None:
        return ""
    found = re.search(rf'\bref={re.escape(ref)} error="((?:[^"\\]|\\.)*)"', stderr)
    return found[1] if found else ""


def _reset(error: Error, now: datetime) -> datetime | None:
    """When the limit ends: a moment in the body, or seconds from now in the answer's head."""
    try:
        moment = _told(error).get("resets_at")
        if isinstance(moment, int | float):
            return datetime.fromtimestamp(moment, UTC)
        return now + timedelta(seconds=float(error.data.response_headers["retry-after"]))
    except (KeyError, ValueError, OverflowError, OSError):
        return None


def program_failed(exit_status: int, stderr: str, *, printed_nothing: bool) -> LlmSessionError:
    """opencode ended without saying how."""
    end = last_lines(stderr)
    if printed_nothing and exit_status == 1 and end:
        return LlmSessionError(
            f"opencode refused to start: {end}",
            Kind.SETUP,
            advice=_start_advice(end),
            stderr=end,
            exit_status=exit_status,
        )
    told = f" It wrote: {end}" if end else ""
    return LlmSessionError(
        f"opencode did not come to its end ({describe_exit(exit_status)}).{told}",
        Kind.CRASHED,
        stderr=end,
        exit_status=exit_status,
    )


def stopped_short(exit_status: int, stderr: str) -> LlmSessionError:
    """The last answer used tools, and nothing was made of their results."""
    return LlmSessionError(f"{_STOPPED.what}.", _STOPPED.kind, stderr=last_lines(stderr), exit_status=exit_status)


def _start_advice(stderr: str) -> str:
    if "Session not found" in stderr:
        return "This conversation is not in opencode's database any more: start a new one."
    return "Run `opencode --version`, and update opencode if it is old: cuggino uses flags that it does not know."
