"""What gemini's protocol says went wrong → errors that a person can act on.

Evidence is the protocol only: the error of its result, in which the provider's answer stands as JSON or as words; the
exit status, which is the provider's status modulo 256 or one of gemini's own; the stderr of a run that printed no line.
"""

from __future__ import annotations

import json
import re
from datetime import datetime, timedelta
from typing import Any

from cuggino.agents.exit_report import Cause, describe_exit, last_lines
from cuggino.agents.gemini.lines import Line
from cuggino.errors import LlmSessionError
from cuggino.errors import LlmSessionErrorKind as Kind

_SHORT_WAIT = timedelta(minutes=5)
"""gemini itself waits so long and tries again; a limit that lasts longer is told at once."""


_LOGIN = Cause(
    Kind.SETUP,
    "gemini is not logged in, or its key is refused",
    "Run `gemini` and type /auth, or set GEMINI_API_KEY to a valid key.",
)
_MODEL = Cause(
    Kind.SETUP,
    "gemini cannot use this model",
    "Set `model` in .cuggino.json to one that this account may use, or leave it out.",
)
_TOO_LONG = Cause(
    Kind.REFUSED,
    "gemini's provider refused the request, which is too long",
    "Give the agent less at once: a smaller focus, fewer or shorter files that it must read.",
)
_INVALID = Cause(Kind.REFUSED, "gemini's provider refused the request")
_RATE = Cause(Kind.OVERLOADED, "gemini's provider limits the rate of requests")
_USAGE_LIMIT = Cause(Kind.USAGE_LIMIT, "gemini has reached the usage limit of its account")
_OVERLOADED = Cause(Kind.OVERLOADED, "gemini's provider is overloaded")
_NETWORK = Cause(
    Kind.NETWORK,
    "gemini could not reach its provider, or lost the connection",
    "Check the network, and GOOGLE_GEMINI_BASE_URL if it is set.",
)
_NOT_STARTED = Cause(
    Kind.SETUP,
    "gemini could not start this conversation",
    "To go on with a conversation, gemini must be in the folder in which it began; a new one needs an id of its own.",
)
_CONFIGURATION = Cause(
    Kind.SETUP, "gemini cannot take its settings", "Run `gemini` once in this folder, and mend them."
)
_UNTRUSTED = Cause(Kind.SETUP, "gemini does not trust this folder", "Run `gemini` in it once, and trust it.")
_UNKNOWN = Cause(Kind.CRASHED, "gemini failed")

_BY_EXIT = {41: _LOGIN, 42: _NOT_STARTED, 52: _CONFIGURATION, 55: _UNTRUSTED}
"""gemini's own exit statuses, which are no provider's."""

_STATUSES = (400, 401, 403, 404, 408, 409, 413, 429, 499, 500, 502, 503, 504, 529)
_BY_MODULO = {status % 256: status for status in _STATUSES}

_UNREACHED = "fetch failed"
"""How node says that there was no connection, and gemini after it."""

_DURATION = re.compile(
    r"(?:retry in|reset after) (?:(?P<hours>\d+)h)?(?:(?P<minutes>\d+)m(?!s))?(?:(?P<seconds>[\d.]+)s)?", re.IGNORECASE
)


def run_failed(result: Line, told: str, exit_status: int, stderr: str) -> LlmSessionError:
    """gemini told a result that is an error, or came to a bad end after a good one. `told` is an error line's."""
    words = result.error.message if result.error is not None else told
    error = _provider_error(words)
    status = error.get("code") or _BY_MODULO.get(exit_status)
    wait = _wait(words) if status == 429 else None
    if result.status == "success":
        cause = Cause(Kind.CRASHED, f"gemini finished its work, but then it did not exit well ({_exit(exit_status)})")
        words, status = _end(stderr), None
    elif status == 429:
        cause = _RATE if wait is None or wait <= _SHORT_WAIT else _USAGE_LIMIT
    else:
        cause = _cause(status, words, error, exit_status)
    shown = error.get("message") or words
    code = f" ({status})" if status is not None else ""
    return LlmSessionError(
        f"{cause.what}{code}: {shown}" if shown else f"{cause.what}{code}.",
        cause.kind,
        advice=cause.advice,
        resets_at=_moment(result.timestamp, wait) if cause is _USAGE_LIMIT else None,
        stderr=_end(stderr),
        exit_status=exit_status,
    )


def _cause(status: object, words: str, error: dict[str, Any], exit_status: int) -> Cause:
    if "API_KEY_INVALID" in words or str(error.get("message", words)).startswith("API key not valid"):
        return _LOGIN
    match status:
        case 401 | 403:
            return _LOGIN
        case 404:
            return _MODEL
        case 413:
            return _TOO_LONG
        case 400 if "token count" in words and "exceeds" in words:
            return _TOO_LONG
        case int() if status >= 500 or status in (408, 499):
            return _OVERLOADED
        case int():
            return _INVALID
    if _UNREACHED in words:
        return _NETWORK
    if re.search(r"models/\S+ is not found", words):  # told without its status
        return _MODEL
    return _BY_EXIT.get(exit_status, _UNKNOWN)


def program_failed(exit_status: int, stderr: str, *, printed_nothing: bool) -> LlmSessionError:
    """gemini ended without a result, whatever its exit status: interrupted, it is 0."""
    end = _end(stderr)
    cause = _BY_EXIT.get(exit_status)
    if cause is None and printed_nothing and exit_status == 1:
        advice = "Run `gemini --version`, and update gemini if it is old: cuggino uses flags that it may not know."
        cause = Cause(Kind.SETUP, "gemini refused to start", advice)
    if cause is None:
        cause = Cause(Kind.CRASHED, f"gemini ended without a result ({_exit(exit_status)})")
    message = f"{cause.what}: {end}" if end else f"{cause.what}."
    return LlmSessionError(message, cause.kind, advice=cause.advice, stderr=end, exit_status=exit_status)


def _provider_error(words: str) -> dict[str, Any]:
    """The provider's answer, where gemini passes it on: `[API Error: {"error": {"code": 401, …}}]`."""
    found = re.search(r"\{.*\}", words, re.DOTALL)
    try:
        error = json.loads(found[0])["error"] if found else {}
    except (ValueError, KeyError, TypeError, RecursionError):
        return {}
    return error if isinstance(error, dict) else {}


def _wait(words: str) -> timedelta | None:
    """`Please retry in 34.5s`, `Your quota will reset after 3h12m5s`."""
    if (found := _DURATION.search(words)) is None or not any(found.groups()):
        return None
    try:
        return timedelta(**{unit: float(amount) for unit, amount in found.groupdict().items() if amount})
    except (ValueError, OverflowError):
        return None


def _moment(timestamp: str, wait: timedelta | None) -> datetime | None:
    try:
        return None if wait is None else datetime.fromisoformat(timestamp) + wait
    except (ValueError, OverflowError):
        return None


def _exit(exit_status: int) -> str:
    """Above 128 it is what is left of the provider's status, no signal."""
    return describe_exit(exit_status) if exit_status < 0 else f"exit status {exit_status}"


def _end(stderr: str) -> str:
    """The last lines, without what every run writes, and without colours."""
    plain = re.sub(r"\x1b\[[0-9;]*m", "", stderr).splitlines()
    return last_lines("\n".join(line for line in plain if not line.startswith(_NO_NEWS)))


_NO_NEWS = (
    *("Warning: Basic terminal", "Warning: 256-color", "Warning: True color", "YOLO mode is enabled"),
    *("Ripgrep is not available", "[STARTUP]"),
)
