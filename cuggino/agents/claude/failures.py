"""What claude's protocol reports when a run failed → errors that a person can act on.

Evidence: the `error` of a synthetic message, the status of the API, a rate limit event, and what all programs have.
"""

from __future__ import annotations

from datetime import datetime

import msgspec

from cuggino.agents.claude.lines import ClaudeLine, ClaudeRateLimit
from cuggino.agents.failures import Cause, Causes, to_moment
from cuggino.errors import LlmSessionError
from cuggino.errors import LlmSessionErrorKind as Kind

CAUSES = Causes(
    "claude",
    login="Run `claude` and type /login, or set ANTHROPIC_API_KEY to a valid key.",
    network="Check the network, and ANTHROPIC_BASE_URL if it is set.",
    refusals={
        "root/sudo": "Run cuggino as another user, or set IS_SANDBOX=1 if this machine is a sandbox.",
        "already in use": (
            "Another claude is using this conversation, or it was used before: start a new one, or resume it."
        ),
    },
)
_NOT_STARTED = Cause(
    Kind.SETUP,
    "claude could not start this conversation",
    "claude can resume a conversation only in the directory in which it began.",
)
_ORGANIZATION = Cause(
    Kind.SETUP, "claude's login is not allowed by its organization", "Log in with another account, or use a key."
)
_BY_NAME = {
    "authentication_failed": CAUSES.login,
    "oauth_org_not_allowed": _ORGANIZATION,
    "billing_error": CAUSES.credit,
    "model_not_found": CAUSES.model,
    "invalid_request": CAUSES.invalid,
    "overloaded": CAUSES.overloaded,
    "rate_limit": CAUSES.rate,
}


class Complaint(msgspec.Struct):
    """What claude has reported about a request that failed."""

    error: str | None = None
    words: str = ""
    limit: ClaudeRateLimit | None = None
    retried: int | None = None
    """The status for which claude itself last retried."""


def is_login(error: str, status: int | None) -> bool:
    """Return whether the login was rejected, which no further attempt changes."""
    return status in (401, 403) or error in ("authentication_failed", "oauth_org_not_allowed")


def protocol_failure(
    complaint: Complaint, result: ClaudeLine | None, exit_status: int | None, stderr: str, *, started: bool
) -> LlmSessionError:
    """Return the error that claude reported: in its result, or before that in `complaint` alone."""
    status = (result.api_error_status if result else None) or complaint.retried
    limit = complaint.limit
    resets_at: datetime | None = None
    if limit is not None and limit.status == "rejected" and (status == 429 or complaint.error == "rate_limit"):
        cause, resets_at = CAUSES.usage_limit, to_moment(limit.resetsAt)
    else:
        cause = _find_cause(complaint, result, status, started=started)
    words = complaint.words or (result.result if result else None) or "; ".join(result.errors if result else ())
    return cause.error(words, status=status, resets_at=resets_at, stderr=stderr, exit_status=exit_status)


def _find_cause(complaint: Complaint, result: ClaudeLine | None, status: int | None, *, started: bool) -> Cause:
    if not started:
        return _NOT_STARTED
    if status == 413 or (result is not None and result.terminal_reason == "prompt_too_long"):
        return CAUSES.too_long
    if complaint.error in _BY_NAME:
        return _BY_NAME[complaint.error]
    if status is not None:
        return CAUSES.by_status(status)
    if complaint.error == "server_error":
        return CAUSES.network
    if result is not None and result.subtype == "error_during_execution":
        return CAUSES.interrupted
    return CAUSES.unknown
