"""What all decoders do, whatever their program prints."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cuggino.agents.agent import SIGN_OF_LIFE
from cuggino.agents.backends import backend
from cuggino.agents.claude.lines import ClaudeLine
from cuggino.agents.codex.lines import CodexLine
from cuggino.agents.gemini.lines import GeminiLine
from cuggino.agents.opencode.lines import OpencodeLine
from cuggino.config import BackendName
from cuggino.errors import LlmSessionErrorKind
from tests.unit.decoding import OPTIONS, RECORDINGS, DecodedRun, encode, recorded


class Protocol(NamedTuple):
    """A program's lines: a run starts, has one text X, and succeeds."""

    line: type[msgspec.Struct]
    start: bytes
    text: bytes
    end: bytes
    kinds: Sequence[str]


PROTOCOLS: Mapping[BackendName, Protocol] = {
    "claude": Protocol(
        ClaudeLine,
        encode(type="system", subtype="init", session_id="s", model="m"),
        encode(type="assistant", message={"id": "1", "model": "m", "content": [{"type": "text", "text": "X"}]}),
        encode(type="result", subtype="success", is_error=False, result="X", session_id="s"),
        ["assistant", "user", "system", "result", "rate_limit_event", "stream_event"],
    ),
    "codex": Protocol(
        CodexLine,
        encode(type="thread.started", thread_id="t"),
        encode(type="item.completed", item={"id": "1", "type": "agent_message", "text": "X"}),
        encode(type="turn.completed", usage={"input_tokens": 10, "output_tokens": 1}),
        ["thread.started", "item.started", "item.completed", "error", "turn.failed", "turn.completed"],
    ),
    "gemini": Protocol(
        GeminiLine,
        encode(type="init", session_id="s", model="auto"),
        encode(type="message", role="assistant", content="X", delta=True),
        encode(type="result", status="success", stats={"input": 1}),
        ["init", "message", "tool_use", "tool_result", "error", "result"],
    ),
    "opencode": Protocol(
        OpencodeLine,
        encode(type="step_start", sessionID="s"),
        encode(type="text", sessionID="s", part={"text": "X"}),
        encode(type="step_finish", sessionID="s", part={"reason": "stop"}),
        ["step_start", "text", "tool_use", "step_finish", "error"],
    ),
}
ALL_RECORDINGS = sorted((path.parent.name, path.stem) for path in RECORDINGS.glob("*/*.jsonl"))

each_program = pytest.mark.parametrize("program", PROTOCOLS)


def run(program: BackendName, *lines: bytes, exit_status: int = 0, stderr: str = "") -> DecodedRun:
    return DecodedRun(backend(program), lines, exit_status, stderr)


def full(program: BackendName) -> tuple[bytes, bytes, bytes]:
    return PROTOCOLS[program][1:4]


# ---- how a run ends ---------------------------------------------------------------------------


@each_program
def test_a_run_has_its_text_and_ends_with_success(program: BackendName) -> None:
    done = run(program, *full(program))
    assert done.messages == ["X"]
    assert done.result.final_text == "X"
    assert done.lost_after is None


@each_program
def test_a_bad_exit_after_a_good_result_is_a_failure(program: BackendName) -> None:
    error = run(program, *full(program), exit_status=-9, stderr="boom").error
    assert error.kind is LlmSessionErrorKind.CRASHED
    assert "killed by SIGKILL" in error.message
    assert "boom" in error.message


@each_program
@pytest.mark.parametrize("exit_status", [0, 1, 130, -2, -9, -15, 137])
def test_a_run_without_a_result_has_failed_whatever_its_exit_status(program: BackendName, exit_status: int) -> None:
    start, text, _ = full(program)
    error = run(program, start, text, exit_status=exit_status, stderr="printed last").error
    assert error.kind is LlmSessionErrorKind.CRASHED
    assert error.exit_status == exit_status
    assert "printed last" in error.message


@each_program
def test_what_an_agent_says_is_not_evidence(program: BackendName) -> None:
    words = b"unexpected status 401 Unauthorized, API key not valid; You've hit your usage limit"
    start, text, _ = full(program)
    failed = run(program, start, text.replace(b"X", words), exit_status=-9)
    assert failed.error.kind is LlmSessionErrorKind.CRASHED
    assert failed.lost_after is None


@each_program
def test_a_program_that_does_not_know_its_flags_is_for_a_person(program: BackendName) -> None:
    error = run(program, exit_status=1, stderr="error: unknown option --json").error
    assert error.kind is LlmSessionErrorKind.SETUP
    assert error.message == f"{program} refused to start: error: unknown option --json"
    assert f"`{program} --version`" in error.advice


@each_program
def test_a_start_that_was_killed_is_a_crash(program: BackendName) -> None:
    assert run(program, exit_status=-11, stderr="Segmentation fault").error.kind is LlmSessionErrorKind.CRASHED


@each_program
def test_only_the_end_of_stderr_is_kept(program: BackendName) -> None:
    noise = "\n".join(f"line {number} {'x' * 5000}" for number in range(100))
    error = run(program, full(program)[0], exit_status=1, stderr=noise).error
    assert "line 99" in error.stderr
    assert "line 89" not in error.stderr
    assert len(error.stderr) < 5000


# ---- lines of any kind ------------------------------------------------------------------------


@each_program
@pytest.mark.parametrize(
    "foreign", [b"Warning: no stdin", b'{"type":"assist', b"[]", b"{}", b'{"type": 3}', b'"text"', b"[" * 100_000]
)
def test_foreign_lines_are_reported_once(program: BackendName, foreign: bytes) -> None:
    start, text, end = full(program)
    done = run(program, start, foreign, b"{half", text, foreign, end)
    [message] = [words for words in done.system if "Ignored" in words]
    assert message.startswith(f"Ignored a line that is not part of {program}'s protocol: {foreign[:5].decode()}")
    assert len(message) < 300
    assert done.messages == ["X"]


@each_program
def test_empty_lines_are_nothing_and_unknown_ones_a_sign_of_life(program: BackendName) -> None:
    decoder = backend(program).decoder(OPTIONS)
    assert [list(decoder.feed(line)) for line in (b"", b"\r", b"  ")] == [[], [], []]
    assert list(decoder.feed(encode(type="tomorrow", payload=[1, {"x": None}]))) == [SIGN_OF_LIFE]


@each_program
def test_half_a_character_is_replaced(program: BackendName) -> None:
    """JavaScript cuts text between the halves of a character and writes the half as an escape."""
    start, text, end = full(program)
    assert run(program, start, text.replace(b"X", b"cut: \\ud83d"), end).messages == ["cut: ?"]


@settings(max_examples=400)
@given(st.sampled_from(ALL_RECORDINGS), st.data())
def test_recordings_that_are_cut_or_mixed_with_junk_never_raise(source: tuple[BackendName, str], data: Any) -> None:
    lines, exit_status, stderr = recorded(*source)
    whole = b"\n".join(lines)
    cut = data.draw(st.integers(0, len(whole)))
    at = data.draw(st.integers(0, cut))
    junk = data.draw(st.binary(max_size=100) | st.just(b'{"type":') | st.just(b"[" * 100_000))
    exit_status = data.draw(st.just(exit_status) | st.integers(-15, 255))
    done = run(
        source[0],
        *(whole[:at] + junk + whole[at:cut]).split(b"\n"),
        exit_status=exit_status,
        stderr=data.draw(st.just(stderr) | st.text(max_size=100)),
    )
    assert sum(text.startswith("Ignored") for text in done.system) <= 1


def _names(line: type[msgspec.Struct]) -> Iterator[str]:
    _, components = msgspec.json.schema_components([line])
    for component in components.values():
        yield from component["properties"]


@settings(max_examples=400)
@given(st.data())
@each_program
def test_fields_of_any_shape_never_raise(program: BackendName, data: Any) -> None:
    names = st.sampled_from(sorted({*_names(PROTOCOLS[program].line)} - {"type"}))
    kinds = st.sampled_from(
        [*PROTOCOLS[program].kinds, "text", "tool_use", "tool_result", "agent_message", "mcp_tool_call"]
    )
    texts = st.text(max_size=5) | st.just('{"error": {"code": []}}') | st.just("[API Error: {}]")
    values = st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names | st.just("type"), inner | kinds, max_size=4),
        max_leaves=8,
    )
    fields = st.dictionaries(names, values, max_size=4)
    lines = data.draw(st.lists(st.tuples(st.sampled_from(PROTOCOLS[program].kinds), fields), min_size=1, max_size=4))
    run(program, *(json.dumps({**line, "type": kind}).encode() for kind, line in lines), exit_status=1)
