"""codex's words for what went wrong → errors that a person can act on.

codex tells an error in words alone: a status of the API is a part of them, and so is the time at which a limit
resets. Evidence is the message of an `error` or `turn.failed` line, the exit status, and the stderr of a run that
printed no line at all. What agents and tools say is none.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from cuggino.agents.exit_report import Cause, describe_exit, last_lines
from cuggino.errors import LlmSessionError
from cuggino.errors import LlmSessionErrorKind as Kind

_LOGIN = Cause(
    Kind.SETUP,
    "codex is not logged in, or its key is refused",
    "Run `codex login`, or set CODEX_API_KEY to a valid key.",
)
_CREDIT = Cause(Kind.SETUP, "codex's account has no credit", "Add credit to the account, or log in with another one.")
_MODEL = Cause(
    Kind.SETUP,
    "codex cannot use this model, or its provider's address is wrong",
    "Set `model` in .cuggino.json to one that this account may use, or leave it out.",
)
_USAGE_LIMIT = Cause(Kind.USAGE_LIMIT, "codex has reached the usage limit of its account")
_OVERLOADED = Cause(Kind.OVERLOADED, "codex's provider is overloaded")
_RATE = Cause(Kind.OVERLOADED, "codex's provider limits the rate of requests")
_NETWORK = Cause(
    Kind.NETWORK,
    "codex could not reach its provider, or lost the connection",
    "Check the network, and the provider's address in codex's config.toml if one is set there.",
)
_INVALID = Cause(Kind.REFUSED, "codex's provider refused the request")
_TOO_LONG = Cause(
    Kind.REFUSED,
    "codex's provider refused the request, which is too long",
    "Give the agent less at once: a smaller focus, fewer or shorter files that it must read.",
)
_UNKNOWN = Cause(Kind.CRASHED, "codex failed")

_STATUS = re.compile(r"\b(?:unexpected|last) status:? (\d{3})\b")

_BY_WORDS = (
    (re.compile(r"hit your usage limit", re.IGNORECASE), _USAGE_LIMIT),
    (re.compile(r"quota exceeded|out of credits|spend cap|usage not included|upgrade to plus", re.IGNORECASE), _CREDIT),
    (re.compile(r"missing environment variable|not logged in|(?:log|sign) in again", re.IGNORECASE), _LOGIN),
    (re.compile(r"context window|prompt is too long", re.IGNORECASE), _TOO_LONG),
    (re.compile(r"model is at capacity|high demand", re.IGNORECASE), _OVERLOADED),
    (
        re.compile(
            r"connection failed|stream disconnected|timed out|error sending request|reading the server response",
            re.IGNORECASE,
        ),
        _NETWORK,
    ),
    (re.compile(r"model .* (?:does not exist|is not supported|not found)", re.IGNORECASE | re.DOTALL), _MODEL),
    (re.compile(r'\s*\{.*"error"', re.DOTALL), _INVALID),
)
"""codex's own words, which it has for some statuses, and the body of a response that it hands on. In this order."""

_RESET = re.compile(r"try again at (?:(\w{3}) (\d{1,2})\w\w, (\d{4}) )?(\d{1,2}:\d\d [AP]M)", re.IGNORECASE)


def is_certain(words: str) -> bool:
    """Refused for who asks or for what is asked, which no further attempt changes."""
    return _STATUS.search(words) is not None and _cause(words).kind in (Kind.SETUP, Kind.REFUSED)


def protocol_failure(
    words: str, exit_status: int | None, stderr: str, *, now: datetime | None = None
) -> LlmSessionError:
    """codex told that it failed. `now` is a local time."""
    cause = _cause(words)
    resets_at = (
        _reset(
            words,
            now or datetime.now(),  # noqa: DTZ005 - local, as codex's
        )
        if cause.kind is Kind.USAGE_LIMIT
        else None
    )
    return LlmSessionError(
        f"{cause.what}: {words}",
        cause.kind,
        advice=cause.advice,
        resets_at=resets_at,
        stderr=last_lines(stderr),
        exit_status=exit_status,
    )


def program_failed(exit_status: int, stderr: str, *, printed_nothing: bool) -> LlmSessionError:
    """codex ended without having completed its turn, and without saying why."""
    end = last_lines(stderr)
    if printed_nothing and exit_status in (1, 2) and end:
        return LlmSessionError(
            f"codex refused to start: {end}",
            Kind.SETUP,
            advice=_start_advice(end),
            stderr=end,
            exit_status=exit_status,
        )
    return _crashed(f"codex ended in the middle of its turn ({describe_exit(exit_status)}).", exit_status, end)


def did_not_end(exit_status: int, stderr: str) -> LlmSessionError:
    """codex completed its turn, and then its process came to a bad end."""
    what = f"codex finished its work, but then it did not exit well ({describe_exit(exit_status)})."
    return _crashed(what, exit_status, last_lines(stderr))


def _crashed(what: str, exit_status: int, end: str) -> LlmSessionError:
    told = f" It wrote: {end}" if end else ""
    return LlmSessionError(f"{what}{told}", Kind.CRASHED, stderr=end, exit_status=exit_status)


def _cause(words: str) -> Cause:
    if (told := _STATUS.search(words)) is not None:
        return _by_status(int(told[1]))
    return next((cause for pattern, cause in _BY_WORDS if pattern.search(words)), _UNKNOWN)


def _by_status(status: int) -> Cause:
    match status:
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
    return _OVERLOADED if status >= 500 or status == 408 else _INVALID


def _reset(words: str, now: datetime) -> datetime | None:
    """codex tells a local time without its seconds, so it is a minute later, and a day unless that is today."""
    told = _RESET.search(words)
    if told is None:
        return None
    month, day, year, time = told.groups()
    try:
        date = datetime.strptime(f"{month} {day} {year}", "%b %d %Y") if month else now  # noqa: DTZ007
        clock = datetime.strptime(time.upper(), "%I:%M %p").time()  # noqa: DTZ007
    except ValueError:
        return None
    return (datetime.combine(date, clock).astimezone() + timedelta(minutes=1)).astimezone(UTC)


def _start_advice(stderr: str) -> str:
    if "no rollout found" in stderr:
        return "codex does not remember this conversation: start a new one."
    if "config.toml" in stderr:
        return "Correct codex's config.toml."
    return "Run `codex --version`, and update codex if it is old: cuggino uses flags that it does not know."
