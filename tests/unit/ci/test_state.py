"""The state file of a watch over a pull request: written and read back, edited by hand, broken."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cuggino.ci.state import CiState, ForeignSection, LogEntry, Push, Reply, Rerun, one_line
from cuggino.ci.state_format import parse, render
from cuggino.errors import StorageError

SHA = "4c246e4597028330b0829de4d5aa265b35b30abb"
AT = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)

STATE = CiState(
    number=12,
    head=SHA,
    last_push=AT,
    iteration=3,
    started=datetime(2026, 1, 31, 11, 0, tzinfo=UTC),
    interval=90,
    handled_checks=("test (3.11, ubuntu)", 'lint: "strict" [all]', "Prüfung ✓"),
    handled_threads={"PRRT_kwDO1": "1001"},
    attempts={"build: docs": 2},
    log=(LogEntry(AT, "pushed 4c246e4: build: docs"),),
    status="actionable=pending new_failures=0 new_threads=0 pending=[lint]",
)

FILE = """\
# CI Watch State: PR #12

## Metadata
- head_sha: 4c246e4597028330b0829de4d5aa265b35b30abb
- last_push_time: 2026-01-31T12:00:00Z
- iteration: 3
- started_at: 2026-01-31T11:00:00Z
- sleep_interval: 90 — AIMD poll interval (30\N{EN DASH}300)

## Handled Checks
- test (3.11, ubuntu)
- lint: "strict" [all]
- Prüfung ✓

## Handled Threads
- PRRT_kwDO1 1001

## Fix Attempts
- build: docs: 2

## Actions Log
- [2026-01-31T12:00:00Z] pushed 4c246e4: build: docs

## Latest Status
actionable=pending new_failures=0 new_threads=0 pending=[lint]
"""


def read(text: str) -> CiState:
    return parse(text, 12, "the file")


def refusal(text: str, number: int) -> str:
    """Return why the file is refused, or nothing."""
    try:
        parse(text, number, "the file")
    except StorageError as error:
        return error.message
    return ""


def test_the_file_is_as_specified() -> None:
    assert render(STATE) == FILE
    assert read(FILE) == STATE


def test_an_empty_section_has_its_heading_and_nothing_else() -> None:
    assert render(CiState(number=1, head=SHA, started=AT)) == (
        "# CI Watch State: PR #1\n\n## Metadata\n"
        f"- head_sha: {SHA}\n- last_push_time: never\n- iteration: 0\n- started_at: 2026-01-31T12:00:00Z\n"
        "- sleep_interval: 60 — AIMD poll interval (30\N{EN DASH}300)\n\n"
        "## Handled Checks\n\n## Handled Threads\n\n## Fix Attempts\n\n## Actions Log\n\n## Latest Status\n"
    )


FEW = 3
"""Maximum number of entries in each section."""
lines = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12).map(one_line).filter(bool)
"""Anything that GitHub may call a check, as it comes into the file."""
words = st.text(st.sampled_from("abcXYZ0189_-=.+/:"), min_size=1, max_size=12)
hashes = st.integers(0, 16**40 - 1).map(lambda number: f"{number:040x}")
times = st.datetimes(datetime(2020, 1, 1), datetime(2099, 1, 1), timezones=st.just(UTC)).map(  # noqa: DTZ001
    lambda at: at.replace(microsecond=0)
)
names = lines.map(lambda name: name.strip())
unique = st.lists(names, unique=True, max_size=FEW).map(tuple)
ORDER = ("Metadata", "Handled Checks", "Handled Threads", "Fix Attempts", "Actions Log", "Latest Status")


@st.composite
def sections(draw: st.DrawFn) -> ForeignSection:
    heading = draw(lines.filter(lambda name: name not in (*ORDER, "Run Again", "Left to a Person", "In Flight")))
    body = draw(st.lists(lines.filter(lambda line: not line.startswith("## ")), max_size=FEW))
    return ForeignSection(draw(st.sampled_from(ORDER)), (f"## {heading}", *body))


states = st.builds(
    CiState,
    number=st.integers(1, 10**6),
    head=hashes,
    last_push=st.none() | times,
    iteration=st.integers(0, 10**6),
    started=times,
    interval=st.integers(1, 100_000),
    handled_checks=unique,
    handled_threads=st.dictionaries(words, words, max_size=FEW),
    attempts=st.dictionaries(names, st.integers(0, 99), max_size=FEW),
    log=st.lists(st.builds(LogEntry, times, lines), max_size=FEW).map(tuple),
    status=st.just("") | lines.filter(lambda line: not line.startswith("## ")),
    reruns=st.lists(st.builds(Rerun, words, words, lines), max_size=FEW).map(tuple),
    left=unique,
    expected=unique,
    accepted=unique,
    in_flight=st.lists(
        st.builds(Push, hashes, hashes, st.sampled_from(["check", "thread"]), lines) | st.builds(Reply, words, words),
        max_size=FEW,
    ).map(tuple),
    foreign=st.lists(sections(), max_size=FEW).map(
        lambda them: tuple(sorted(them, key=lambda each: ORDER.index(each.behind)))
    ),
)


@given(states)
def test_writing_and_reading_are_inverse_to_each_other(state: CiState) -> None:
    text = render(state)
    assert parse(text, state.number, "x") == state
    assert render(parse(text, state.number, "x")) == text
    assert parse(text.replace("\n", "\r\n"), state.number, "x") == state


@given(states, st.data())
def test_a_torn_or_changed_file_is_read_or_refused_with_a_line(state: CiState, data: st.DataObject) -> None:
    text = render(state)
    place = data.draw(st.integers(0, len(text)))
    changed = text[:place] + data.draw(st.text(max_size=3)) + text[place + data.draw(st.integers(0, 5)) :]
    refused = refusal(changed, state.number)
    assert not refused or refused.startswith("the file, line ")


def test_a_person_may_edit_it() -> None:
    """Other order, blank lines, foreign sections and deleted entries are understood; foreign sections are kept."""
    edited = FILE.replace('- lint: "strict" [all]\n', "\n\n").replace(
        "## Fix Attempts\n", "## My notes\nremember:\n\n- the docs\n\n\n## Fix Attempts\n"
    )
    state = read(f"\n\n{edited}\n\n")
    assert state.handled_checks == ("test (3.11, ubuntu)", "Prüfung ✓")
    assert state.foreign == (ForeignSection("Handled Threads", ("## My notes", "remember:", "", "- the docs")),)
    assert "- PRRT_kwDO1 1001\n\n## My notes\nremember:\n\n- the docs\n\n## Fix Attempts\n" in render(state)


def test_a_section_that_was_removed_is_empty() -> None:
    begin, end = FILE.index("## Fix Attempts"), FILE.index("## Actions Log")
    assert read(FILE[:begin] + FILE[end:]).attempts == {}


@pytest.mark.parametrize(
    ("old", "new", "line", "reason"),
    [
        ("PR #12", "PR #13", 1, "expected the title"),
        ("- iteration: 3", "- iteration: three", 6, "iteration: expected an integer ≥ 0"),
        ("- iteration: 3", "- iteration: -3", 6, "iteration: expected an integer ≥ 0"),
        ("- iteration: 3\n", "", 3, "no iteration follows"),
        ("- iteration: 3", "- iterations: 3", 6, "expected one of head_sha"),
        ("- head_sha: 4c", "- head_sha: main", 4, "expected a commit's hash"),
        ("sleep_interval: 90", "sleep_interval: 0", 8, 'expected an integer ≥ 1, got "0"'),
        ("- Prüfung ✓", "Prüfung ✓", 13, "expected an entry"),
        ("PRRT_kwDO1 1001", "PRRT_kwDO1", 16, "<thread id>"),
        ("docs: 2", "docs: two", 19, 'expected an integer ≥ 0, got "two"'),
        ("build: docs: 2", "build", 19, "<check name>: <count>"),
        ("[2026-01-31T12:00:00Z] pushed", "[yesterday] pushed", 22, "expected a time"),
        ("[2026-01-31T12:00:00Z] pushed", "pushed", 22, "<what was done>"),
        ("pending=[lint]\n", "pending=[lint]\nand more\n", 26, "one line"),
        ("## Latest Status", "## Handled Checks", 24, "a second section"),
        ("## Metadata", "no heading", 3, "expected a section"),
        ("## Metadata", "## Meta", 1, "no section `## Metadata`"),
    ],
)
def test_a_broken_file_is_an_error_with_its_line(old: str, new: str, line: int, reason: str) -> None:
    with pytest.raises(StorageError, match=f"^the file, line {line}: .*{reason}"):
        read(FILE.replace(old, new))


def test_foreign_text_becomes_one_line() -> None:
    assert one_line("a\r\nb\n\n\nc\n") == "a b c"
