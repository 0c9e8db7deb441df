"""claude's lines → events: recordings of the real program, and lines that it might print one day."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest

from cuggino.agents.agent import MESSAGE_END, SIGN_OF_LIFE, AgentResult, Denial, Text
from cuggino.agents.claude import ClaudeBackend
from cuggino.agents.claude.decoder import ClaudeDecoder
from cuggino.errors import LlmSessionErrorKind
from cuggino.events import SystemMessage, ToolCall, ToolResult, UsageReport
from tests.unit.decoding import DecodedRun, encode, recorded

Run = partial(DecodedRun, ClaudeBackend())


def recording(name: str) -> DecodedRun:
    return Run(*recorded("claude", name))


def assistant(*content: dict[str, Any], message: str = "msg_1", **fields: Any) -> bytes:
    return encode(type="assistant", message={"id": message, "model": "m", "content": list(content)}, **fields)


def said(text: str, message: str = "msg_1") -> bytes:
    return assistant({"type": "text", "text": text}, message=message)


INIT = encode(type="system", subtype="init", session_id="s", model="m", claude_code_version="2.0.0")
STOP = b'{"type":"stream_event","event":{"type":"message_stop"},"session_id":"s","parent_tool_use_id":null}'
ENDED = encode(type="result", subtype="success", is_error=False, result="", session_id="s")


# ---- runs that end well -----------------------------------------------------------------------


def test_a_plain_run() -> None:
    run = recording("hello")
    assert run.reported == [
        SystemMessage(text="claude 2.1.197, model claude-opus-4-8[1m]"),
        Text("Hello! This is a plain scripted answer.\n\nSecond paragraph."),
        MESSAGE_END,
    ]
    assert run.result == AgentResult(
        exit_status=0,
        session_id="f5be92b9-b613-468c-b233-0e447d99f36e",
        usage=UsageReport(input_tokens=1000, output_tokens=19, cost_usd=0.005475),
        final_text="Hello! This is a plain scripted answer.\n\nSecond paragraph.",
    )


def test_tools_and_their_results_are_paired_in_order() -> None:
    run = recording("tools")
    calls, results = run.calls, run.results
    assert [call.name for call in calls] == ["Bash", "Write", "Read", "Edit"]
    assert calls[1].input == {"file_path": "/project/made.txt", "content": "line one\nline two\n"}
    assert [result.id for result in results] == [call.id for call in calls]
    assert results[0].output == "hello-from-bash\nerr"
    assert not any(result.is_error for result in results)
    assert run.messages == ["First a command.", "Now a file.", "All done: wrote, read and edited made.txt."]


def test_results_of_parallel_tools_come_as_they_are_done() -> None:
    run = recording("parallel")
    calls = [item.id for item in run.reported if isinstance(item, ToolCall)]
    results = [item.id for item in run.reported if isinstance(item, ToolResult)]
    assert results == list(reversed(calls))


def test_failing_tools_do_not_fail_the_run() -> None:
    run = recording("fail")
    results = run.results
    assert len(results) == 4
    assert all(result.is_error for result in results)
    assert results[0].output == "Exit code 3\nout\nbad"
    assert run.result.final_text == "saw the failures"


def test_the_blocks_of_a_message_are_one_text() -> None:
    assert recording("markers").messages == [
        "before <NOTE>first note</NOTE> between <NOTE>second</NOTE> tail <NOTE>cut at block border</NOTE> end",
        "<NOTE>third, after a tool call</NOTE>\n<NOTE>fourth\nover two lines</NOTE>",
    ]


def test_a_marker_over_the_last_two_blocks_is_whole_though_the_result_has_only_the_last() -> None:
    run = recording("final2blocks")
    assert run.messages == ["A <NOTE>one</NOTE> B"]
    assert run.result.final_text == "TE> B"


def test_a_sub_agent_is_only_a_sign_of_life() -> None:
    run = recording("subagent")
    assert run.messages == ["sub done"]
    assert [item.name for item in run.reported if isinstance(item, ToolCall)] == ["Agent"]
    [result] = run.results
    assert result.output.startswith("sub result text\nagentId: ")
    assert run.usage == UsageReport(input_tokens=4000, output_tokens=68, cost_usd=0.021699999999999997)


def test_thinking_is_a_sign_of_life() -> None:
    run = recording("think")
    assert run.messages == ["Thought about it."]
    assert run.decoded.count(SIGN_OF_LIFE) > 10


def test_a_background_task_ends_the_run_twice_and_the_last_end_counts_everything() -> None:
    run = recording("bgshort")
    assert run.messages == ["started in background", "notified"]
    assert len(run.system) == 1
    assert run.result.final_text == "notified"
    assert run.result.usage == UsageReport(input_tokens=3000, output_tokens=47, cost_usd=0.016175000000000002)


def test_an_empty_reply_says_nothing() -> None:
    run = recording("empty")
    assert run.messages == []
    assert run.result.final_text == ""


def test_bytes_that_are_not_text_arrive_as_claude_wrote_them() -> None:
    run = recording("nonutf8")
    assert run.messages == ["bytes seen \u2028 \u2029 😀 end"]
    assert any(isinstance(item, ToolResult) and "caf\ufffd" in item.output for item in run.reported)


@pytest.mark.parametrize(
    ("name", "denied"),
    [
        ("default", ["Bash", "Write", "Write", "Read", "WebFetch"]),
        ("skip_deny", ["WebFetch", "Bash"]),
        ("settings", ["Read", "WebFetch"]),
    ],
)
def test_denials_are_in_the_result(name: str, denied: list[str]) -> None:
    assert [denial.tool for denial in recording(name).result.denials] == denied


def test_a_denial_has_what_was_asked() -> None:
    wanted = {"url": "http://127.0.0.1:1/x", "prompt": "x"}
    assert recording("dontAsk").result.denials[-1] == Denial(tool="WebFetch", input=wanted)


DENIED_PATH = "<tool_use_error>File is in a directory that is denied by your permission settings.</tool_use_error>"
NOT_ENABLED = "Task exists but is not enabled in this context. Use one of the available tools instead."
NO_TASK = f"<tool_use_error>Error: No such tool available: Task. {NOT_ENABLED}</tool_use_error>"


def denials(tool: str, output: Any, *, is_error: bool = True) -> list[str]:
    """Return the denials of a run in which the tool returned this."""
    used = assistant({"type": "tool_use", "id": "t", "name": tool, "input": {"a": 1}})
    result = {"type": "tool_result", "tool_use_id": "t", "content": output, "is_error": is_error}
    return [
        denial.tool
        for denial in Run([INIT, used, encode(type="user", message={"content": [result]}), ENDED]).result.denials
    ]


@pytest.mark.parametrize(
    ("tool", "output"),
    [
        ("Write", DENIED_PATH),
        ("Read", [{"type": "text", "text": DENIED_PATH}]),
        ("Task", NO_TASK),
        ("Task", "<tool_use_error>Error: No such tool available: Task</tool_use_error>"),
        ("WebFetch", NO_TASK.replace("Task", "WebFetch")),
    ],
)
def test_claudes_own_words_in_a_tools_result_are_a_denial(tool: str, output: Any) -> None:
    assert denials(tool, output) == [tool]


@pytest.mark.parametrize(
    ("tool", "output", "is_error"),
    [
        ("Bash", DENIED_PATH, False),
        ("Read", f"1\t{DENIED_PATH}", False),
        ("Bash", f"Exit code 1\n{DENIED_PATH}", True),
        ("Bash", "Exit code 1\nPermission to use Bash with command rm has been denied.", True),
        ("Bash", "Exit code 1\nsudo: permission denied", True),
        ("Bash", NO_TASK, True),
        ("Write", f"{DENIED_PATH} (so I read)", True),
        ("Tsak", "<tool_use_error>Error: No such tool available: Tsak</tool_use_error>", True),
        ("Bash", "<tool_use_error>InputValidationError: Bash failed</tool_use_error>", True),
    ],
)
def test_words_like_those_of_a_denial_are_not_one(tool: str, output: str, is_error: bool) -> None:
    assert denials(tool, output, is_error=is_error) == []


def test_a_denial_that_is_reported_twice_is_one() -> None:
    used = assistant({"type": "tool_use", "id": "t", "name": "Write", "input": {}})
    result = encode(
        type="user",
        message={"content": [{"type": "tool_result", "tool_use_id": "t", "content": DENIED_PATH, "is_error": True}]},
    )
    listed = [{"tool_name": "Write", "tool_use_id": "t", "tool_input": {}}]
    ended = encode(type="result", subtype="success", is_error=False, session_id="s", permission_denials=listed)
    assert Run([INIT, used, result, ended]).result.denials == (Denial(tool="Write", input={}),)


def test_a_sub_agents_denial_is_not_the_agents() -> None:
    used = assistant({"type": "tool_use", "id": "t", "name": "Write", "input": {}}, parent_tool_use_id="p")
    block = {"type": "tool_result", "tool_use_id": "t", "content": DENIED_PATH, "is_error": True}
    result = encode(type="user", message={"content": [block]}, parent_tool_use_id="p")
    assert Run([INIT, used, result, ENDED]).result.denials == ()


def test_a_resumed_session_keeps_its_id() -> None:
    assert recording("resume").result.session_id == "11111111-2222-4333-8444-555555555555"


def test_structured_output_is_in_the_result() -> None:
    assert recording("schema_ok").result.structured == {"name": "x", "n": 3}


def test_a_spent_budget_is_not_a_failure() -> None:
    """The caller that set the budget looks at the cost."""
    run = recording("budget")
    assert run.result.usage == UsageReport(input_tokens=400_000, output_tokens=40_000, cost_usd=3)


def test_claudes_own_words_are_not_the_agents_text() -> None:
    run = recording("slash")
    assert run.messages == []
    assert run.system[1:] == ["Unknown command: /nosuchcommand"]


def test_claudes_own_attempts_are_reported() -> None:
    run = recording("e529x2")
    assert run.system[1:] == [
        "API error 529 (overloaded), attempt 1 of 10, next in 1 s",
        "API error 529 (overloaded), attempt 2 of 10, next in 1 s",
    ]
    assert run.messages == ["recovered"]


def test_an_agent_that_mentions_a_usage_limit_has_not_failed() -> None:
    assert recording("limittext").messages == ["You've hit your limit · resets 3pm (UTC)"]


# ---- runs that fail ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "kind", "words"),
    [
        ("nokey", LlmSessionErrorKind.SETUP, "Not logged in · Please run /login"),
        ("e401", LlmSessionErrorKind.SETUP, "Invalid API key · Fix external API key"),
        ("ecredit", LlmSessionErrorKind.SETUP, "Credit balance is too low"),
        ("resume_unknown", LlmSessionErrorKind.SETUP, "No conversation found with session ID: 99999999"),
        ("e529", LlmSessionErrorKind.OVERLOADED, "API Error: 529 Overloaded."),
        ("elimit_token", LlmSessionErrorKind.USAGE_LIMIT, "You've hit your session limit"),
        ("connrefused", LlmSessionErrorKind.NETWORK, "Unable to connect to API (ConnectionRefused)"),
        ("e400long", LlmSessionErrorKind.REFUSED, "Prompt is too long"),
        ("maxturns3", LlmSessionErrorKind.CRASHED, "Reached maximum number of turns (3)"),
        ("sigint_bash", LlmSessionErrorKind.CRASHED, "interrupted"),
        ("sigint_slow0", LlmSessionErrorKind.CRASHED, "without a result (exit status 0)"),
        ("sigterm_bash", LlmSessionErrorKind.CRASHED, "without a result (exit status 143, SIGTERM)"),
    ],
)
def test_a_failed_run_has_a_kind_and_claudes_own_words(name: str, kind: LlmSessionErrorKind, words: str) -> None:
    error = recording(name).error
    assert error.kind is kind
    assert words in error.message


@pytest.mark.parametrize("name", ["nokey", "e401", "ecredit", "resume_unknown", "connrefused", "e400long"])
def test_an_error_has_advice_for_a_person(name: str) -> None:
    assert recording(name).error.advice


def test_a_usage_limit_says_when_it_resets() -> None:
    assert recording("elimit_token").error.resets_at == datetime(2026, 11, 21, 21, 22, 56, tzinfo=UTC)


def test_a_refused_key_is_a_lost_run_at_the_second_refusal() -> None:
    """The first may be a login that has run out, which claude renews. claude itself continues for three minutes."""
    lines = recorded("claude", "e401")[0]
    second = next(n for n, text in enumerate(lines, 1) if b'"attempt":2' in text)
    assert Run(lines).lost_after == second
    stopped = Run(lines[:second], exit_status=0)
    assert stopped.error.kind is LlmSessionErrorKind.SETUP
    assert stopped.error.exit_status == 0


def test_a_run_is_not_lost_while_claude_retries_an_overloaded_provider() -> None:
    assert recording("e529").lost_after is None


def test_a_limit_that_did_not_stop_the_run_is_not_a_failure() -> None:
    """An account may continue beyond its limit, for money."""
    rejected = encode(type="rate_limit_event", rate_limit_info={"status": "rejected", "resetsAt": 1795296176})
    assert Run([INIT, rejected, said("on"), ENDED]).messages == ["on"]


@pytest.mark.parametrize(("limit", "status"), [("allowed_warning", 429), ("rejected", 500), ("rejected", 529)])
def test_an_error_that_is_not_about_the_usage_limit_is_overload(limit: str, status: int) -> None:
    event = encode(type="rate_limit_event", rate_limit_info={"status": limit, "resetsAt": 1795296176})
    failed = encode(type="result", subtype="success", is_error=True, api_error_status=status, result="API Error")
    error = Run([INIT, event, failed], exit_status=1).error
    assert (error.kind, error.resets_at) == (LlmSessionErrorKind.OVERLOADED, None)


@pytest.mark.parametrize("moment", [None, 1e300])
def test_a_usage_limit_may_leave_open_when_it_resets(moment: float | None) -> None:
    event = encode(type="rate_limit_event", rate_limit_info={"status": "rejected", "resetsAt": moment})
    failed = encode(type="result", subtype="success", is_error=True, api_error_status=429, result="Limit")
    error = Run([INIT, event, failed], exit_status=1).error
    assert (error.kind, error.resets_at) == (LlmSessionErrorKind.USAGE_LIMIT, None)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, LlmSessionErrorKind.REFUSED),
        (401, LlmSessionErrorKind.SETUP),
        (403, LlmSessionErrorKind.SETUP),
        (404, LlmSessionErrorKind.SETUP),
        (413, LlmSessionErrorKind.REFUSED),
        (500, LlmSessionErrorKind.OVERLOADED),
        (529, LlmSessionErrorKind.OVERLOADED),
        (None, LlmSessionErrorKind.CRASHED),
    ],
)
def test_the_status_decides_the_kind_when_nothing_else_does(status: int | None, kind: LlmSessionErrorKind) -> None:
    failed = encode(type="result", subtype="success", is_error=True, api_error_status=status, result="API Error")
    assert Run([INIT, failed], exit_status=1).error.kind is kind


def test_repeated_overload_without_a_status_is_known_by_the_attempts_before() -> None:
    retry = encode(type="system", subtype="api_retry", attempt=1, max_retries=10, error_status=529, error="overloaded")
    synthetic = {"id": "x", "model": "<synthetic>", "content": [{"type": "text", "text": "Repeated 529"}]}
    complaint = encode(type="assistant", message=synthetic, error="server_error")
    failed = encode(type="result", subtype="success", is_error=True, api_error_status=None, result="Repeated 529")
    assert Run([INIT, retry, complaint, failed], exit_status=1).error.kind is LlmSessionErrorKind.OVERLOADED
    assert Run([INIT, retry, said("fine"), complaint, failed], exit_status=1).error.kind is LlmSessionErrorKind.NETWORK


def test_a_run_that_printed_nothing_but_an_error_was_refused_at_its_start() -> None:
    root = "--dangerously-skip-permissions cannot be used with root/sudo privileges for security reasons\n"
    error = Run([], exit_status=1, stderr=root).error
    assert error.kind is LlmSessionErrorKind.SETUP
    assert root.strip() in error.message
    assert "IS_SANDBOX=1" in error.advice


# ---- where messages end -----------------------------------------------------------------------


def test_a_message_ends_where_its_stream_says_so() -> None:
    assert Run([INIT, said("a"), STOP, ENDED]).reported[1:] == [Text("a"), MESSAGE_END]


def test_a_tools_result_does_not_end_a_message() -> None:
    """claude runs a tool while the rest of the message is still written."""
    result = encode(type="user", message={"content": [{"type": "tool_result", "tool_use_id": "t", "content": "x"}]})
    run = Run([INIT, said("a <NO"), result, said("TE>"), STOP, ENDED])
    assert run.reported[1:] == [Text("a <NO"), ToolResult(id="t", output="x"), Text("TE>"), MESSAGE_END]


def test_without_partial_messages_a_message_ends_where_another_begins() -> None:
    run = Run([INIT, said("a"), said("b"), said("c", message="msg_2"), ENDED])
    assert run.reported[1:] == [Text("a"), Text("b"), MESSAGE_END, Text("c"), MESSAGE_END]


def test_the_end_of_a_sub_agents_message_ends_no_other() -> None:
    foreign = STOP.replace(b"null", b'"toolu_1"')
    assert Run([INIT, said("a"), foreign, said("b"), STOP, ENDED]).messages == ["ab"]


def test_another_order_of_keys_means_the_same() -> None:
    other = encode(event={"type": "message_stop"}, type="stream_event", parent_tool_use_id=None)
    assert Run([INIT, said("a"), other, said("b"), ENDED]).messages == ["a", "b"]


# ---- lines of another day ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "unknown",
    [
        encode(type="tomorrow", payload=[1, {"x": None}]),
        encode(type="system", subtype="tomorrow"),
        encode(type="system", subtype="hook_response", output="<DONE>no</DONE>"),
        encode(type="assistant"),
        encode(type="user", message={"content": "text"}),
        assistant({"type": "tomorrow", "content": {"a": 1}}),
        b'{"type":"stream_event","event":{"type":"content_block_delta"',
    ],
)
def test_what_is_unknown_is_a_sign_of_life(unknown: bytes) -> None:
    assert ClaudeDecoder().feed(unknown) == (SIGN_OF_LIFE,)


def test_an_image_in_a_tools_result_is_named() -> None:
    content = [{"type": "text", "text": "a"}, {"type": "image", "source": {"data": "…"}}, {"type": "text", "text": "b"}]
    block = {"type": "tool_result", "tool_use_id": "t", "content": content}
    assert ClaudeDecoder().feed(encode(type="user", message={"content": [block]})) == [
        ToolResult(id="t", output="a\n[image]\nb")
    ]
