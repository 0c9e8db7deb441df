"""opencode's lines → events: recordings of the real program, and lines that it might print one day."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest

from cuggino.agents.agent import (
    MESSAGE_END,
    SIGN_OF_LIFE,
    AgentResult,
    Denial,
    Text,
)
from cuggino.agents.opencode import OpencodeBackend
from cuggino.errors import LlmSessionErrorKind
from cuggino.events import UsageReport
from tests.unit.decoding import OPTIONS, DecodedRun, encode, recorded

Run = partial(DecodedRun, OpencodeBackend())


def recording(name: str) -> DecodedRun:
    return Run(*recorded("opencode", name))


def line(kind: str, **fields: Any) -> bytes:
    return encode(type=kind, sessionID="ses_1", **fields)


def part(kind: str, **fields: Any) -> bytes:
    return line(kind, part=fields)


def said(text: str) -> bytes:
    return part("text", type="text", text=text)


def finished(reason: str = "stop", **fields: Any) -> bytes:
    return part("step_finish", reason=reason, **fields)


def failed(name: str = "APIError", **data: Any) -> bytes:
    return line("error", error={"name": name, "data": data})


def used(tool: str, **state: Any) -> bytes:
    return part("tool_use", tool=tool, callID="call_1", state=state)


START = part("step_start")


# ---- runs that end well -----------------------------------------------------------------------


def test_a_plain_run() -> None:
    run = recording("hello")
    text = "Hello! This is a plain scripted answer.\n\nSecond paragraph."
    assert run.reported == [Text(text), MESSAGE_END]
    assert run.result == AgentResult(
        exit_status=0,
        session_id="ses_e0030b441ffeKgpdBX9fRDLHpO",
        usage=UsageReport(input_tokens=100, output_tokens=10),
        final_text=text,
    )


def test_tools_and_their_results_are_paired_in_order() -> None:
    run = recording("tools")
    calls, results = run.calls, run.results
    assert [call.name for call in calls] == ["bash", "write", "read", "edit"]
    assert calls[1].input == {"content": "line one\nline two\n", "filePath": "/project/made.txt"}
    assert [result.id for result in results] == [call.id for call in calls]
    assert results[0].output == "hello-from-bash\nerr\n"
    assert not any(result.is_error for result in results)
    texts = [item.text for item in run.reported if isinstance(item, Text)]
    assert texts == ["First a command.", "Now a file.", "All done: wrote, read and edited made.txt."]
    assert run.reported.count(MESSAGE_END) == 3
    assert run.result.final_text == texts[-1]
    assert run.result.usage == UsageReport(input_tokens=500, output_tokens=50)


def test_a_step_is_one_message() -> None:
    run = Run([START, said("all <DO"), said("NE>"), finished("tool-calls"), START, said("it is"), finished()])
    assert run.reported == [Text("all <DO"), Text("NE>"), MESSAGE_END, Text("it is"), MESSAGE_END]
    assert run.result.final_text == "it is"


def test_a_command_that_failed_is_an_error_and_a_denial_is_one_of_opencodes_own() -> None:
    words = "The user has specified a rule which prevents you from using this specific tool call. Here are …"
    run = Run(
        [
            START,
            used("bash", status="completed", input={"command": "exit 3"}, output="", metadata={"exit": 3}),
            used("bash", status="completed", input={}, output=words, metadata={"exit": 0}),
            used("edit", status="error", input={"filePath": "a"}, error=words),
            used("read", status="error", input={}, error="File not found: /b"),
            finished(),
        ]
    )
    results = run.results
    assert [result.is_error for result in results] == [True, False, True, True]
    assert [result.output for result in results[2:]] == [words, "File not found: /b"]
    assert run.result.denials == (Denial(tool="edit", input={"filePath": "a"}),)


def test_tokens_and_money_are_added_up() -> None:
    tokens = {"input": 5, "output": 3, "reasoning": 2, "cache": {"read": 7, "write": 1}}
    run = Run([START, finished("tool-calls", tokens=tokens, cost=0.5), START, finished(tokens=tokens, cost=0.25)])
    assert run.result.usage == UsageReport(
        input_tokens=10, output_tokens=10, cache_read_tokens=14, cache_creation_tokens=2, cost_usd=0.75
    )


def test_an_error_that_opencode_overcame_is_not_a_failure() -> None:
    """A conversation that was too long, and that it has shortened: the exit status says 1 all the same."""
    run = Run([START, failed("ContextOverflowError", message="too long"), START, said("On."), finished()], 1)
    assert run.result.final_text == "On."
    assert run.decoder.failure is None


# ---- runs that fail ---------------------------------------------------------------------------


def test_a_refused_key_is_certain_at_once() -> None:
    run = recording("e401")
    assert run.decoder.failure is not None
    assert run.error.kind is LlmSessionErrorKind.SETUP
    assert "(401): invalid x-api-key" in run.error.message
    assert "opencode auth login" in run.error.advice
    assert run.error.exit_status == 1


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (failed(statusCode=403), LlmSessionErrorKind.SETUP),
        (failed("ProviderAuthError", message="no key"), LlmSessionErrorKind.SETUP),
        (failed(statusCode=402), LlmSessionErrorKind.SETUP),
        (failed(statusCode=404), LlmSessionErrorKind.SETUP),
        (failed(statusCode=529), LlmSessionErrorKind.OVERLOADED),
        (failed(statusCode=503, isRetryable=True), LlmSessionErrorKind.OVERLOADED),
        (failed(statusCode=429), LlmSessionErrorKind.OVERLOADED),
        (failed(statusCode=429, responseBody='{"error":{"code":"insufficient_quota"}}'), LlmSessionErrorKind.SETUP),
        (failed(message="Cannot connect to API", isRetryable=True), LlmSessionErrorKind.NETWORK),
        (failed(statusCode=400), LlmSessionErrorKind.REFUSED),
        (failed(statusCode=413), LlmSessionErrorKind.REFUSED),
        (failed("ContextOverflowError"), LlmSessionErrorKind.REFUSED),
        (failed("ContentFilterError"), LlmSessionErrorKind.REFUSED),
        (failed("MessageAbortedError"), LlmSessionErrorKind.CRASHED),
        (failed("AnErrorOfTomorrow"), LlmSessionErrorKind.CRASHED),
        (line("error"), LlmSessionErrorKind.CRASHED),
    ],
)
def test_the_kind_follows_from_the_protocol(error: bytes, kind: LlmSessionErrorKind) -> None:
    run = Run([START, error], 1)
    assert run.error.kind is kind
    assert (run.decoder.failure is not None) is (b"403" in error or b"ProviderAuth" in error)


def test_text_is_not_evidence() -> None:
    run = Run([START, said("401 Unauthorized"), used("bash", status="completed", output="Overloaded 529"), finished()])
    assert run.result.exit_status == 0
    assert Run([failed("UnknownError", message="usage_limit_reached 429")], 1).error.kind is LlmSessionErrorKind.SETUP


def test_a_usage_limit_says_when_it_resets() -> None:
    resets_at = datetime(2030, 1, 2, 3, 4, tzinfo=UTC)
    body = json.dumps({"error": {"type": "usage_limit_reached", "resets_at": int(resets_at.timestamp())}})
    run = Run([START, failed(statusCode=429, responseBody=body)], 1)
    assert run.error.kind is LlmSessionErrorKind.USAGE_LIMIT
    assert run.error.resets_at == resets_at
    body = '{"error": {"type": "GoUsageLimitError"}}'
    run = Run([START, failed(statusCode=429, responseBody=body, responseHeaders={"retry-after": "3600"})], 1)
    assert run.error.resets_at is not None
    assert timedelta(minutes=59) < run.error.resets_at - datetime.now(UTC) <= timedelta(hours=1)
    assert Run([START, failed(statusCode=429, responseBody=body)], 1).error.resets_at is None


def test_an_error_that_only_has_a_number_is_looked_up_in_the_log() -> None:
    error = failed("UnknownError", message="Unexpected server error.", ref="err_1")
    named = 'level=ERROR ref=err_1 error="ProviderModelNotFoundError: no \\"x\\"" cause="…"'
    log = f'level=ERROR ref=err_0 error="another"\n{named}\n'
    run = Run([error], 1, log)
    assert run.error.kind is LlmSessionErrorKind.SETUP
    assert "cannot use this model" in run.error.message
    assert Run([error], 1).error.kind is LlmSessionErrorKind.SETUP
    assert Run([START, error], 1).error.kind is LlmSessionErrorKind.CRASHED


def test_a_program_that_refuses_to_start_is_quoted() -> None:
    run = Run([], 1, "\x1b[91m\x1b[1mError: \x1b[0mSession not found\n")
    assert run.error.kind is LlmSessionErrorKind.SETUP
    assert "Session not found" in run.error.message
    assert "start a new one" in run.error.advice


@pytest.mark.parametrize(
    ("printed", "exit_status"),
    [
        ([], 0),
        ([START, said("Half")], 0),
        ([START, said("Half")], 130),
        ([START, finished("tool-calls")], 0),
        ([START, finished()], 1),
        ([START, finished()], -9),
        ([START, finished()], 137),
    ],
)
def test_a_run_that_did_not_come_to_its_end_has_crashed(printed: list[bytes], exit_status: int) -> None:
    assert Run(printed, exit_status).error.kind is LlmSessionErrorKind.CRASHED


# ---- lines of tomorrow, and torn ones ---------------------------------------------------------


def test_unknown_lines_are_a_sign_of_life() -> None:
    decoder = OpencodeBackend().decoder(OPTIONS)
    assert list(decoder.feed(line("reasoning", part={"text": "I think"}))) == [SIGN_OF_LIFE]
    assert list(decoder.feed(line("done", reason="idle", rejected=[]))) == [SIGN_OF_LIFE]
    assert list(decoder.feed(b"  ")) == []
    assert decoder.session_id == "ses_1"
