"""What opencode's protocol reports when a run failed → errors that a person can act on.

Evidence: the name of an `error` line, the status and the body of the provider's answer in it, and what all programs
have.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from cuggino.agents.failures import Cause, Causes, to_moment
from cuggino.agents.opencode.lines import OpencodeError
from cuggino.errors import LlmSessionError
from cuggino.errors import LlmSessionErrorKind as Kind

CAUSES = Causes(
    "opencode",
    login="Run `opencode auth login`, or set the provider's key to a valid one.",
    network="Check the network, and the provider's address in opencode's configuration.",
    model="Set `model` in .cuggino.json to one that `opencode models` lists, as provider/model, or remove it.",
    refusals={"Session not found": "This conversation is not in opencode's database any more: start a new one."},
)
_NOT_STARTED = Cause(
    Kind.SETUP,
    "opencode failed before it asked its provider",
    "Often the model is the reason: `opencode models` lists the known ones, as provider/model. "
    "opencode's log has more: ~/.local/share/opencode/log.",
)
_BY_NAME = {
    "ProviderAuthError": CAUSES.login,
    "ContextOverflowError": CAUSES.too_long,
    "ContentFilterError": CAUSES.invalid,
    "MessageAbortedError": CAUSES.interrupted,
}
_LIMITS = ("usage_limit_reached", "GoUsageLimitError", "FreeUsageLimitError")
_NO_CREDIT = ("insufficient_quota", "billing_error", "CreditsError")


def is_login(error: OpencodeError) -> bool:
    """Return whether the login was rejected, which no further attempt changes."""
    return _find_cause(error, started=True) is CAUSES.login


def protocol_failure(
    error: OpencodeError, exit_status: int | None, stderr: str, *, started: bool = True
) -> LlmSessionError:
    """Return the error that opencode reported."""
    cause, words = _find_cause(error, started=started), error.data.message or error.name
    if logged := _find_logged(error.data.ref, stderr):
        words = logged
        cause = CAUSES.model if logged.startswith("ProviderModelNotFoundError") else cause
    resets_at = _find_reset(error) if cause.kind is Kind.USAGE_LIMIT else None
    return cause.error(
        words, status=error.data.status_code, resets_at=resets_at, stderr=stderr, exit_status=exit_status
    )


def _find_cause(error: OpencodeError, *, started: bool) -> Cause:
    if error.name in _BY_NAME:
        return _BY_NAME[error.name]
    if error.name != "APIError":
        return CAUSES.unknown if started else _NOT_STARTED
    answer = _provider_error(error)
    names = {value for key in ("type", "code") if isinstance(value := answer.get(key), str)}
    if names.intersection(_LIMITS):
        return CAUSES.usage_limit
    if names.intersection(_NO_CREDIT):
        return CAUSES.credit
    status = error.data.status_code
    return CAUSES.network if status is None else CAUSES.by_status(status)


def _provider_error(error: OpencodeError) -> dict[str, Any]:
    """Return the `error` of the provider's answer, which names it by `type` or `code`."""
    try:
        body = msgspec.json.decode(error.data.response_body)
    except (msgspec.DecodeError, RecursionError):
        return {}
    found = body.get("error") if isinstance(body, dict) else None
    return found if isinstance(found, dict) else {}


def _find_logged(ref: str | None, stderr: str) -> str:
    """Return the error that the log on stderr has under this name; empty if it has none."""
    if ref is None:
        return ""
    found = re.search(rf'\bref={re.escape(ref)} error="((?:[^"\\]|\\.)*)"', stderr)
    return found[1] if found else ""


def _find_reset(error: OpencodeError) -> datetime | None:
    """Return when the limit ends: a moment in the body, or seconds from now in the response's headers."""
    moment = _provider_error(error).get("resets_at")
    if isinstance(moment, int | float):
        return to_moment(moment)
    try:
        return datetime.now(UTC) + timedelta(seconds=float(error.data.response_headers["retry-after"]))
    except (KeyError, ValueError, OverflowError):
        return None
