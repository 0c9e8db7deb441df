"""The known failures of claude: what it prints, and its exit code."""

from __future__ import annotations

import time
from typing import Any

import msgspec

from cuggino.agents.scripted.lines import LinePrinter
from cuggino.agents.scripted.steps import FailStep, FailureName


class Refusal(msgspec.Struct, frozen=True):
    """A failed request, reported in a synthetic message and then in a result with the subtype `success`."""

    error: str
    status: int | None
    text: str
    reason: str = "completed"


REFUSALS: dict[FailureName, Refusal] = {
    "overloaded": Refusal(
        "server_error",
        529,
        "API Error: 529 Overloaded. This is a server-side issue, usually temporary — try again in a moment.",
    ),
    "rate-limited": Refusal("rate_limit", 429, "API Error: Request rejected (429) · Rate limited"),
    "usage-limit": Refusal("rate_limit", 429, "You've hit your session limit"),
    "network": Refusal("server_error", None, "API Error: Unable to connect to API (ConnectionRefused)"),
    "no-key": Refusal("authentication_failed", None, "Not logged in · Please run /login"),
    "bad-key": Refusal("authentication_failed", 401, "Invalid API key · Fix external API key"),
    "no-credit": Refusal("billing_error", 400, "Credit balance is too low"),
    "no-model": Refusal(
        "model_not_found", 404, "There's an issue with the selected model (scripted). It may not exist."
    ),
    "refused": Refusal("invalid_request", 400, "API Error: 400 The request was refused."),
    "too-long": Refusal(
        "invalid_request", 400, "Prompt is too long · the request is ~250000 tokens (limit 200000)", "prompt_too_long"
    ),
}

ERRORS: dict[FailureName, tuple[str, str]] = {
    "execution": ("error_during_execution", "Something went wrong while a tool was running."),
    "max-turns": ("error_max_turns", "Reached maximum number of turns (3)"),
    "max-budget": ("error_max_budget_usd", "Reached maximum budget ($0.1)"),
    "unknown-session": ("error_during_execution", "No conversation found with session ID: {session}"),
}
"""Results that are errors by their subtype: the subtype, and the text of `errors`."""

STDERR: dict[FailureName, str] = {
    "unknown-session": "No conversation found with session ID: {session}",
    "session-in-use": "Error: Session ID {session} is already in use.",
    "root": "--dangerously-skip-permissions cannot be used with root/sudo privileges for security reasons",
}


def fail(step: FailStep, lines: LinePrinter, session_id: str) -> tuple[int, str]:
    """Print the failure's lines; return its exit code and its stderr."""
    if refusal := REFUSALS.get(step.kind):
        text = refusal.text
        if step.kind == "usage-limit":
            resets_at = _resets_at(step)
            lines.usage_limit(resets_at)
            if resets_at is not None:
                text += time.strftime(" · resets %H:%M (UTC)", time.gmtime(resets_at))
        lines.synthetic(refusal.error, text)
        fields: dict[str, Any] = {"api_error_status": refusal.status, "terminal_reason": refusal.reason}
        lines.result(is_error=True, stop_reason="stop_sequence", **fields)
    elif error := ERRORS.get(step.kind):
        subtype, text = error
        lines.result(subtype, errors=[text.replace("{session}", session_id)])
    return 1, STDERR.get(step.kind, "").replace("{session}", session_id)


def _resets_at(step: FailStep) -> int | None:
    if step.resets_in is not None:
        return int(time.time() + step.resets_in)
    return step.resets_at
