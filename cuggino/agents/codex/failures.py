"""What codex reports when a run failed → errors that a person can act on.

codex reports an error in words alone: the status of the API is part of them, and so is the time at which a limit
resets. Evidence is the message of an `error` or `turn.failed` line, and what all programs have.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from cuggino.agents.failures import Cause, Causes
from cuggino.errors import LlmSessionError
from cuggino.errors import LlmSessionErrorKind as Kind

CAUSES = Causes(
    "codex",
    login="Run `codex login`, or set CODEX_API_KEY to a valid key.",
    network="Check the network, and the provider's address in codex's config.toml if one is set there.",
    model=(
        "Set `model` in .cuggino.json to one that this account may use, or remove it."
        " If codex's config.toml sets a provider's address, check that too."
    ),
    refusals={
        "no rollout found": "codex does not remember this conversation: start a new one.",
        "config.toml": "Correct codex's config.toml.",
    },
)

_STATUS = re.compile(r"\b(?:unexpected|last) status:? (\d{3})\b")

_BY_WORDS = (
    (r"hit your usage limit", CAUSES.usage_limit),
    (r"quota exceeded|out of credits|spend cap|usage not included|upgrade to plus", CAUSES.credit),
    (r"missing environment variable|not logged in|(?:log|sign) in again", CAUSES.login),
    (r"context window|prompt is too long", CAUSES.too_long),
    (r"model is at capacity|high demand", CAUSES.overloaded),
    (
        r"connection failed|stream disconnected|timed out|error sending request|reading the server response",
        CAUSES.network,
    ),
    (r"(?s:model .* (?:does not exist|is not supported|not found))", CAUSES.model),
    (r'(?s-i:\{.*"error")', CAUSES.invalid),
)
"""codex's own words, which it has for some statuses, and the body of a response that it passes on. The first counts."""

_RESET = re.compile(r"try again at (?:(\w{3}) (\d{1,2})\w\w, (\d{4}) )?(\d{1,2}:\d\d [AP]M)", re.IGNORECASE)


def is_certain(words: str) -> bool:
    """Return whether the login or the request was rejected, which no further attempt changes."""
    return _STATUS.search(words) is not None and _find_cause(words).kind in (Kind.SETUP, Kind.REFUSED)


def protocol_failure(
    words: str, exit_status: int | None, stderr: str, *, now: datetime | None = None
) -> LlmSessionError:
    """Return the error that codex reported. `now` is a local time."""
    cause = _find_cause(words)
    resets_at = None
    if cause.kind is Kind.USAGE_LIMIT:
        resets_at = _find_reset(words, now or datetime.now())  # noqa: DTZ005 - local, like codex's
    return cause.error(words, resets_at=resets_at, stderr=stderr, exit_status=exit_status)


def _find_cause(words: str) -> Cause:
    if (found := _STATUS.search(words)) is not None:
        return CAUSES.by_status(int(found[1]))
    matching = (cause for pattern, cause in _BY_WORDS if re.search(pattern, words, re.IGNORECASE))
    return next(matching, CAUSES.unknown)


def _find_reset(words: str, now: datetime) -> datetime | None:
    """Return when the limit resets. codex prints a local time without seconds, and a date unless it is today; so a
    minute is added."""
    found = _RESET.search(words)
    if found is None:
        return None
    month, day, year, time = found.groups()
    try:
        date = datetime.strptime(f"{month} {day} {year}", "%b %d %Y") if month else now  # noqa: DTZ007
        clock = datetime.strptime(time.upper(), "%I:%M %p").time()  # noqa: DTZ007
    except ValueError:
        return None
    return (datetime.combine(date, clock).astimezone() + timedelta(minutes=1)).astimezone(UTC)
