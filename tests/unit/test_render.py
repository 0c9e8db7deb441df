from __future__ import annotations

import re
import time
import types
import unicodedata
from datetime import UTC, datetime
from typing import Any, Literal, get_args, get_origin

import msgspec
import pytest
import wcwidth
from hypothesis import example, given
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
    LoopStart,
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
    WatchAuditEnded,
    WatchAuditFailed,
    WatchAuditInterrupted,
    WatchAuditStarted,
    WatchBacklogWaiting,
    WatchEnded,
    WatchIdle,
    WatchItemBlocked,
    WatchItemCompleted,
    WatchItemFailed,
    WatchItemNotRemoved,
    WatchPollFailed,
    WatchProcessingItem,
    WatchSpecIssueWaiting,
    WatchStopping,
    WatchTbdItemFound,
    WatchValidationFailed,
    WatchValidationPassed,
    WatchValidationStarted,
)
from cuggino.output.page import Page
from cuggino.output.render import render
from cuggino.output.status import activity, status
from cuggino.output.summary import Tally, render_summary
from cuggino.output.text import columns, duration, first_lines, last_lines, shorten, visible, visible_name

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
        "\x1b[36m": "cyan",
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
        (
            LoopStart(iteration=1, focus="\nthe CSV export\nin detail: \x1b[2J", backlog_file=None, resumed=False),
            "dim",
            ["[Loop] Focus: the CSV export"],
        ),
        (
            LoopStart(iteration=2, focus="@" + "/a/long/path" * 10, backlog_file="path", resumed=True),
            "dim",
            ["[Loop] Going on with focus: @/a/long/path/a/long/path/a/long/path/a/long/path/a…"],
        ),
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
        (AgentRetry(iteration=1, attempt=1, reason="mute", delay=0), "bold yellow", ["[Agent] Asked again (1): mute"]),
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
        (
            WatchSpecIssueWaiting(),
            "dim",
            ["[Watch] Waiting for you: spec issues must be cleared in .cuggino/spec-issues/"],
        ),
        (WatchBacklogWaiting(), "dim", ["[Watch] Waiting for items: nothing in .cuggino/backlog/ is ready"]),
        (WatchProcessingItem(filename="010-a.md"), "dim", ["[Watch] Processing 010-a.md"]),
        (WatchItemCompleted(filename="010-a.md"), "dim", ["[Watch] Completed 010-a.md"]),
        (
            WatchItemNotRemoved(filename="010-a.md", reason="changed"),
            "dim",
            ["[Watch] 010-a.md stays in the backlog: it was edited meanwhile, and will be done again"],
        ),
        (
            WatchItemNotRemoved(filename="010-a.md", reason="spec-issue"),
            "dim",
            ["[Watch] 010-a.md stays in the backlog: it is taken again when the spec issue is cleared"],
        ),
        (
            WatchItemNotRemoved(filename="010-a.md", reason="gone"),
            "dim",
            ["[Watch] 010-a.md was taken out of the backlog meanwhile"],
        ),
        (
            WatchItemFailed(filename="010-a.md", message="no marker\nDo this.\n", attempt=2, retry_in=60),
            "red",
            ["[Watch] 010-a.md failed (attempt 2, again in 1m): no marker", "Do this."],
        ),
        (
            WatchItemFailed(filename="010-a.md", message="no marker", attempt=3, retry_in=None),
            "red",
            ["[Watch] 010-a.md failed (attempt 3, not tried again): no marker"],
        ),
        (
            WatchItemBlocked(filename="010-a.md", reason="it is empty"),
            "red",
            [
                "[Watch] 010-a.md is set aside: it is empty",
                "It is taken again when its content changes, or when the watch starts anew.",
            ],
        ),
        (WatchAuditStarted(), "cyan", ["[Watch] Audit started"]),
        (WatchAuditEnded(), "cyan", ["[Watch] Audit ended"]),
        (WatchAuditInterrupted(), "cyan", ["[Watch] Audit interrupted"]),
        (WatchAuditFailed(message="not logged in"), "red", ["[Watch] Audit failed, the watch goes on: not logged in"]),
        (
            WatchTbdItemFound(content="\nExport has no header.\nThe spec says so.", filename="7.md"),
            "bold magenta",
            ["[Watch] Finding: Export has no header.", "Saved to: .cuggino/tbd/7.md"],
        ),
        (WatchValidationStarted(completed=10), "dim", ["[Watch] Validating after 10 items"]),
        (WatchValidationPassed(completed=1), "dim", ["[Watch] Validation passed after 1 item"]),
        (
            WatchValidationFailed(completed=10, output="a\nb\n", exit_code=2),
            "red",
            ["[Watch] Validation failed after 10 items, exit 2", "a", "b"],
        ),
        (
            WatchPollFailed(attempt=2, message="backlog cannot be read: Permission denied."),
            "red",
            ["[Watch] The folders cannot be read (attempt 2 of 3): backlog cannot be read: Permission denied."],
        ),
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


def test_of_a_failed_validation_the_last_lines_are_shown_each_within_the_width() -> None:
    output = "".join(f"line {n} {'中' * 100}\n" for n in range(1, 151))
    head, *lines = plain(WatchValidationFailed(completed=20, output=output, exit_code=2))
    assert head == "[Watch] Validation failed after 20 items, exit 2 (last 10 of 150 lines)"
    assert [line[:8] for line in lines] == [f"line {n}" for n in range(141, 151)]
    assert all(columns(line) <= 80 for line in lines)


@pytest.mark.parametrize(
    ("blocked", "seconds", "shown"),
    [
        (None, 0, "no ready issues"),
        (0, 0, "no ready issues"),
        (1, 0, "1 issue exists but none ready"),
        (3, 0, "3 issues exist but none ready"),
        (None, 300, "no ready issues (for 5m)"),
        (3, 7500, "3 issues exist but none ready (for 2h 5m)"),
    ],
)
def test_idle_tells_what_exists_and_for_how_long(blocked: int | None, seconds: int, shown: str) -> None:
    event = WatchIdle(wait_seconds=seconds, blocked=blocked)
    assert plain(event) == [f"[Watch] Idle: {shown}"]
    assert style_of(event) == "dim"


@pytest.mark.parametrize(
    ("stage", "active", "shown"),
    [
        (
            "drain",
            2,
            "Stopping: 2 items go on to their end, nothing new starts. Ctrl+C again interrupts them.",
        ),
        ("drain", 1, "Stopping: 1 item goes on to its end, nothing new starts. Ctrl+C again interrupts it."),
        (
            "drain",
            0,
            "Stopping: no item is being worked on; only a due validation still runs. Ctrl+C again interrupts it.",
        ),
        (
            "interrupt",
            2,
            "Interrupting: what still runs has 5 s to end. 2 items stay in the backlog. Ctrl+C again kills it now.",
        ),
        (
            "interrupt",
            1,
            "Interrupting: what still runs has 5 s to end. 1 item stays in the backlog. Ctrl+C again kills it now.",
        ),
        ("interrupt", 0, "Interrupting: what still runs has 5 s to end. Ctrl+C again kills it now."),
        ("kill", 2, "Killing everything that is left. There is nothing more to press."),
        ("kill", 0, "Killing everything that is left. There is nothing more to press."),
    ],
)
def test_each_press_is_answered_with_what_happens_and_what_the_next_one_does(
    stage: Literal["drain", "interrupt", "kill"], active: int, shown: str
) -> None:
    event = WatchStopping(stage=stage, active=active)
    assert plain(event) == [f"[Watch] {shown}"]
    assert style_of(event) == "bold yellow"


ENDINGS: list[tuple[WatchEnded, str, str, str]] = [
    (WatchEnded(reason="idle", completed=3, exit_code=0), "bold green", "nothing is left to do", ""),
    (WatchEnded(reason="idle", completed=3, exit_code=4), "bold yellow", "spec issues wait for you", ""),
    (WatchEnded(reason="idle", completed=3, exit_code=1), "red", "what is left is blocked", ""),
    (WatchEnded(reason="interrupted", completed=3, exit_code=130), "bold yellow", "it was stopped", ""),
    (WatchEnded(reason="interrupted", completed=3, exit_code=143), "bold yellow", "it was stopped", ""),
    (WatchEnded(reason="interrupted", completed=3, exit_code=1), "red", "it was stopped", ""),
    (
        WatchEnded(reason="validation-failed", completed=3, exit_code=1),
        "red",
        "the validation failed",
        ". Mend what it found, then start anew.",
    ),
    (
        WatchEnded(reason="poll-failed", completed=3, exit_code=3),
        "red",
        "the folders cannot be read",
        ". Make them readable, then start anew.",
    ),
    (
        WatchEnded(reason="setup-failed", completed=3, exit_code=1),
        "red",
        "an agent cannot be set up",
        ", no item is to blame. Mend it, then start anew.",
    ),
]


@pytest.mark.parametrize(("event", "style", "why", "advice"), ENDINGS)
def test_the_end_of_a_watch_says_why_in_one_line(event: WatchEnded, style: str, why: str, advice: str) -> None:
    assert plain(event) == [f"[Watch] Ended, 3 items completed: {why}{advice}"]
    assert style_of(event) == style
    one = msgspec.structs.replace(event, completed=1)
    assert plain(one)[0].startswith("[Watch] Ended, 1 item completed: ")


def with_name(name: str) -> list[events.Event]:
    """Each watch event that carries a file's name."""
    return [
        WatchProcessingItem(filename=name),
        WatchItemCompleted(filename=name),
        WatchItemNotRemoved(filename=name, reason="changed"),
        WatchItemFailed(filename=name, message="m", attempt=1, retry_in=30),
        WatchItemBlocked(filename=name, reason="r"),
        WatchTbdItemFound(content="c", filename=name),
    ]


@pytest.mark.parametrize("width", [60, 80, 140])
@pytest.mark.parametrize("name", ["x" * 250 + ".md", "輸出" * 40 + ".md", FAMILY + "e\u0301 a.md"])
def test_names_and_reasons_are_shown_whole_whatever_the_width(name: str, width: int) -> None:
    """To find the file, a person needs all of its name: the terminal wraps it."""
    for event in with_name(name):
        assert name in "\n".join(plain(event, width))
    reason = "because " * 50
    for event in (
        WatchItemFailed(filename="a", message=reason, attempt=1, retry_in=30),
        WatchItemBlocked(filename="a", reason=reason),
        WatchAuditFailed(message=reason),
        WatchPollFailed(attempt=1, message=reason),
    ):
        assert reason.strip() in plain(event, width)[0]


@pytest.mark.parametrize("width", [60, 80, 140])
def test_a_finding_is_told_in_one_line_because_the_agent_has_shown_it_whole(width: int) -> None:
    for content in ("x" * 500, "中" * 500):
        first, second = plain(WatchTbdItemFound(content=f"{content}\nmore", filename="7.md"), width)
        assert width - 1 <= columns(first) <= width
        assert first.endswith("…")
        assert second == "Saved to: .cuggino/tbd/7.md"


def test_a_file_name_stays_on_its_line_and_is_never_obeyed() -> None:
    name = "a\n[Watch] Ended\x1b[2J\r\n\t\x07\u202eb\udcff.md"
    shown = "a␊[Watch] Ended␛[2J␍␊␉␇\\u202eb\\udcff.md"
    assert visible_name(name) == shown
    for event in with_name(name):
        assert shown in "\n".join(plain(event))
        assert len(plain(event)) == len(plain(msgspec.structs.replace(event, filename="a")))


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
            assert columns(line) <= width
            # a terminal that knows no clusters shows each part of a family by itself: it must fit there too
            apart = max(columns(line), sum(max(wcwidth.wcwidth(char), 0) for char in line))
            assert width - (8 if FAMILY in text else 2) <= apart <= width


def test_what_fits_exactly_is_not_shortened() -> None:
    assert shorten("x" * 80, 80) == "x" * 80
    assert shorten("中" * 40, 80) == "中" * 40
    assert shorten("x" * 81, 80) == "x" * 79 + "…"


def test_a_grapheme_is_never_cut() -> None:
    assert shorten(FAMILY * 3, 17) == FAMILY * 2 + "…"  # 8 columns where they are shown apart
    assert shorten(FAMILY * 3, 16) == FAMILY + "…"
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
    values: dict[Any, st.SearchStrategy[Any]] = {
        str: ANY_TEXT,
        int: st.integers(-(10**9), 10**9),
        float: st.floats(-1e9, 1e9),
        bool: st.booleans(),
        types.NoneType: st.none(),
        Any: JSON,
        datetime: st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC)),  # noqa: DTZ001
    }

    def of(annotation: Any) -> st.SearchStrategy[Any]:
        if get_origin(annotation) is Literal:
            return st.sampled_from(get_args(annotation))
        return values[annotation] if annotation in values else st.one_of([of(one) for one in get_args(annotation)])

    return st.one_of(
        [
            st.builds(kind, **{field.name: of(field.type) for field in msgspec.structs.fields(kind)})
            for kind in get_args(events.PrintableEvent)
        ]
    )


@given(event=any_event(), width=st.integers(1, 200), colour=st.booleans())
def test_whatever_an_event_holds_it_is_shown_and_nothing_in_it_is_obeyed(
    event: events.Event, width: int, colour: bool
) -> None:
    lines = render(event, width=width, colour=colour, at="2026-11-21T11:25:00.000Z")
    assert bool(lines) is not isinstance(event, PingEvent)
    for line in lines:
        line.encode()
        bare = STYLE.sub("", line) if colour else line
        tricks = [c for c in bare if unicodedata.category(c) in ("Cc", "Cs") and c != "\t"]
        assert tricks == []
        assert not re.search("[\u202a-\u202e\u2066-\u2069]", bare)


@given(text=ANY_TEXT, width=st.integers(1, 30))
@example(text="0\u102b0", width=2)  # a sign that takes a column only behind a letter
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


def test_while_a_watch_waits_for_files_nothing_goes_on_unless_an_audit_does() -> None:
    def told(*stream: events.Event) -> list[str]:
        now, seen = "", []
        for event in stream:
            now = activity(event, now)
            seen.append(now)
        return seen

    idle = WatchIdle(wait_seconds=0, blocked=None)
    failed = WatchItemFailed(filename="a", message="", attempt=1, retry_in=30)
    assert told(WatchSpecIssueWaiting(), WatchBacklogWaiting(), idle) == [""] * 3
    for event in (WatchSpecIssueWaiting(), WatchBacklogWaiting(), idle):
        assert told(PingEvent(), event) == ["Working", ""]
    assert told(idle, SystemMessage(text="a warning"), WatchPollFailed(attempt=1, message="")) == [""] * 3
    assert told(WatchBacklogWaiting(), WatchAuditStarted(), PingEvent(), WatchSpecIssueWaiting(), idle) == [
        "",
        *["Auditing"] * 4,
    ]
    for end in (WatchAuditEnded(), WatchAuditInterrupted(), WatchAuditFailed(message="")):
        assert told(WatchAuditStarted(), WatchTbdItemFound(content="", filename=""), end) == ["Auditing"] * 2 + [""]
    assert told(
        WatchProcessingItem(filename="a"),
        PingEvent(),
        WatchStopping(stage="drain", active=1),
        LoopApproved(iteration=1),
        WatchItemCompleted(filename="a"),
    ) == ["Working"] * 3 + ["", ""]
    assert told(WatchProcessingItem(filename="a"), failed, WatchProcessingItem(filename="a")) == [
        "Working",
        "Waiting",
        "Working",
    ]
    assert told(failed, msgspec.structs.replace(failed, retry_in=None)) == ["Waiting", ""]
    assert told(WatchProcessingItem(filename="a"), WatchItemBlocked(filename="a", reason="")) == ["Working", ""]
    assert told(WatchValidationStarted(completed=1), WatchValidationPassed(completed=1)) == ["Validating", ""]
    validation_failed = WatchValidationFailed(completed=1, output="", exit_code=1)
    assert told(WatchValidationStarted(completed=1), validation_failed) == ["Validating", ""]
    end_of_all = WatchEnded(reason="interrupted", completed=0, exit_code=130)
    assert told(WatchProcessingItem(filename="a"), end_of_all) == ["Working", ""]


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
            LoopFailed(iteration=1, phase="review", message="a\x1b" + "b" * 99 + "\nadvice"),
            "failed in review: a␛" + "b" * 47 + "…",
        ),
    ],
)
def test_a_summary_names_the_outcome(end: events.LoopTerminalEvent, outcome: str) -> None:
    tally = Tally()
    tally.add(end)
    assert render_summary(tally.summary(seconds=1), Page(80, colour=False))[1] == f"Outcome     {outcome}"


def summary_of(*stream: events.Event) -> list[str]:
    tally = Tally()
    for event in stream:
        tally.add(event)
    return render_summary(tally.summary(seconds=1), Page(80, colour=False))


def test_a_watch_is_summed_up_by_its_items_and_its_own_end() -> None:
    lines = summary_of(
        WatchProcessingItem(filename="a"),
        IterationStart(iteration=1, max_iterations=3),
        LoopApproved(iteration=1),
        WatchItemCompleted(filename="a"),
        WatchItemFailed(filename="b", message="", attempt=1, retry_in=30),
        WatchItemCompleted(filename="b"),
        *[WatchItemFailed(filename="c", message="", attempt=n, retry_in=None) for n in (1, 2, 3)],
        WatchItemBlocked(filename="c", reason=""),
        WatchItemFailed(filename="d", message="", attempt=1, retry_in=30),
        WatchItemNotRemoved(filename="d", reason="changed"),
        WatchItemFailed(filename="e", message="", attempt=1, retry_in=30),
        WatchItemCompleted(filename="a"),  # a new file of the same name
        LoopFailed(iteration=1, phase="planning", message="no"),
        WatchEnded(reason="interrupted", completed=3, exit_code=130),
    )
    assert lines[:4] == [
        "",
        "Outcome     it was stopped",
        "Items       3 completed, 1 failed, 1 blocked",
        "Iterations  1",
    ]


@pytest.mark.parametrize(("event", "style", "why", "advice"), ENDINGS)
def test_the_outcome_of_a_watch_is_why_it_ended(event: WatchEnded, style: str, why: str, advice: str) -> None:
    tally = Tally()
    tally.add(LoopApproved(iteration=1))
    tally.add(event)
    _, outcome, *_ = render_summary(tally.summary(seconds=1), Page(80, colour=True))
    assert STYLE.sub("", outcome) == f"Outcome     {why}"
    assert STYLE.findall(outcome)[0] == STYLE.findall(render(event, width=80, colour=True)[0])[0]


def test_a_watch_that_was_torn_away_was_interrupted_whatever_its_last_loop_came_to() -> None:
    lines = summary_of(WatchProcessingItem(filename="a"), LoopApproved(iteration=1))
    assert lines[1:3] == ["Outcome     interrupted", "Items       0 completed, 0 failed, 0 blocked"]


def test_a_run_has_no_items() -> None:
    assert not [line for line in summary_of(LoopApproved(iteration=1)) if line.startswith("Items")]
