"""Who speaks, when several loops do."""

from __future__ import annotations

from cuggino.events import AgentMessage, LogLine, LoopApproved, LoopStart, PrintableEvent, WatchItemCompleted
from cuggino.output.text import columns
from cuggino.output.voices import LONGEST, Voices


def line(event: PrintableEvent, session: str | None) -> LogLine:
    return LogLine(at="2026-01-01T00:00:00.000Z", session=session, event=event)


def start(name: str | None, focus: str = "the focus") -> LoopStart:
    return LoopStart(iteration=1, focus=focus, backlog_file=name, resumed=False)


def test_one_loop_after_the_other_needs_no_name() -> None:
    voices = Voices()
    for session in ("a", "b"):
        told: list[PrintableEvent] = [start("1.md"), AgentMessage(text="hello"), LoopApproved(iteration=1)]
        assert [voices.name(line(event, session)) for event in told] == ["", "", ""]


def test_while_two_speak_each_line_has_its_item_s_name_and_they_stand_in_one_column() -> None:
    voices = Voices()
    assert voices.name(line(start("010-a.md"), "a")) == ""
    assert voices.name(line(start("020-longer.md"), "b")) == "020-longer │ "
    assert voices.name(line(AgentMessage(text="x"), "a")) == "010-a      │ "
    assert voices.name(line(WatchItemCompleted(filename="0.md"), None)) == ""
    assert voices.name(line(LoopApproved(iteration=1), "b")) == "020-longer │ "
    assert voices.name(line(AgentMessage(text="x"), "a")) == ""


def test_a_name_is_short_and_harmless() -> None:
    voices = Voices()
    voices.name(line(start("a.md"), "a"))
    name = voices.name(line(start(None, focus="\x1b[31m" + "日本語" * 50), "b"))
    assert columns(name) <= LONGEST + 3
    assert "\x1b" not in name
