"""A triage agent's answer, the text of a reply, commit subjects, lines for people."""

from __future__ import annotations

from typing import Any

import pytest

from cuggino import events
from cuggino.ci.agents import _subject
from cuggino.ci.decide import conflict_name
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


SHOWN: list[tuple[events.CiEvent, str]] = [
    (events.CiStateLoaded(path="/p", resumed=True, iteration=3), "Resuming at iteration 3: /p"),
    (events.CiStateLoaded(path="/p", resumed=False, iteration=0), "A new watch: /p"),
    (
        events.CiPolled(iteration=2, actionable="pending", new_failures=0, new_threads=1, pending=("a, b", "c\nd")),
        "2: actionable=pending new_failures=0 new_threads=1 pending=[a, b, c d]",
    ),
    (events.CiPollFailed(attempt=2, message="HTTP 502"), "The poll failed (attempt 2 of 5): HTTP 502"),
    (events.CiPushDetected(old="a" * 40, new="b" * 40), "Somebody pushed: aaaaaaa → bbbbbbb"),
    (events.CiCheckTriaged(check="t", verdict="flake", cause="\x1b[2J"), "t: flake: ␛[2J"),
    (events.CiFixStarted(what="t", kind="check", attempt=2), "An agent starts on the check t, attempt 2"),
    (events.CiFixStarted(what="a.py", kind="thread", attempt=1), "An agent starts on the thread at a.py"),
    (
        events.CiFixStarted(what=conflict_name("main"), kind="conflict", attempt=1),
        "An agent starts on the merge conflict with main, attempt 1",
    ),
    (events.CiFixFinished(what="t", kind="check", files=("a", "b"), summary="A\nb."), "t: 2 changed: a, b\nA\nb."),
    (events.CiFixFinished(what="t", kind="check", files=(), summary="No."), "t: nothing changed\nNo."),
    (events.CiPushed(branch="change", commit="c" * 40), "Pushed ccccccc to change"),
    (events.CiThreadAnswered(thread="T", path="a.py", fixed=False), "Answered the thread at a.py without a commit"),
    (events.CiNeedsPerson(what="t", reason="r"), "For you: t: r"),
    (events.CiRateLimited(seconds=300, message="slow"), "Rate limit of GitHub, waiting 5m: slow"),
    (
        events.CiWatchEnded(exit="all_green", exit_code=0, summary=("pushed c",), state_file="/p"),
        "Ended: all green\n  pushed c\n  state: /p",
    ),
]


def test_every_event_of_a_ci_watch_is_shown() -> None:
    for event, text in SHOWN:
        lines = [line.rstrip() for line in ci_lines(event, Page(100, False))]
        assert "\n".join(lines) == f"[CI] {text}"
    assert {type(event) for event, _ in SHOWN} == set(events.CiEvent.__subclasses__())
