"""What people see of each event, of foreign text, and at the end of a run."""

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

from cuggino import events as e
from cuggino.output.page import Page
from cuggino.output.render import _table, render
from cuggino.output.summary import RunTally, render_summary
from cuggino.output.terminal import LONGEST_NAME, LinePrefixes, activity, status_line
from cuggino.output.text import columns, duration, first_lines, last_lines, shorten, visible, visible_name

FAMILY = "👨‍👩‍👧‍👦"
STYLE = re.compile("\x1b\\[[0-9;]*m")
STYLES = {"2": "dim", "2;36": "dim cyan", "31": "red", "36": "cyan", "1": "bold"}
STYLES |= {"1;31": "bold red", "1;32": "bold green", "1;33": "bold yellow", "1;34": "bold blue", "1;35": "bold magenta"}


def plain(event: e.Event, width: int = 80) -> list[str]:
    return render(event, width=width, colour=False)


def style_of(event: e.Event) -> str:
    """The style of an event whose lines all have the same."""
    lines = [line for line in render(event, width=80, colour=True) if line]
    styles = {tuple(STYLE.findall(line)) for line in lines}
    assert len(styles) == 1, lines
    start, *end = styles.pop()
    assert end == ["\x1b[0m"]
    return STYLES[start[2:-1]]


# ---- the table --------------------------------------------------------------------------------

NUMBERED = "".join(f"line {n}\n" for n in range(1, 151))
LONG_PATH = "@" + "/a/long/path" * 10

TOOLS: list[tuple[str, Any, str]] = [
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
]
NO_ITEM = "Stopping: no item in progress; only a due validation still runs. Ctrl+C again interrupts it."
KILLING = "Killing everything that still runs."
STOPPING: list[tuple[Any, int, str]] = [
    ("drain", 2, "Stopping: finishing 2 items, starting nothing new. Ctrl+C again interrupts them."),
    ("drain", 1, "Stopping: finishing 1 item, starting nothing new. Ctrl+C again interrupts it."),
    ("drain", 0, NO_ITEM),
    *(
        ("interrupt", n, f"Interrupting: running work has 5 s to end.{kept} Ctrl+C again kills it now.")
        for n, kept in ((2, " 2 items stay in the backlog."), (1, " 1 item stays in the backlog."), (0, ""))
    ),
    ("kill", 2, KILLING),
    ("kill", 0, KILLING),
]
IDLE_TEXTS = [
    (None, 0, "no items ready"),
    (0, 0, "no items ready"),
    (1, 0, "1 item in the backlog, none ready"),
    (3, 0, "3 items in the backlog, none ready"),
    (None, 300, "no items ready (for 5m)"),
    (3, 7500, "3 items in the backlog, none ready (for 2h 5m)"),
]
TEN_OF_150 = "\n".join([*(f"{n:>4}  line {n}" for n in range(1, 11)), "(showing 10 of 150 lines)"])
LAST_TEN = "\n".join(["exit 2 (last 10 of 150 lines)", *(f"line {n}" for n in range(141, 151))])
AGAIN = "Edit it, or restart the watch, to try again."

# By style and beginning: events, and the rest of their lines.
TABLE: dict[tuple[str, str], list[tuple[e.Event, str]]] = {
    ("dim", ""): [
        (e.SystemMessage(text="claude 2.1\nmodel x"), "[System] claude 2.1\nmodel x"),
        (e.ToolResult(id="1", output="one\ntwo\n"), "   1  one\n   2  two"),
        (e.ToolResult(id="1", output=""), "(no output)"),
        (e.ToolResult(id="1", output=NUMBERED), TEN_OF_150),
        (e.PlanningStart(iteration=1), "[Planning] Starting..."),
        (e.ImplementingStart(iteration=1), "[Implementing] Starting..."),
        (e.ReviewingStart(iteration=1), "[Reviewing] Starting..."),
        (e.CheckCommandOutput(iteration=1, output="a\nb\n", exit_code=0), "[Check] exit 0\na\nb"),
        (e.SetupCommandOutput(iteration=1, output="", exit_code=0), "[Setup] exit 0"),
        (e.UsageReport(input_tokens=5, output_tokens=6), "[Usage] 5 in, 6 out"),
        (
            e.UsageReport(input_tokens=2345, cache_read_tokens=50000, output_tokens=678, cost_usd=0.4249),
            "[Usage] 52,345 in (50,000 cached), 678 out, $0.42",
        ),
    ],
    ("red", ""): [(e.ToolResult(id="1", output="no such file", is_error=True), "   1  no such file")],
    ("dim cyan", ""): [(e.ToolCall(id="1", name=name, input=value), shown) for name, value, shown in TOOLS],
    ("bold yellow", ""): [
        (e.Note(content="two\nlines"), "\n[NOTE] two\nlines\n"),
        (e.RequestChanges(content="x"), "\n[REQUEST_CHANGES] x\n"),
        (e.AgentRetry(iteration=1, attempt=2, reason="busy", delay=8.5), "[Agent] Retry 2 in 8s: busy"),
        (e.AgentRetry(iteration=1, attempt=1, reason="mute", delay=0), "[Agent] Asked again (1): mute"),
    ],
    ("bold red", ""): [
        (e.CheckCommandOutput(iteration=1, output=NUMBERED, exit_code=2), f"[Check] {LAST_TEN}"),
        (e.SpecIssue(content="x"), "\n[SPEC_ISSUE] x\n"),
        (e.CommitFailed(iteration=1, message="hook said\nno\n"), "[Commit] Failed: hook said\nno"),
    ],
    ("bold blue", ""): [(e.Progress(content="x"), "\n[PROGRESS] x\n")],
    ("bold green", ""): [
        (e.Done(content="x"), "\n[DONE] x\n"),
        (e.Approved(content=""), "\n[APPROVED]\n"),
        (e.PlanComplete(content="x"), "\n[PLAN_COMPLETE] x\n"),
    ],
    ("bold magenta", ""): [
        (e.ToBeDiscussed(content="x"), "\n[TO_BE_DISCUSSED] x\n"),
        (e.CommitPerformed(iteration=1, commit_hash="a1b2c3d4e5f6", message="one\n\nmore"), "[Commit] a1b2c3d: one"),
    ],
    ("bold", "[Loop] "): [(e.IterationStart(iteration=2, max_iterations=10), "=== Iteration 2/10 ===")],
    ("dim", "[Loop] "): [
        (
            e.LoopStart(iteration=1, focus="\nthe CSV export\nin detail: \x1b[2J", backlog_file=None, resumed=False),
            "Focus: the CSV export",
        ),
        (
            e.LoopStart(iteration=2, focus=LONG_PATH, backlog_file="path", resumed=True),
            f"Resumed with focus: {LONG_PATH[:52]}…",
        ),
    ],
    ("bold green", "[Loop] "): [(e.LoopApproved(iteration=3), "Approved in iteration 3")],
    ("bold red", "[Loop] "): [
        (
            e.LoopSpecIssue(iteration=1, content="unclear", filename="7.md"),
            "Spec issue: unclear\nSaved to: .cuggino/spec-issues/7.md",
        ),
        (e.LoopFailed(iteration=1, phase="planning", message="no"), "Failed in planning: no"),
    ],
    ("bold yellow", "[Loop] "): [
        (e.LoopMaxIterations(iteration=9, max_iterations=9), "Max iterations reached (9)"),
        (e.LoopLimitReached(iteration=9, limit="maxCostUsd", value=5.018), "Limit reached: maxCostUsd ($5.02)"),
        (e.LoopLimitReached(iteration=9, limit="maxRuntime", value=7260), "Limit reached: maxRuntime (2h 1m)"),
    ],
    ("dim", "[Watch] "): [
        (e.WatchSpecIssueWaiting(), "Waiting for you: close the spec issues in .cuggino/spec-issues/"),
        (e.WatchBacklogWaiting(), "Waiting for items: none ready in .cuggino/backlog/"),
        (e.WatchProcessingItem(filename="a.md"), "Processing a.md"),
        (e.WatchItemCompleted(filename="a.md"), "Completed a.md"),
        (
            e.WatchItemNotRemoved(filename="a.md", reason="changed"),
            "a.md stays in the backlog: it was edited in the meantime and will run again",
        ),
        (
            e.WatchItemNotRemoved(filename="a.md", reason="spec-issue"),
            "a.md stays in the backlog: it will run again when the spec issue is closed",
        ),
        (e.WatchItemNotRemoved(filename="a", reason="gone"), "a was removed from the backlog in the meantime"),
        (e.WatchValidationStarted(completed=10), "Validating after 10 items"),
        (e.WatchValidationPassed(completed=1), "Validation passed after 1 item"),
        *((e.WatchIdle(wait_seconds=waited, blocked=n), f"Idle: {shown}") for n, waited, shown in IDLE_TEXTS),
    ],
    ("red", "[Watch] "): [
        (
            e.WatchItemFailed(filename="a.md", message="no marker\nDo this.\n", attempt=2, retry_in=60),
            "a.md failed (attempt 2, retry in 1m): no marker\nDo this.",
        ),
        (e.WatchItemFailed(filename="a", message="m", attempt=3, retry_in=None), "a failed (attempt 3, no retry): m"),
        (e.WatchItemBlocked(filename="a.md", reason="it is empty"), f"a.md is set aside: it is empty\n{AGAIN}"),
        (e.WatchAuditFailed(message="no login"), "Audit failed, the watch continues: no login"),
        (
            e.WatchValidationFailed(completed=10, output="a\nb\n", exit_code=2),
            "Validation failed after 10 items, exit 2\na\nb",
        ),
        (e.WatchPollFailed(attempt=2, message="no"), "Cannot read the directories (attempt 2 of 3): no"),
    ],
    ("cyan", "[Watch] "): [
        (e.WatchAuditStarted(), "Audit started"),
        (e.WatchAuditEnded(), "Audit ended"),
        (e.WatchAuditInterrupted(), "Audit interrupted"),
    ],
    ("bold magenta", "[Watch] "): [
        (
            e.WatchTbdItemFound(content="\nExport has no header.\nThe spec says so.", filename="7.md"),
            "Finding: Export has no header.\nSaved to: .cuggino/tbd/7.md",
        )
    ],
    ("bold yellow", "[Watch] "): [(e.WatchStopping(stage=stage, active=n), shown) for stage, n, shown in STOPPING],
}


@pytest.mark.parametrize(
    ("style", "event", "text"),
    [(style, event, start + rest) for (style, start), rows in TABLE.items() for event, rest in rows],
)
def test_each_event_is_shown_as_in_the_table(style: str, event: e.Event, text: str) -> None:
    lines = text.split("\n")
    assert plain(event) == lines
    assert style_of(event) == style
    assert [STYLE.sub("", line) for line in render(event, width=80, colour=True)] == lines


def test_a_message_is_neither_styled_nor_shortened() -> None:
    text = "word " * 100
    assert render(e.AgentMessage(text=text + "\nnext"), width=20, colour=True) == [text, "next"]


def test_only_a_ping_and_an_unknown_event_show_nothing() -> None:
    class FromTheFuture(e.Event, frozen=True, kw_only=True):
        pass

    assert plain(e.PingEvent()) == plain(FromTheFuture()) == []
    assert set(get_args(e.PrintableEvent)) - set(_table) == {e.PingEvent}


def test_each_output_line_of_a_failed_validation_fits_the_width() -> None:
    output = "".join(f"line {n} {'中' * 100}\n" for n in range(1, 151))
    head, *lines = plain(e.WatchValidationFailed(completed=20, output=output, exit_code=2))
    assert head == "[Watch] Validation failed after 20 items, exit 2 (last 10 of 150 lines)"
    assert [line[:8] for line in lines] == [f"line {n}" for n in range(141, 151)]
    assert all(columns(line) <= 80 for line in lines)


ENDINGS: list[tuple[Any, int, str, str, str]] = [
    ("idle", 0, "bold green", "nothing left to do", ""),
    ("idle", 4, "bold yellow", "spec issues wait for you", ""),
    ("idle", 1, "red", "remaining items are blocked", ""),
    ("interrupted", 130, "bold yellow", "stopped", ""),
    ("interrupted", 143, "bold yellow", "stopped", ""),
    ("interrupted", 1, "red", "stopped", ""),
    ("validation-failed", 1, "red", "validation failed", ". Fix what it found, then restart."),
    ("poll-failed", 3, "red", "cannot read the directories", ". Make them readable, then restart."),
    ("setup-failed", 1, "red", "cannot set up an agent", ". Fix the agent, then restart; no item is at fault."),
]


@pytest.mark.parametrize(("reason", "code", "style", "outcome", "advice"), ENDINGS)
def test_the_end_of_a_watch_is_one_line_with_its_reason_and_the_summary_repeats_it(
    reason: Any, code: int, style: str, outcome: str, advice: str
) -> None:
    event = e.WatchEnded(reason=reason, completed=3, exit_code=code)
    assert plain(event) == [f"[Watch] Ended, 3 items completed: {outcome}{advice}"]
    assert plain(msgspec.structs.replace(event, completed=1))[0].startswith("[Watch] Ended, 1 item completed: ")
    assert style_of(event) == style
    _, summed_up, *_ = summary_of(e.LoopApproved(iteration=1), event, colour=True)
    assert STYLE.sub("", summed_up) == f"Outcome     {outcome}"
    assert STYLES[STYLE.findall(summed_up)[0][2:-1]] == style


def with_name(name: str) -> list[e.Event]:
    """Each watch event that has a file's name."""
    return [
        e.WatchProcessingItem(filename=name),
        e.WatchItemCompleted(filename=name),
        e.WatchItemNotRemoved(filename=name, reason="changed"),
        e.WatchItemFailed(filename=name, message="m", attempt=1, retry_in=30),
        e.WatchItemBlocked(filename=name, reason="r"),
        e.WatchTbdItemFound(content="c", filename=name),
    ]


@pytest.mark.parametrize("width", [60, 80, 140])
def test_names_and_reasons_are_shown_whole_whatever_the_width(width: int) -> None:
    """To find the file, a person needs its whole name: the terminal wraps it."""
    for name in ("x" * 250 + ".md", "輸出" * 40 + ".md", FAMILY + "e\u0301 a.md"):
        for event in with_name(name):
            assert name in "\n".join(plain(event, width))
    reason = "because " * 50
    for event in (
        e.WatchItemFailed(filename="a", message=reason, attempt=1, retry_in=30),
        e.WatchItemBlocked(filename="a", reason=reason),
        e.WatchAuditFailed(message=reason),
        e.WatchPollFailed(attempt=1, message=reason),
    ):
        assert reason.strip() in plain(event, width)[0]


@pytest.mark.parametrize("width", [60, 80, 140])
def test_a_finding_is_cut_to_one_line_because_the_agent_has_shown_it_whole(width: int) -> None:
    for content in ("x" * 500, "中" * 500):
        first, second = plain(e.WatchTbdItemFound(content=f"{content}\nmore", filename="7.md"), width)
        assert width - 1 <= columns(first) <= width
        assert first.endswith("…")
        assert second == "Saved to: .cuggino/tbd/7.md"


def test_a_file_name_stays_on_its_line_and_is_escaped() -> None:
    name = "a\n[Watch] Ended\x1b[2J\r\n\t\x07\u202eb\udcff.md"
    shown = "a␊[Watch] Ended␛[2J␍␊␉␇\\u202eb\\udcff.md"
    assert visible_name(name) == shown
    for event in with_name(name):
        assert shown in "\n".join(plain(event))
        assert len(plain(event)) == len(plain(msgspec.structs.replace(event, filename="a")))


@pytest.mark.parametrize(
    ("at", "shown"),
    [
        (None, "15:30"),
        ("2026-11-21T11:25:00.000Z", "15:30 (for 2h 5m)"),
        ("2026-11-20T11:25:00.000Z", "2026-11-21 15:30 (for 1d 2h)"),
    ],
)
def test_waiting_shows_the_local_time_and_for_how_long(
    monkeypatch: pytest.MonkeyPatch, at: str | None, shown: str
) -> None:
    event = e.AgentWaiting(iteration=1, until=datetime(2026, 11, 21, 13, 30, tzinfo=UTC), reason="usage limit")
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "XXX-2")  # two hours east of Greenwich
        time.tzset()
        assert render(event, width=80, colour=False, at=at) == [f"[Agent] Waiting until {shown}: usage limit"]
    time.tzset()


# ---- foreign text -----------------------------------------------------------------------------


def test_control_characters_are_escaped() -> None:
    assert visible("\x1b[2J\x07 10%\r20% \x00\x7f") == "␛[2J␇ 10%␍20% ␀␡"
    assert visible("\x9b2J \x85") == "\\x9b2J \\x85"
    assert visible("a\u202eb\u2066c\u2028") == "a\\u202eb\\u2066c\\u2028"
    assert visible("\udc80") == "\\udc80"


def test_line_feeds_tabs_and_printable_text_of_any_language_are_kept() -> None:
    text = f"a\tb\n中文 {FAMILY} e\u0301 ❤\ufe0f שלום\u200f\xa0x"
    assert visible(text) == text
    assert visible("windows\r\nlines\r\n") == "windows\nlines\n"


@pytest.mark.parametrize("width", [60, 80, 140])
def test_lines_are_shortened_to_the_width_of_the_screen(width: int) -> None:
    for text in ("x" * 500, "中" * 500, FAMILY * 500, "e\u0301" * 500, "\tx" * 500, "\x1b" * 500, "❤\ufe0f" * 500):
        for event in (
            e.ToolCall(id="1", name="Bash", input={"command": text}),
            e.ToolResult(id="1", output=text),
            e.CheckCommandOutput(iteration=1, output=text, exit_code=0),
        ):
            line = plain(event, width)[-1]
            assert line.endswith("…")
            assert columns(line) <= width
            # some terminals show each part of a family separately: it must fit there too
            apart = max(columns(line), sum(max(wcwidth.wcwidth(char), 0) for char in line))
            assert width - (8 if FAMILY in text else 2) <= apart <= width


def test_what_fits_exactly_is_not_shortened() -> None:
    assert shorten("x" * 80, 80) == "x" * 80
    assert shorten("中" * 40, 80) == "中" * 40
    assert shorten("x" * 81, 80) == "x" * 79 + "…"


def test_a_grapheme_is_never_cut() -> None:
    assert shorten(FAMILY * 3, 17) == FAMILY * 2 + "…"  # 8 columns if shown separately
    assert shorten(FAMILY * 3, 16) == FAMILY + "…"
    assert shorten("e\u0301" * 9, 4) == "e\u0301" * 3 + "…"
    assert shorten("中文", 1) == "…"


def test_stacked_marks_and_lines_of_megabytes_cost_little() -> None:
    started = time.process_time()
    assert shorten("ab" + "\u0301" * 5_000_000, 80) == "a…"
    assert shorten("\x1b" * 10_000_000, 3) == "␛␛…"
    assert plain(e.ToolResult(id="1", output="x" * 10_000_000))[0].endswith("…")
    assert plain(e.ToolResult(id="1", output="\x1b\n" * 3_000_000))[-1] == "(showing 10 of 3000000 lines)"
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


def any_event() -> st.SearchStrategy[e.Event]:
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
            for kind in get_args(e.PrintableEvent)
        ]
    )


@given(event=any_event(), width=st.integers(1, 200), colour=st.booleans())
def test_every_event_is_shown_whatever_it_contains_and_without_control_characters(
    event: e.Event, width: int, colour: bool
) -> None:
    lines = render(event, width=width, colour=colour, at="2026-11-21T11:25:00.000Z")
    assert bool(lines) is not isinstance(event, e.PingEvent)
    for line in lines:
        line.encode()
        bare = STYLE.sub("", line) if colour else line
        unsafe = [c for c in bare if unicodedata.category(c) in ("Cc", "Cs") and c != "\t"]
        assert unsafe == []
        assert not re.search("[\u202a-\u202e\u2066-\u2069]", bare)


@given(text=ANY_TEXT, width=st.integers(1, 30))
@example(text="0\u102b0", width=2)  # a mark that takes a column only after a letter
def test_a_shortened_line_fits_and_is_a_prefix_of_the_text(text: str, width: int) -> None:
    line = shorten(text, width)
    assert wcwidth.width(line) <= width or len(line) == 1
    whole = visible(text).replace("\n", "␊").expandtabs(4)
    assert line == whole or (line.endswith("…") and whole.startswith(line[:-1]))


# ---- the status line --------------------------------------------------------------------------


def test_durations_have_two_units() -> None:
    cases = {0: "0s", -3: "0s", 59.9: "59s", 60: "1m", 90: "1m 30s", 3600: "1h", 7500: "2h 5m", 277200: "3d 5h"}
    assert {seconds: duration(seconds) for seconds in cases} == cases


def test_the_status_line_shows_how_long_nothing_was_shown_and_never_fills_the_screen() -> None:
    assert status_line("Working", seconds=90, frame=2, width=80) == "⠹ Working… (1m 30s)"
    assert columns(status_line("Working", seconds=90, frame=12, width=10)) <= 9


IDLE = e.WatchIdle(wait_seconds=0, blocked=None)
FAILED = e.WatchItemFailed(filename="a", message="", attempt=1, retry_in=30)
START = e.WatchProcessingItem(filename="a")
AUDIT = e.WatchAuditStarted()
VALIDATION = e.WatchValidationStarted(completed=1)


@pytest.mark.parametrize(
    ("stream", "expected"),
    [
        (
            [
                e.IterationStart(iteration=1, max_iterations=1),
                e.PingEvent(),
                e.AgentRetry(iteration=1, attempt=1, reason="", delay=1),
                e.AgentMessage(text="x"),
                e.LoopApproved(iteration=1),
            ],
            "Working Working Waiting Working -",
        ),
        ([e.WatchSpecIssueWaiting(), e.WatchBacklogWaiting(), IDLE], "- - -"),
        *(
            ([e.PingEvent(), event], "Working -")
            for event in (e.WatchSpecIssueWaiting(), e.WatchBacklogWaiting(), IDLE)
        ),
        ([IDLE, e.SystemMessage(text="a warning"), e.WatchPollFailed(attempt=1, message="")], "- - -"),
        (
            [e.WatchBacklogWaiting(), AUDIT, e.PingEvent(), e.WatchSpecIssueWaiting(), IDLE],
            "- Auditing Auditing Auditing Auditing",
        ),
        *(
            ([AUDIT, e.WatchTbdItemFound(content="", filename=""), end], "Auditing Auditing -")
            for end in (e.WatchAuditEnded(), e.WatchAuditInterrupted(), e.WatchAuditFailed(message=""))
        ),
        (
            [
                START,
                e.PingEvent(),
                e.WatchStopping(stage="drain", active=1),
                e.LoopApproved(iteration=1),
                e.WatchItemCompleted(filename="a"),
            ],
            "Working Working Working - -",
        ),
        ([START, FAILED, START], "Working Waiting Working"),
        ([FAILED, msgspec.structs.replace(FAILED, retry_in=None)], "Waiting -"),
        ([START, e.WatchItemBlocked(filename="a", reason="")], "Working -"),
        ([VALIDATION, e.WatchValidationPassed(completed=1)], "Validating -"),
        ([VALIDATION, e.WatchValidationFailed(completed=1, output="", exit_code=1)], "Validating -"),
        ([START, e.WatchEnded(reason="interrupted", completed=0, exit_code=130)], "Working -"),
    ],
)
def test_the_activity_follows_from_the_events(stream: list[e.Event], expected: str) -> None:
    now, seen = "", []
    for event in stream:
        now = activity(event, now)
        seen.append(now or "-")
    assert " ".join(seen) == expected


# ---- several loops at once --------------------------------------------------------------------


def prefix(prefixes: LinePrefixes, event: e.PrintableEvent, session: str | None) -> str:
    return prefixes.add(e.LogLine(at="2026-01-01T00:00:00.000Z", session=session, event=event))


def start(name: str | None, focus: str = "the focus") -> e.LoopStart:
    return e.LoopStart(iteration=1, focus=focus, backlog_file=name, resumed=False)


def test_loops_that_run_one_after_another_have_no_prefix() -> None:
    prefixes = LinePrefixes()
    for session in ("a", "b"):
        for event in (start("1.md"), e.AgentMessage(text="hello"), e.LoopApproved(iteration=1)):
            assert prefix(prefixes, event, session) == ""


def test_lines_of_concurrent_loops_are_prefixed_with_their_items_names_of_equal_width() -> None:
    prefixes = LinePrefixes()
    assert prefix(prefixes, start("010-a.md"), "a") == ""
    assert prefix(prefixes, start("020-longer.md"), "b") == "020-longer │ "
    assert prefix(prefixes, e.AgentMessage(text="x"), "a") == "010-a      │ "
    assert prefix(prefixes, e.WatchItemCompleted(filename="0.md"), None) == ""
    assert prefix(prefixes, e.LoopApproved(iteration=1), "b") == "020-longer │ "
    assert prefix(prefixes, e.AgentMessage(text="x"), "a") == ""


def test_a_prefix_is_short_and_escaped() -> None:
    prefixes = LinePrefixes()
    prefix(prefixes, start("a.md"), "a")
    name = prefix(prefixes, start(None, focus="\x1b[31m" + "日本語" * 50), "b")
    assert columns(name) <= LONGEST_NAME + 3
    assert "\x1b" not in name


# ---- the summary ------------------------------------------------------------------------------


def summary_of(*stream: e.Event, seconds: float = 1, colour: bool = False) -> list[str]:
    tally = RunTally()
    for event in stream:
        tally.add(event)
    return render_summary(tally.summary(seconds=seconds), Page(80, colour=colour))


def test_a_summary_counts_the_work_of_a_run_which_has_no_items() -> None:
    assert summary_of(
        e.IterationStart(iteration=1, max_iterations=3),
        e.PlanComplete(content=""),
        e.ImplementingStart(iteration=1),
        e.Progress(content=""),
        e.Progress(content="a second marker: ignored"),
        e.CommitPerformed(iteration=1, commit_hash="a", message=""),
        e.UsageReport(input_tokens=1000, cache_read_tokens=500, output_tokens=10, cost_usd=0.25),
        e.ImplementingStart(iteration=1),
        e.Done(content=""),
        e.UsageReport(input_tokens=1000, cache_creation_tokens=7, output_tokens=10, cost_usd=0.5),
        e.LoopApproved(iteration=1),
        seconds=330,
    ) == [
        "",
        "Outcome     approved",
        "Iterations  1",
        "Tasks       2",
        "Commits     1",
        "Time        5m 30s",
        "Tokens      2,507 in (500 cached), 20 out",
        "Cost        $0.75",
    ]


@pytest.mark.parametrize(("exit_code", "shown"), [(0, "passed"), (2, "\x1b[1;31mfailed (exit 2)\x1b[0m")])
def test_a_summary_says_how_the_last_check_went(exit_code: int, shown: str) -> None:
    checks = [e.CheckCommandOutput(iteration=1, output="", exit_code=code) for code in (1, exit_code)]
    assert any(line.endswith(shown) and "Last check" in line for line in summary_of(*checks, colour=True))


def test_a_summary_leaves_out_what_no_agent_reported() -> None:
    lines = summary_of()
    assert lines[1] == "Outcome     interrupted"
    assert lines[-1] == "Time        1s"
    without_cost = e.UsageReport(input_tokens=1)
    assert summary_of(without_cost)[-1] == "Tokens      1 in, 0 out"
    assert summary_of(without_cost, e.UsageReport(cost_usd=1.5))[-1] == "Cost        at least $1.50"


@pytest.mark.parametrize(
    ("end", "outcome"),
    [
        (e.LoopSpecIssue(iteration=1, content="x", filename="7.md"), "spec issue, saved to .cuggino/spec-issues/7.md"),
        (e.LoopMaxIterations(iteration=1, max_iterations=1), "max iterations reached"),
        (e.LoopLimitReached(iteration=1, limit="maxRuntime", value=60), "limit reached: maxRuntime (1m)"),
        (
            e.LoopFailed(iteration=1, phase="review", message="a\x1b" + "b" * 99 + "\nadvice"),
            "failed in review: a␛" + "b" * 47 + "…",
        ),
    ],
)
def test_a_summary_names_the_outcome(end: e.LoopTerminalEvent, outcome: str) -> None:
    assert summary_of(end)[1] == f"Outcome     {outcome}"


def test_a_watch_is_summed_up_by_its_items_and_its_own_end() -> None:
    lines = summary_of(
        e.WatchProcessingItem(filename="a"),
        e.IterationStart(iteration=1, max_iterations=3),
        e.LoopApproved(iteration=1),
        e.WatchItemCompleted(filename="a"),
        e.WatchItemFailed(filename="b", message="", attempt=1, retry_in=30),
        e.WatchItemCompleted(filename="b"),
        *[e.WatchItemFailed(filename="c", message="", attempt=n, retry_in=None) for n in (1, 2, 3)],
        e.WatchItemBlocked(filename="c", reason=""),
        e.WatchItemFailed(filename="d", message="", attempt=1, retry_in=30),
        e.WatchItemNotRemoved(filename="d", reason="changed"),
        e.WatchItemFailed(filename="e", message="", attempt=1, retry_in=30),
        e.WatchItemCompleted(filename="a"),  # a new file of the same name
        e.LoopFailed(iteration=1, phase="planning", message="no"),
        e.WatchEnded(reason="interrupted", completed=3, exit_code=130),
    )
    assert lines[1:4] == ["Outcome     stopped", "Items       3 completed, 1 failed, 1 blocked", "Iterations  1"]


def test_a_watch_without_an_end_was_interrupted_whatever_its_last_loop_did() -> None:
    lines = summary_of(e.WatchProcessingItem(filename="a"), e.LoopApproved(iteration=1))
    assert lines[1:3] == ["Outcome     interrupted", "Items       0 completed, 0 failed, 0 blocked"]
