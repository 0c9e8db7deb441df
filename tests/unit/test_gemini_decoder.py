"""gemini's lines → events: recordings of the real program, and lines that it might print one day."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest

from cuggino.agents.agent import MESSAGE_END, AgentResult, Denial, Text
from cuggino.agents.gemini import GeminiBackend
from cuggino.errors import LlmSessionErrorKind
from cuggino.events import SystemMessage, ToolResult, UsageReport
from tests.unit.decoding import DecodedRun, encode, recorded

Run = partial(DecodedRun, GeminiBackend())


def recording(name: str) -> DecodedRun:
    return Run(*recorded("gemini", name))


def line(type_: str, **fields: Any) -> bytes:
    return encode(type=type_, timestamp="2026-11-22T01:00:00.000Z", **fields)


def said(text: str) -> bytes:
    return line("message", role="assistant", content=text, delta=True)


INIT = line("init", session_id="s", model="auto")
ENDED = line("result", status="success", stats={"input": 1, "output_tokens": 2, "cached": 3})


def failed(words: str) -> bytes:
    return line("result", status="error", error={"type": "unknown", "message": words})


# ---- runs that end well -----------------------------------------------------------------------


def test_a_plain_run() -> None:
    run = recording("hello")
    assert run.reported == [
        SystemMessage(text="gemini, model auto"),
        Text("Hello! This is a pla"),
        Text("in scripted answer.\n"),
        Text("\nSecond paragraph."),
        MESSAGE_END,
    ]
    assert run.result == AgentResult(
        exit_status=0,
        session_id="d165eb1a-7d10-400c-b317-8c3eb7a8aca7",
        usage=UsageReport(input_tokens=200, output_tokens=20),
        final_text="Hello! This is a plain scripted answer.\n\nSecond paragraph.",
    )


def test_tools_and_their_results_are_paired_in_order() -> None:
    run = recording("tools")
    calls, results = run.calls, run.results
    assert [call.name for call in calls] == ["run_shell_command", "write_file", "read_file", "replace"]
    assert calls[1].input == {"file_path": "/tmp/made.txt", "content": "line one\nline two\n"}
    assert [result.id for result in results] == [call.id for call in calls]
    assert results[0].output == "hello-from-bash\nerr"
    assert [result.is_error for result in results] == [False, True, True, True]
    assert run.messages == ["First a command.", "Now a file.", "All done: wrote, read and edited made.txt."]
    assert run.result.final_text == "All done: wrote, read and edited made.txt."
    assert run.result.denials == ()


def test_a_tool_that_does_not_exist_was_denied() -> None:
    run = recording("default")
    assert [denial.tool for denial in run.result.denials] == ["run_shell_command", "write_file", "replace"]


def test_a_denial_has_what_was_asked() -> None:
    use = line("tool_use", tool_name="write_file", tool_id="1", parameters={"file_path": "a.py"})
    denied = line("tool_result", tool_id="1", status="error", error={"type": "policy_violation", "message": "No."})
    run = Run([INIT, use, denied, ENDED])
    assert run.result.denials == (Denial(tool="write_file", input={"file_path": "a.py"}),)
    assert run.reported[-1] == ToolResult(id="1", output="No.", is_error=True)
    assert run.result.usage == UsageReport(input_tokens=1, output_tokens=2, cache_read_tokens=3)


def test_a_message_ends_where_a_tool_is_used_or_the_person_speaks() -> None:
    use = line("tool_use", tool_name="t", tool_id="1")
    person = line("message", role="user", content="go on")
    run = Run([INIT, said("<DO"), said("NE>"), use, said("a"), person, said("b"), ENDED])
    assert run.messages == ["<DONE>", "a", "b"]


# ---- runs that fail ---------------------------------------------------------------------------


def test_a_refused_key() -> None:
    error = recording("e401").error
    assert error.kind is LlmSessionErrorKind.SETUP
    assert error.message == "gemini is not logged in, or its key was rejected (401): invalid x-api-key"
    assert error.advice


QUOTA = "[API Error: You exceeded your current quota. Please retry in 7200s]\nPlease wait"


@pytest.mark.parametrize(
    ("words", "exit_status", "kind"),
    [
        ('[API Error: {"error":{"code":400,"message":"API key not valid. Please"}}]', 144, LlmSessionErrorKind.SETUP),
        (
            '[API Error: {"error":{"code":400,"details":[{"reason":"API_KEY_INVALID"}]}}]',
            144,
            LlmSessionErrorKind.SETUP,
        ),
        ('[API Error: {"error":{"code":403,"message":"no"}}]', 147, LlmSessionErrorKind.SETUP),
        ("[API Error: models/x is not found for API version v1beta]", 1, LlmSessionErrorKind.SETUP),
        ('[API Error: {"error":{"code":400,"message":"bad"}}]', 144, LlmSessionErrorKind.REFUSED),
        ('[API Error: {"error":{"code":529,"message":"full"}}]', 17, LlmSessionErrorKind.OVERLOADED),
        ("[API Error: The model is overloaded.]", 247, LlmSessionErrorKind.OVERLOADED),
        ("[API Error: boom]", 244, LlmSessionErrorKind.OVERLOADED),
        ("[API Error: Too many]\nPlease wait", 173, LlmSessionErrorKind.OVERLOADED),
        ("[API Error: Please retry in 34.5s]", 173, LlmSessionErrorKind.OVERLOADED),
        (QUOTA, 173, LlmSessionErrorKind.USAGE_LIMIT),
        ("[API Error: exception TypeError: fetch failed sending request]", 1, LlmSessionErrorKind.NETWORK),
        ("[API Error: something else]", 1, LlmSessionErrorKind.CRASHED),
        ("[API Error: {not json}]", 1, LlmSessionErrorKind.CRASHED),
        ("Operation cancelled.", 130, LlmSessionErrorKind.CRASHED),
        ("Error executing tool", 54, LlmSessionErrorKind.CRASHED),
    ],
)
def test_a_failed_run_has_a_kind_and_its_own_words(words: str, exit_status: int, kind: LlmSessionErrorKind) -> None:
    error = Run([INIT, failed(words)], exit_status).error
    assert error.kind is kind
    assert error.exit_status == exit_status


@pytest.mark.parametrize(
    ("words", "resets_at"),
    [
        (QUOTA, datetime(2026, 11, 22, 3, tzinfo=UTC)),
        ("Your quota will reset after 3h12m5s.", datetime(2026, 11, 22, 4, 12, 5, tzinfo=UTC)),
        ("Your quota will reset after 6m.", datetime(2026, 11, 22, 1, 6, tzinfo=UTC)),
    ],
)
def test_a_usage_limit_says_when_it_resets(words: str, resets_at: datetime) -> None:
    assert Run([INIT, failed(words)], 173).error.resets_at == resets_at


def test_a_conversation_that_broke_off_is_a_crash_with_its_reason() -> None:
    broken = line("error", severity="error", message="Model stream ended without a finish reason.")
    run = Run([INIT, said("I be"), broken, line("result", status="error")])
    assert run.error.kind is LlmSessionErrorKind.CRASHED
    assert run.error.message == "gemini failed: Model stream ended without a finish reason."
    assert run.messages == ["I be"]


@pytest.mark.parametrize(
    ("exit_status", "words"),
    [
        (41, "Please set an Auth method"),
        (42, "Error resuming session: Invalid session identifier"),
        (52, "Invalid settings"),
        (55, "not running in a trusted directory"),
        (1, "Unknown argument: x"),
    ],
)
def test_a_run_that_did_not_start_is_for_a_person(exit_status: int, words: str) -> None:
    stderr = f"Ripgrep is not available. Falling back to GrepTool.\n\x1b[31m{words}\x1b[0m\n"
    error = Run([], exit_status, stderr).error
    assert error.kind is LlmSessionErrorKind.SETUP
    assert error.message.endswith(f": {words}")
    assert error.advice


# ---- lines that nobody expects ----------------------------------------------------------------
