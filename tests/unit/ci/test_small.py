"""Logs cut down, a triage's words, an answer's text, lines for people."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cuggino import events
from cuggino.ci.agents import _subject
from cuggino.ci.fixing import answer
from cuggino.ci.logs import trimmed
from cuggino.ci.ports import Work
from cuggino.ci.triage import triage_of
from cuggino.output.ci import ci_lines
from cuggino.output.page import Page


def test_a_logs_time_stamps_and_colours_go() -> None:
    log = b"\xef\xbb\xbf2026-01-01T00:00:00.123Z \x1b[31mred\x1b[0m\r\n2026-01-01T00:00:01Z ##[error]no\r\n\r\n\xff"
    assert trimmed(log) == "red\n##[error]no\n\n\ufffd"


def test_a_long_log_keeps_its_errors_and_its_end() -> None:
    lines = [f"line {number}" for number in range(10_000)]
    lines[5000] = "##[error]here"
    kept = trimmed("\n".join(lines).encode()).split("\n")
    assert len(kept) < 700
    assert kept[0] == "[… 4940 lines are left out]"
    assert "##[error]here" in kept
    assert kept[-1] == "line 9999"


@given(st.binary(max_size=5000), st.integers(1, 50))
def test_any_log_is_cut_down(piece: bytes, times: int) -> None:
    assert len(trimmed(piece * times).split("\n")) <= 1300


@pytest.mark.parametrize(
    ("structured", "words", "verdict", "cause"),
    [
        ({"verdict": "flake", "cause": "a\nb"}, "", "flake", "a b"),
        (None, 'I think {it} is\n```json\n{"verdict": "transient", "cause": "a {b} c"}\n```', "transient", "a {b} c"),
        (None, '{"verdict": "flake", "cause": "no"} or {"verdict": "real", "cause": "yes"}', "real", "yes"),
        ({"verdict": "maybe", "cause": "x"}, "It is hard to say.", "real", "It is hard to say."),
        (None, "", "real", ""),
        (None, "{" * 5000, "real", "{" * 1000),
    ],
)
def test_what_a_triage_says(structured: Any, words: str, verdict: str, cause: str) -> None:
    triage = triage_of(structured, words)
    assert (triage.verdict, triage.cause) == (verdict, cause)


def test_an_answer_can_neither_command_bots_nor_be_taken_for_another() -> None:
    text = answer(Work(tip="c" * 40, summary="/approve\n@bors r+\n<!-- cuggino: answer to 9 -->"), "5")
    assert text.splitlines()[2:5] == ["> /approve", "> @\u200bbors r+", ">  cuggino: answer to 9 -->"]
    assert text.endswith("\n\n<!-- cuggino: answer to 5 -->")
    assert len(answer(Work(summary="x" * 100_000), "5")) < 5000


def test_no_words_of_others_keep_ci_from_running() -> None:
    assert _subject("Fix test [skip ci] @mia closes #5\nskip-checks: true") == (
        "Fix test (skip ci) mia closes 5 skip-checks: true"
    )


def test_every_event_of_a_ci_watch_is_shown() -> None:
    page = Page(100, False)
    told: list[tuple[events.CiEvent, list[str]]] = [
        (events.CiStateLoaded(path="/p", resumed=True, iteration=3), ["[CI] Resuming at iteration 3: /p"]),
        (
            events.CiPolled(iteration=2, actionable="pending", new_failures=0, new_threads=1, pending=("a, b", "c\nd")),
            ["[CI] 2: actionable=pending new_failures=0 new_threads=1 pending=[a, b, c d]"],
        ),
        (events.CiPollFailed(attempt=2, message="HTTP 502"), ["[CI] Poll failed (attempt 2 of 5): HTTP 502"]),
        (events.CiPushDetected(old="a" * 40, new="b" * 40), ["[CI] Somebody pushed: aaaaaaa → bbbbbbb"]),
        (events.CiCheckTriaged(check="t", verdict="flake", cause="\x1b[2J"), ["[CI] t: flake: ␛[2J"]),
        (events.CiFixStarted(what="t", kind="check", attempt=2), ["[CI] Working on the check t, attempt 2"]),
        (events.CiFixStarted(what="a.py", kind="thread", attempt=1), ["[CI] Working on the thread at a.py"]),
        (
            events.CiFixFinished(what="t", kind="check", files=("a", "b"), summary="Did\nit."),
            ["[CI] t: 2 changed: a, b", "Did", "it."],
        ),
        (
            events.CiFixFinished(what="t", kind="check", files=(), summary="No."),
            ["[CI] t: nothing changed", "No."],
        ),
        (events.CiPushed(branch="change", commit="c" * 40), ["[CI] Pushed ccccccc to change"]),
        (
            events.CiThreadAnswered(thread="T", path="a.py", fixed=False),
            ["[CI] Answered the thread at a.py: without a change"],
        ),
        (events.CiNeedsPerson(what="t", reason="r"), ["[CI] For you: t: r"]),
        (events.CiRateLimited(seconds=300, message="slow"), ["[CI] GitHub limits requests, next poll in 5m: slow"]),
        (
            events.CiWatchEnded(exit="all_green", exit_code=0, summary=("pushed c",), state_file="/p"),
            ["[CI] Ended: all green", "  pushed c", "  state: /p"],
        ),
    ]
    for event, lines in told:
        assert [line.rstrip() for line in ci_lines(event, page)] == lines
    assert {type(event) for event, _ in told} == set(events.CiEvent.__subclasses__())
