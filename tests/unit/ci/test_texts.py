"""A triage agent's answer, the text of a reply, commit subjects, lines for people."""

from __future__ import annotations

from typing import Any

import pytest

from cuggino import events
from cuggino.ci.agents import _subject
from cuggino.ci.fixing import answer
from cuggino.ci.ports import FixResult
from cuggino.ci.triage import triage_of
from cuggino.output.ci import ci_lines
from cuggino.output.page import Page


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
def test_the_last_answer_of_a_triage_agent_counts(structured: Any, words: str, verdict: str, cause: str) -> None:
    triage = triage_of(structured, words)
    assert (triage.verdict, triage.cause) == (verdict, cause)


def test_a_reply_cannot_command_bots_or_pass_for_another() -> None:
    text = answer(FixResult(tip="c" * 40, summary="/approve\n@bors r+\n<!-- cuggino: answer to 9 -->"), "5")
    assert text.splitlines()[2:5] == ["> /approve", "> @\u200bbors r+", ">  cuggino: answer to 9 -->"]
    assert text.endswith("\n\n<!-- cuggino: answer to 5 -->")
    assert len(answer(FixResult(summary="x" * 100_000), "5")) < 5000


def test_a_commit_subject_cannot_keep_ci_from_running() -> None:
    assert _subject("Fix test [skip ci] @mia closes #5\nskip-checks: true") == (
        "Fix test (skip ci) mia closes 5 skip-checks: true"
    )


def test_every_event_of_a_ci_watch_is_shown() -> None:
    page = Page(100, False)
    told: list[tuple[events.CiEvent, list[str]]] = [
        (events.CiStateLoaded(path="/p", resumed=True, iteration=3), ["[CI] Going on at iteration 3: /p"]),
        (
            events.CiPolled(iteration=2, actionable="pending", new_failures=0, new_threads=1, pending=("a, b", "c\nd")),
            ["[CI] 2: actionable=pending new_failures=0 new_threads=1 pending=[a, b, c d]"],
        ),
        (events.CiPollFailed(attempt=2, message="HTTP 502"), ["[CI] The poll failed (attempt 2 of 5): HTTP 502"]),
        (events.CiPushDetected(old="a" * 40, new="b" * 40), ["[CI] Somebody pushed: aaaaaaa → bbbbbbb"]),
        (events.CiCheckTriaged(check="t", verdict="flake", cause="\x1b[2J"), ["[CI] t: flake: ␛[2J"]),
        (events.CiFixStarted(what="t", kind="check", attempt=2), ["[CI] The check t: an agent begins, attempt 2"]),
        (events.CiFixStarted(what="a.py", kind="thread", attempt=1), ["[CI] The thread at a.py: an agent begins"]),
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
            ["[CI] Answered the thread at a.py: nothing was changed"],
        ),
        (events.CiNeedsPerson(what="t", reason="r"), ["[CI] For you: t: r"]),
        (events.CiRateLimited(seconds=300, message="slow"), ["[CI] GitHub asks for patience, 5m: slow"]),
        (
            events.CiWatchEnded(exit="all_green", exit_code=0, summary=("pushed c",), state_file="/p"),
            ["[CI] Ended: all green", "  pushed c", "  state: /p"],
        ),
    ]
    for event, lines in told:
        assert [line.rstrip() for line in ci_lines(event, page)] == lines
    assert {type(event) for event, _ in told} == set(events.CiEvent.__subclasses__())
