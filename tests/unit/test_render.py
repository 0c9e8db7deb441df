from __future__ import annotations

import inspect
import re
import time
import unicodedata
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, get_args

import pytest
import wcwidth
from hypothesis import given
from hypothesis import strategies as st

from cuggino import events
from cuggino.events import (
    AgentMessage,
    AgentRetry,
    AgentWaiting,
    Approved,
    CheckCommandOutput,
    CommitFailed,
    CommitPerformed,
    Done,
    ImplementingStart,
    IterationStart,
    LoopApproved,
    LoopFailed,
    LoopLimitReached,
    LoopMaxIterations,
    LoopSpecIssue,
    Note,
    PingEvent,
    PlanComplete,
    PlanningStart,
    Progress,
    RequestChanges,
    ReviewingStart,
    SetupCommandOutput,
    SpecIssue,
    SystemMessage,
    ToBeDiscussed,
    ToolCall,
    ToolResult,
    UsageReport,
)
from cuggino.output.render import Page, render
from cuggino.output.status import activity, status
from cuggino.output.summary import Tally, render_summary
from cuggino.output.text import columns, duration, first_lines, last_lines, shorten, visible

FAMILY = "👨‍👩‍👧‍👦"
STYLE = re.compile("\x1b\\[[0-9;]*m")


def plain(event: events.Event, width: int = 80) -> list[str]:
    return render(event, width=width, colour=False)


def style_of(event: events.Event) -> str:
    """The one style that every shown line of an event has."""
    lines = [line for line in render(event, width=80, colour=True) if line]
    styles = {tuple(STYLE.findall(line)) for line in lines}
    assert len(styles) == 1, lines
    begin, *end = styles.pop()
    assert end == ["\x1b[0m"]
    return {
        "\x1b[2m": "dim",
        "\x1b[2;36m": "dim cyan",
        "\x1b[31m": "red",
        "\x1b[1m": "bold",
        "\x1b[1;31m": "bold red",
        "\x1b[1;32m": "bold green",
        "\x1b[1;33m": "bold yellow",
        "\x1b[1;34m": "bold blue",
        "\x1b[1;35m": "bold magenta",
    }[begin]


# ---- the table --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("event", "style", "lines"),
    [
        (SystemMessage(text="claude 2.1\nmodel x"), "dim", ["[System] claude 2.1", "model x"]),
        (ToolResult(id="1", output="one\ntwo\n"), "dim", ["   1  one", "   2  two"]),
        (ToolResult(id="1", output="no such file", is_error=True), "red", ["   1  no such file"]),
        (ToolResult(id="1", output=""), "dim", ["(no output)"]),
        (Note(content="two\nlines"), "bold yellow", ["", "[NOTE] two", "lines", ""]),
        (RequestChanges(content="x"), "bold yellow", ["", "[REQUEST_CHANGES] x", ""]),
        (SpecIssue(content="x"), "bold red", ["", "[SPEC_ISSUE] x", ""]),
        (Progress(content="x"), "bold blue", ["", "[PROGRESS] x", ""]),
        (Done(content="x"), "bold green", ["", "[DONE] x", ""]),
        (Approved(content=""), "bold green", ["", "[APPROVED]", ""]),
        (PlanComplete(content="x"), "bold green", ["", "[PLAN_COMPLETE] x", ""]),
        (ToBeDiscussed(content="x"), "bold magenta", ["", "[TO_BE_DISCUSSED] x", ""]),
        (IterationStart(iteration=2, max_iterations=10), "bold", ["[Loop] === Iteration 2/10 ==="]),
        (PlanningStart(iteration=1), "dim", ["[Planning] Starting..."]),
        (ImplementingStart(iteration=1), "dim", ["[Implementing] Starting..."]),
        (ReviewingStart(iteration=1), "dim", ["[Reviewing] Starting..."]),
        (CheckCommandOutput(iteration=1, output="a\nb\n", exit_code=1), "dim", ["[Check] exit 1", "a", "b"]),
        (SetupCommandOutput(iteration=1, output="", exit_code=0), "dim", ["[Setup] exit 0"]),
        (
            CommitPerformed(iteration=1, commit_hash="a1b2c3d4e5f6", message="first line\n\nmore"),
            "bold magenta",
            ["[Commit] a1b2c3d: first line"],
        ),
        (CommitFailed(iteration=1, message="hook said\nno\n"), "bold red", ["[Commit] Failed: hook said", "no"]),
        (AgentRetry(iteration=1, attempt=2, reason="busy", delay=8.5), "bold yellow", ["[Agent] Retry 2 in 8s: busy"]),
        (LoopApproved(iteration=3), "bold green", ["[Loop] Approved in iteration 3"]),
        (
            LoopSpecIssue(iteration=1, content="unclear", filename="7.md"),
            "bold red",
            ["[Loop] Spec issue: unclear", "Saved to: .cuggino/spec-issues/7.md"],
        ),
        (LoopMaxIterations(iteration=9, max_iterations=9), "bold yellow", ["[Loop] Max iterations reached (9)"]),
        (
            LoopLimitReached(iteration=9, limit="maxCostUsd", value=5.018),
            "bold yellow",
            ["[Loop] Limit reached: maxCostUsd ($5.02)"],
        ),
        (
            LoopLimitReached(iteration=9, limit="maxRuntime", value=7260),
            "bold yellow",
            ["[Loop] Limit reached: maxRuntime (2h 1m)"],
        ),
        (LoopFailed(iteration=1, phase="planning", message="no"), "bold red", ["[Loop] Failed in planning: no"]),
        (
            UsageReport(input_tokens=2345, cache_read_tokens=50000, output_tokens=678, cost_usd=0.4249),
            "dim",
            ["[Usage] 52,345 in (50,000 cached), 678 out, $0.42"],
        ),
        (UsageReport(input_tokens=5, output_tokens=6), "dim", ["[Usage] 5 in, 6 out"]),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, events.Event) else "",
)
def test_each_event_is_shown_as_the_table_says(event: events.Event, style: str, lines: list[str]) -> None:
    assert plain(event) == lines
    assert style_of(event) == style
    assert [STYLE.sub("", line) for line in render(event, width=80, colour=True)] == lines


@pytest.mark.parametrize(
    ("name", "given", "shown"),
    [
        ("Bash", {"description": "d", "command": "ls -l"}, "▶ Bash: ls -l"),
        ("Bash", {"command": "cd x\nmake"}, "▶ Bash: cd x␊make"),
        ("Read", {"limit": 3, "file_path": "/a/b.py"}, "▶ Read: /a/b.py"),
        ("Write", {"content": "words", "file_path": "/a"}, "▶ Write: /a"),
        ("Edit", {"old_string": "x", "file_path": "/a"}, "▶ Edit: /a"),
        ("Glob", {"path": "/p", "pattern": "**/*.py"}, "▶ Glob: **/*.py"),
        ("Grep", {"path": "/p", "pattern": "TODO"}, "▶ Grep: TODO"),
        ("WebFetch", {"prompt": "p", "url": "https://x.invalid"}, "▶ WebFetch: https://x.invalid"),
        ("Task", {"prompt": "p", "description": "look around"}, "▶ Task: look around"),
        ("mcp__db__query", {"limit": 3, "sql": "select 1", "db": "x"}, "▶ mcp__db__query: select 1"),
        ("Bash", {"script": "ls"}, "▶ Bash: ls"),
        ("Bash", {"command": 7}, "▶ Bash"),
        ("TodoWrite", {"todos": []}, "▶ TodoWrite"),
        ("shell", "echo hi", "▶ shell: echo hi"),
        ("x", None, "▶ x"),
        ("x", ["a"], "▶ x"),
    ],
)
def test_a_tool_call_shows_what_matters_of_its_input(name: str, given: Any, shown: str) -> None:
    call = ToolCall(id="1", name=name, input=given)
    assert plain(call) == [shown]
    assert style_of(call) == "dim cyan"


def test_a_message_is_neither_styled_nor_shortened() -> None:
    text = "word " * 100
    assert render(AgentMessage(text=text + "\nnext"), width=20, colour=True) == [text, "next"]


def test_a_ping_and_an_unknown_event_show_nothing() -> None:
    class FromTheFuture(events.Event, frozen=True, kw_only=True):
        pass

    assert plain(PingEvent()) == []
    assert plain(FromTheFuture()) == []


def test_every_event_but_the_ping_has_its_function() -> None:
    from cuggino.output.render import _table

    assert set(get_args(events.PrintableEvent)) - set(_table) == {PingEvent}


def test_of_a_long_tool_result_ten_lines_are_shown_and_all_are_counted() -> None:
    lines = plain(ToolResult(id="1", output="".join(f"line {n}\n" for n in range(1, 151))))
    assert lines[0] == "   1  line 1"
    assert lines[9] == "  10  line 10"
    assert lines[10:] == ["(showing 10 of 150 lines)"]


def test_of_a_long_check_the_last_lines_are_shown() -> None:
    output = "".join(f"line {n}\n" for n in range(1, 151))
    lines = plain(CheckCommandOutput(iteration=1, output=output, exit_code=2))
    assert lines == ["[Check] exit 2 (last 10 of 150 lines)", *(f"line {n}" for n in range(141, 151))]


def test_waiting_tells_the_local_time_and_for_how_long(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "XXX-2")  # two hours east of Greenwich
        time.tzset()
        event = AgentWaiting(iteration=1, until=datetime(2026, 11, 21, 13, 30, tzinfo=UTC), reason="usage limit")
        assert plain(event) == ["[Agent] Waiting until 15:30: usage limit"]
        assert render(event, width=80, colour=False, at="2026-11-21T11:25:00.000Z") == [
            "[Agent] Waiting until 15:30 (for 2h 5m): usage limit"
        ]
        assert render(event, width=80, colour=False, at="2026-11-20T11:25:00.000Z") == [
            "[Agent] Waiting until 2026-11-21 15:30 (for 1d 2h): usage limit"
        ]
    time.tzset()


# ---- foreign text -----------------------------------------------------------------------------


def test_what_a_terminal_would_obey_is_shown_instead() -> None:
    assert visible("\x1b[2J\x07 10%\r20% \x00\x7f") == "␛[2J␇ 10%␍20% ␀␡"
    assert visible("\x9b2J \x85") == "\\x9b2J \\x85"
    assert visible("a\u202eb\u2066c\u2028") == "a\\u202eb\\u2066c\\u2028"
    assert visible("\udc80") == "\\udc80"


def test_line_feeds_tabs_and_readable_text_of_any_language_stay() -> None:
    text = f"a\tb\n中文 {FAMILY} e\u0301 ❤\ufe0f שלום\u200f\xa0x"
    assert visible(text) == text
    assert visible("windows\r\nlines\r\n") == "windows\nlines\n"


@pytest.mark.parametrize("width", [60, 80, 140])
def test_lines_are_shortened_to_the_width_of_the_screen(width: int) -> None:
    for text in ("x" * 500, "中" * 500, FAMILY * 500, "e\u0301" * 500, "\tx" * 500, "\x1b" * 500, "❤\ufe0f" * 500):
        for event in (
            ToolCall(id="1", name="Bash", input={"command": text}),
            ToolResult(id="1", output=text),
            CheckCommandOutput(iteration=1, output=text, exit_code=0),
        ):
            line = plain(event, width)[-1]
            assert line.endswith("…")
            assert width - 2 <= columns(line) <= width


def test_what_fits_exactly_is_not_shortened() -> None:
    assert shorten("x" * 80, 80) == "x" * 80
    assert shorten("中" * 40, 80) == "中" * 40
    assert shorten("x" * 81, 80) == "x" * 79 + "…"


def test_a_grapheme_is_never_cut() -> None:
    assert shorten(FAMILY * 3, 5) == FAMILY * 2 + "…"
    assert shorten(FAMILY * 3, 4) == FAMILY + "…"
    assert shorten("e\u0301" * 9, 4) == "e\u0301" * 3 + "…"
    assert shorten("中文", 1) == "…"


def test_piled_up_marks_and_lines_of_megabytes_cost_little() -> None:
    started = time.process_time()
    assert shorten("ab" + "\u0301" * 5_000_000, 80) == "a…"
    assert shorten("\x1b" * 10_000_000, 3) == "␛␛…"
    assert plain(ToolResult(id="1", output="x" * 10_000_000))[0].endswith("…")
    assert plain(ToolResult(id="1", output="\x1b\n" * 3_000_000))[-1] == "(showing 10 of 3000000 lines)"
    assert time.process_time() - started < 1


@pytest.mark.parametrize(
    ("text", "first", "last", "total"),
    [
        ("", [], [], 0),
        ("a", ["a"], ["a"], 1),
        ("a\n", ["a"], ["a"], 1),
        ("a\r\nb\r\n", ["a", "b"], ["a", "b"], 2),
        ("\n\n", ["", ""], ["", ""], 2),
        ("a\nb\nc\nd", ["a", "b"], ["c", "d"], 4),
        ("a\nb\nc\nd\n", ["a", "b"], ["c", "d"], 4),
    ],
)
def test_first_and_last_lines(text: str, first: list[str], last: list[str], total: int) -> None:
    assert first_lines(text, 2) == (first, total)
    assert last_lines(text, 2) == (last, total)


ANY_TEXT = st.text(
    st.one_of(st.characters(), st.sampled_from("\x1b\r\n\t\x07\x9b\u202e\u200d\ufe0f\ud800a中́👨"))
)  # lone surrogates too
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | ANY_TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ANY_TEXT, inner, max_size=3),
    max_leaves=5,
)


def any_event() -> st.SearchStrategy[events.Event]:
    numbers = st.integers(-(10**9), 10**9)
    values: dict[Any, st.SearchStrategy[Any]] = {
        "str": ANY_TEXT,
        "int": numbers,
        "float": st.floats(-1e9, 1e9),
        "float | None": st.none() | st.floats(0, 1e6),
        "bool": st.booleans(),
        "Any": JSON,
        "datetime": st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC)),  # noqa: DTZ001
    }

    def fields(kind: type[events.Event]) -> Iterator[tuple[str, str]]:
        for base in reversed(kind.__mro__):
            if base.__module__ == events.__name__:
                yield from inspect.get_annotations(base).items()

    return st.one_of(
        [
            st.builds(kind, **{name: values[annotation] for name, annotation in fields(kind)})
            for kind in get_args(events.PrintableEvent)
        ]
    )


@given(event=any_event(), width=st.integers(1, 200), colour=st.booleans())
def test_whatever_an_event_holds_it_is_shown_and_nothing_in_it_is_obeyed(
    event: events.Event, width: int, colour: bool
) -> None:
    for line in render(event, width=width, colour=colour, at="2026-11-21T11:25:00.000Z"):
        line.encode()
        bare = STYLE.sub("", line) if colour else line
        tricks = [c for c in bare if unicodedata.category(c) in ("Cc", "Cs") and c != "\t"]
        assert tricks == []
        assert not re.search("[\u202a-\u202e\u2066-\u2069]", bare)


@given(text=ANY_TEXT, width=st.integers(1, 30))
def test_a_shortened_line_fits_and_is_a_beginning_of_the_text(text: str, width: int) -> None:
    line = shorten(text, width)
    assert wcwidth.width(line) <= width or len(line) == 1
    whole = visible(text).replace("\n", "␊").expandtabs(4)
    assert line == whole or (line.endswith("…") and whole.startswith(line[:-1]))


# ---- the status line and the summary ----------------------------------------------------------


def test_durations_have_two_units() -> None:
    cases = {0: "0s", -3: "0s", 59.9: "59s", 60: "1m", 90: "1m 30s", 3600: "1h", 7500: "2h 5m", 277200: "3d 5h"}
    assert {seconds: duration(seconds) for seconds in cases} == cases


def test_the_status_line_says_how_long_nothing_was_shown_and_never_fills_the_screen() -> None:
    assert status("Working", seconds=90, frame=2, width=80) == "⠹ Working… (1m 30s)"
    assert columns(status("Working", seconds=90, frame=12, width=10)) <= 9


def test_what_goes_on_follows_from_the_events() -> None:
    now = ""
    seen = []
    for event in (
        IterationStart(iteration=1, max_iterations=1),
        PingEvent(),
        AgentRetry(iteration=1, attempt=1, reason="", delay=1),
        AgentMessage(text="x"),
        LoopApproved(iteration=1),
    ):
        now = activity(event, now)
        seen.append(now)
    assert seen == ["Working", "Working", "Waiting", "Working", ""]


def test_a_summary_counts_what_was_done() -> None:
    tally = Tally()
    for event in (
        IterationStart(iteration=1, max_iterations=3),
        PlanComplete(content=""),
        ImplementingStart(iteration=1),
        Progress(content=""),
        Progress(content="after its last word: ignored"),
        CommitPerformed(iteration=1, commit_hash="a", message=""),
        UsageReport(input_tokens=1000, cache_read_tokens=500, output_tokens=10, cost_usd=0.25),
        ImplementingStart(iteration=1),
        Done(content=""),
        UsageReport(input_tokens=1000, cache_creation_tokens=7, output_tokens=10, cost_usd=0.5),
        LoopApproved(iteration=1),
    ):
        tally.add(event)
    assert render_summary(tally.summary(seconds=330), Page(80, colour=False)) == [
        "",
        "Outcome     approved",
        "Iterations  1",
        "Tasks       2",
        "Commits     1",
        "Time        5m 30s",
        "Tokens      2,507 in (500 cached), 20 out",
        "Cost        $0.75",
    ]


def test_a_summary_is_silent_about_what_no_agent_told() -> None:
    tally = Tally()
    lines = render_summary(tally.summary(seconds=1), Page(80, colour=False))
    assert lines[1] == "Outcome     interrupted"
    assert not [line for line in lines if line.startswith(("Tokens", "Cost"))]
    tally.add(UsageReport(input_tokens=1))
    assert not [line for line in render_summary(tally.summary(seconds=1), Page(80, colour=False)) if "Cost" in line]
    tally.add(UsageReport(cost_usd=1.5))
    assert render_summary(tally.summary(seconds=1), Page(80, colour=False))[-1] == "Cost        at least $1.50"


@pytest.mark.parametrize(
    ("end", "outcome"),
    [
        (LoopSpecIssue(iteration=1, content="x", filename="7.md"), "spec issue, saved to .cuggino/spec-issues/7.md"),
        (LoopMaxIterations(iteration=1, max_iterations=1), "max iterations reached"),
        (LoopLimitReached(iteration=1, limit="maxRuntime", value=60), "limit reached: maxRuntime (1m)"),
        (
            LoopFailed(iteration=1, phase="review", message="a\x1b\n" + "b" * 99),
            "failed in review: a␛␊" + "b" * 46 + "…",
        ),
    ],
)
def test_a_summary_names_the_outcome(end: events.LoopTerminalEvent, outcome: str) -> None:
    tally = Tally()
    tally.add(end)
    assert render_summary(tally.summary(seconds=1), Page(80, colour=False))[1] == f"Outcome     {outcome}"
