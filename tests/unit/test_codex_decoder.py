"""codex's lines → events: recordings of the real program, and lines that it might print one day."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import msgspec
import pytest

from cuggino.agents.agent import MESSAGE_END, SIGN_OF_LIFE, AgentResult, Denial, Text
from cuggino.agents.codex import CodexBackend
from cuggino.agents.codex.failures import protocol_failure
from cuggino.errors import LlmSessionErrorKind as Kind
from cuggino.events import SystemMessage, ToolCall, ToolResult, UsageReport
from tests.unit.decoding import OPTIONS, RECORDINGS, DecodedRun, encode, recorded

Run = partial(DecodedRun, CodexBackend())


def recording(name: str) -> DecodedRun:
    return Run(*recorded("codex", name))


NAMES = sorted(path.stem for path in (RECORDINGS / "codex").glob("*.jsonl"))


def line(type: str, **fields: Any) -> bytes:  # noqa: A002 - the protocol's name
    return encode(type=type, **fields)


def item(type: str, event: str = "item.completed", **fields: Any) -> bytes:  # noqa: A002
    return line(event, item={"id": "item_1", "type": type, **fields})


STARTED = line("thread.started", thread_id="t")
COMPLETED = line("turn.completed", usage={"input_tokens": 10, "output_tokens": 1})


# ---- runs that end well -----------------------------------------------------------------------


def test_a_plain_run() -> None:
    run = recording("hello")
    assert run.reported == [
        SystemMessage(
            text="Model metadata for `gpt-5-codex` not found. Defaulting to fallback metadata;"
            " this can degrade performance and cause issues."
        ),
        Text("Hello! This is a plain scripted answer.\n\nSecond paragraph."),
        MESSAGE_END,
    ]
    assert run.result == AgentResult(
        exit_status=0,
        session_id="01a1ffcf-4113-74d3-8ced-5bea3acf66b8",
        usage=UsageReport(input_tokens=100, output_tokens=10),
        final_text="Hello! This is a plain scripted answer.\n\nSecond paragraph.",
    )


def test_tools_and_their_results_are_paired_in_order() -> None:
    run = recording("patch")
    assert run.reported == [
        *(Text("First a command."), MESSAGE_END),
        ToolCall(id="item_1", name="shell", input={"command": "/bin/bash -lc 'echo out; echo err >&2; exit 3'"}),
        ToolResult(id="item_1", output="out\nerr\n", is_error=True),
        ToolCall(id="item_2", name="apply_patch", input={"changes": [{"path": "/project/made.txt", "kind": "add"}]}),
        ToolResult(id="item_2", output=""),
        ToolCall(id="item_3", name="shell", input={"command": "/bin/bash -lc \"cat 'made.txt'\""}),
        ToolResult(id="item_3", output="a\nb\n"),
        *(Text("All done."), MESSAGE_END),
    ]
    assert run.result.usage == UsageReport(input_tokens=4000, output_tokens=40)


def test_the_parts_of_a_message_are_one_text() -> None:
    texts = [item.text for item in recording("markers").reported if isinstance(item, Text)]
    assert texts == ["A <NOTE>half</NOTE>", "<DONE>all</DONE>"]


def test_a_connection_that_broke_and_was_restored_is_not_a_failure() -> None:
    run = recording("drop")
    assert run.result.exit_status == 0
    assert len(run.system) == 1
    assert "attempt 1 of 5: stream disconnected before completion" in run.system[0]


def test_a_resumed_run_counts_only_its_own_usage() -> None:
    backend = CodexBackend()
    used = line("turn.completed", usage={"input_tokens": 100, "cached_input_tokens": 60, "output_tokens": 5})
    more = line("turn.completed", usage={"input_tokens": 300, "cached_input_tokens": 160, "output_tokens": 7})
    other = line("thread.started", thread_id="another")
    reports = [DecodedRun(backend, lines).usage for lines in ([STARTED, used], [other, used], [STARTED, more])]
    assert reports == [
        UsageReport(input_tokens=40, output_tokens=5, cache_read_tokens=60),
        UsageReport(input_tokens=40, output_tokens=5, cache_read_tokens=60),
        UsageReport(input_tokens=100, output_tokens=2, cache_read_tokens=100),
    ]


@pytest.mark.parametrize(
    ("printed", "call", "output", "is_error"),
    [
        (
            item("mcp_tool_call", server="s", tool="t", arguments={"a": 1}, result={"content": [{"text": "found"}]}),
            ToolCall(id="item_1", name="s.t", input={"a": 1}),
            *("found", False),
        ),
        (
            item("mcp_tool_call", server="s", tool="t", error={"message": "no"}, status="failed"),
            ToolCall(id="item_1", name="s.t"),
            *("no", True),
        ),
        (
            item("web_search", query="q", action={"type": "search"}),
            ToolCall(id="item_1", name="web_search", input={"query": "q"}),
            *("", False),
        ),
        (
            item("collab_tool_call", tool="spawn_agent", prompt="p", status="completed"),
            ToolCall(id="item_1", name="spawn_agent", input={"prompt": "p"}),
            *("", False),
        ),
        (
            item("file_change", changes=[], status="failed"),
            ToolCall(id="item_1", name="apply_patch", input={"changes": []}),
            *("", True),
        ),
    ],
    ids=["mcp", "mcp that fails", "web search", "sub-agent", "patch that fails"],
)
def test_a_tool_may_be_reported_when_it_is_done(printed: bytes, call: ToolCall, output: str, is_error: bool) -> None:
    assert Run([printed]).reported == [call, ToolResult(id="item_1", output=output, is_error=is_error)]


def test_a_declined_command_is_a_denial() -> None:
    run = Run([STARTED, item("command_execution", command="rm x", status="declined"), COMPLETED])
    assert run.result.denials == (Denial(tool="shell", input={"command": "rm x"}),)
    assert run.results[0].is_error


def test_thinking_and_lists_are_signs_of_life() -> None:
    lines = [
        *(STARTED, line("turn.started"), item("reasoning", text="hm"), item("todo_list", items=[])),
        *(item("command_execution", "item.updated", aggregated_output="…"), line("item.plan.delta", delta="x")),
    ]
    assert Run(lines).decoded == [SIGN_OF_LIFE] * len(lines)


@pytest.mark.parametrize("text", ['{"n": 3}', ' {"n":3}\n', '```json\n{"n": 3}\n```', '```\n{"n": 3}\n```'])
def test_an_answer_by_a_schema_is_decoded(text: str) -> None:
    options = msgspec.structs.replace(OPTIONS, schema={"type": "object"})
    lines = [STARTED, item("agent_message", text=text), COMPLETED]
    assert Run(lines, options=options).result.structured == {"n": 3}


# ---- failures ---------------------------------------------------------------------------------

FAILURES = {
    "e401": Kind.SETUP,
    "enokey": Kind.SETUP,
    "ecredit": Kind.SETUP,
    "e404": Kind.SETUP,
    "eresume": Kind.SETUP,
    "elimit": Kind.USAGE_LIMIT,
    "e429": Kind.OVERLOADED,
    "e529": Kind.OVERLOADED,
    "erefused": Kind.NETWORK,
    "e400": Kind.REFUSED,
    "e413": Kind.REFUSED,
    "econtext": Kind.REFUSED,
}


def test_every_recording_is_known() -> None:
    assert {name for name in NAMES if name.startswith("e")} == set(FAILURES)
    for name in set(NAMES) - set(FAILURES):
        assert recording(name).result.final_text


@pytest.mark.parametrize("name", FAILURES)
def test_a_failure_has_its_kind(name: str) -> None:
    error = recording(name).error
    assert error.kind is FAILURES[name]
    assert error.advice or error.kind is not Kind.SETUP


@pytest.mark.parametrize(("name", "after"), [("e401", 5), ("e413", 4), ("e429", None), ("e529", None)])
def test_a_run_is_lost_as_soon_as_no_attempt_can_help(name: str, after: int | None) -> None:
    """At the second refusal: before it, a login that has run out is renewed."""
    assert recording(name).lost_after == after


def test_a_usage_limit_says_when_it_resets() -> None:
    error = recording("elimit").error
    assert error.resets_at is not None
    assert error.resets_at.astimezone().strftime("%b %d") == "Nov 23"
    words = "You\u2019ve hit your usage limit. Upgrade to Pro (https://…) or try again at "
    now = datetime(2026, 11, 22, 23, 30)  # noqa: DTZ001 - local, as codex's

    def resets(when: str) -> datetime | None:
        return protocol_failure(words + when, 1, "", now=now).resets_at

    local = datetime(2026, 11, 22).astimezone()
    assert resets("11:45 PM.") == local + timedelta(hours=23, minutes=46)
    assert resets("12:05 AM.") == local + timedelta(minutes=6)
    assert resets("Nov 23rd, 2026 7:25 AM.") == local + timedelta(days=1, hours=7, minutes=26)
    assert resets("later.") is None
    assert resets("Foo 45th, 2026 7:25 AM.") is None
    assert (resets("11:45 PM.") or now).tzinfo is UTC


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        ("unexpected status 403 Forbidden: no, url: http://x", Kind.SETUP),
        ("unexpected status 402 Payment Required: no, url: http://x", Kind.SETUP),
        ("Your access token could not be refreshed. Please log out and sign in again.", Kind.SETUP),
        ("Your workspace is out of credits. Add credits to continue.", Kind.SETUP),
        (
            "The 'x' model is not supported when using Codex with a ChatGPT account: model x is not supported",
            Kind.SETUP,
        ),
        ("We\u2019re currently experiencing high demand, which may cause temporary errors.", Kind.OVERLOADED),
        ("Selected model is at capacity. Please try a different model.", Kind.OVERLOADED),
        ("unexpected status 408 Request Timeout: no", Kind.OVERLOADED),
        ("stream disconnected before completion: Connection refused (os error 111)", Kind.NETWORK),
        ("Error while reading the server response: eof", Kind.NETWORK),
        ("unexpected status 422 Unprocessable Entity: model x does not exist", Kind.REFUSED),
        ("internal error; agent loop died unexpectedly", Kind.CRASHED),
        ("what nobody knows", Kind.CRASHED),
    ],
)
def test_the_words_of_an_error(words: str, kind: Kind) -> None:
    run = Run([STARTED, line("error", message=words), line("turn.failed", error={"message": words})], 1)
    assert run.error.kind is kind
    assert words in run.error.message
    assert run.error.exit_status == 1


def test_text_from_agents_and_tools_is_not_evidence() -> None:
    words = "unexpected status 401 Unauthorized. You've hit your usage limit"
    run = Run([STARTED, item("agent_message", text=words), item("command_execution", aggregated_output=words)], -9)
    assert run.error.kind is Kind.CRASHED
    assert run.lost_after is None


def test_a_turn_that_failed_with_no_word() -> None:
    assert Run([STARTED, line("turn.failed")], 1).error.kind is Kind.CRASHED


def test_flags_that_codex_does_not_know() -> None:
    error = Run([], 2, "error: unexpected argument '--json' found").error
    assert error.kind is Kind.SETUP
    assert "codex --version" in error.advice


# ---- lines of any kind ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "odd",
    [
        line("turn.rewound", by={"nobody": 1}),
        line("error", message={"not": "text"}),
        item("hologram", text={"not": "text"}),
        item("agent_message"),
        item("agent_message", text=None),
        line("item.completed"),
        line("item.completed", item=None),
        line("turn.completed", usage=None),
    ],
)
def test_a_line_of_a_kind_or_form_that_is_not_known_is_a_sign_of_life(odd: bytes) -> None:
    assert Run([STARTED, odd]).decoded == [SIGN_OF_LIFE] * 2


def test_a_last_line_that_is_cut_is_not_a_result() -> None:
    lines, exit_status, stderr = recorded("codex", "tools")
    whole = b"\n".join(lines).rstrip()
    error = Run(whole[:-20].split(b"\n"), exit_status, stderr).error
    assert error.kind is Kind.CRASHED
