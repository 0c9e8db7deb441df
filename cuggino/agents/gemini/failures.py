"""What gemini's protocol reports when a run failed → errors that a person can act on.

Evidence: the error of its result, which holds the provider's answer as JSON or in words; the exit status, which is the
provider's status modulo 256 or one of gemini's own; and what all programs have.
"""

from __future__ import annotations

import json
import re
from datetime import datetime, timedelta
from typing import Any

from cuggino.agents.exit_report import last_lines
from cuggino.agents.failures import Cause, Causes
from cuggino.agents.gemini.lines import GeminiLine
from cuggino.errors import LlmSessionError
from cuggino.errors import LlmSessionErrorKind as Kind

_SHORT_WAIT = timedelta(minutes=5)
"""gemini itself waits this long and retries; it reports a longer limit at once."""

CAUSES = Causes(
    "gemini",
    login="Run `gemini` and type /auth, or set GEMINI_API_KEY to a valid key.",
    network="Check the network, and GOOGLE_GEMINI_BASE_URL if it is set.",
    signals=False,
)
_NOT_STARTED = Cause(
    Kind.SETUP,
    "gemini could not start this conversation",
    "gemini can resume a conversation only in the directory in which it began; a new one needs a new ID.",
)
_CONFIGURATION = Cause(
    Kind.SETUP, "gemini cannot use its settings", "Run `gemini` once in this directory, and fix them."
)
_UNTRUSTED = Cause(Kind.SETUP, "gemini does not trust this directory", "Run `gemini` in it once, and trust it.")

_BY_EXIT = {41: CAUSES.login, 42: _NOT_STARTED, 52: _CONFIGURATION, 55: _UNTRUSTED}
"""gemini's own exit statuses; no provider's status gives one of these."""

_STATUSES = (400, 401, 403, 404, 408, 409, 413, 429, 499, 500, 502, 503, 504, 529)
_BY_MODULO = {status % 256: status for status in _STATUSES}

_UNREACHED = "fetch failed"
"""What node, and gemini after it, prints when there was no connection."""

_DURATION = re.compile(
    r"(?:retry in|reset after) (?:(?P<hours>\d+)h)?(?:(?P<minutes>\d+)m(?!s))?(?:(?P<seconds>[\d.]+)s)?", re.IGNORECASE
)

_NOISE = (
    *("Warning: Basic terminal", "Warning: 256-color", "Warning: True color", "YOLO mode is enabled"),
    *("Ripgrep is not available", "[STARTUP]"),
)
"""How the lines begin that every run prints on stderr."""


def run_failed(result: GeminiLine, reported: str, exit_status: int, stderr: str) -> LlmSessionError:
    """Return the error for a result that is an error, or for a bad exit after a good result.

    `reported` are the words of an error line before the result.
    """
    if result.status == "success":
        return CAUSES.bad_exit(exit_status, _without_noise(stderr))
    words = result.error.message if result.error is not None else reported
    error = _provider_error(words)
    status = error.get("code") or _BY_MODULO.get(exit_status)
    wait = _find_wait(words) if status == 429 else None
    resets_at = None
    if status == 429 and wait is not None and wait > _SHORT_WAIT:
        cause, resets_at = CAUSES.usage_limit, _add(result.timestamp, wait)
    else:
        cause = _find_cause(status, words, error, exit_status)
    return cause.error(
        error.get("message") or words,
        status=status,
        resets_at=resets_at,
        stderr=_without_noise(stderr),
        exit_status=exit_status,
    )


def _find_cause(status: object, words: str, error: dict[str, Any], exit_status: int) -> Cause:
    if "API_KEY_INVALID" in words or str(error.get("message", words)).startswith("API key not valid"):
        return CAUSES.login
    match status:
        case 400 if "token count" in words and "exceeds" in words:
            return CAUSES.too_long
        case 499:
            return CAUSES.overloaded
        case int():
            return CAUSES.by_status(status)
    if _UNREACHED in words:
        return CAUSES.network
    if re.search(r"models/\S+ is not found", words):  # reported without its status
        return CAUSES.model
    return _BY_EXIT.get(exit_status, CAUSES.unknown)


def no_result(exit_status: int, stderr: str, *, printed_nothing: bool) -> LlmSessionError:
    """Return the error for a run without a result, whatever its exit status: an interrupted run exits with 0."""
    end = _without_noise(stderr)
    refused = printed_nothing and exit_status == 1
    cause = CAUSES.refused_to_start(end) if refused else _BY_EXIT.get(exit_status)
    if cause is None:
        return CAUSES.no_result(exit_status, end, refused=False)
    return cause.error(end, stderr=end, exit_status=exit_status)


def _provider_error(words: str) -> dict[str, Any]:
    """Return the provider's answer, which gemini passes on as `[API Error: {"error": {"code": 401, …}}]`."""
    found = re.search(r"\{.*\}", words, re.DOTALL)
    try:
        error = json.loads(found[0])["error"] if found else {}
    except (ValueError, KeyError, TypeError, RecursionError):
        return {}
    return error if isinstance(error, dict) else {}


def _find_wait(words: str) -> timedelta | None:
    """`Please retry in 34.5s`, `Your quota will reset after 3h12m5s`."""
    if (found := _DURATION.search(words)) is None or not any(found.groups()):
        return None
    try:
        return timedelta(**{unit: float(amount) for unit, amount in found.groupdict().items() if amount})
    except (ValueError, OverflowError):
        return None


def _add(timestamp: str, wait: timedelta) -> datetime | None:
    try:
        return datetime.fromisoformat(timestamp) + wait
    except (ValueError, OverflowError):
        return None


def _without_noise(stderr: str) -> str:
    """Return the last lines without colours and without what every run prints."""
    plain = re.sub(r"\x1b\[[0-9;]*m", "", stderr).splitlines()
    return last_lines("\n".join(line for line in plain if not line.startswith(_NOISE)))
