"""What is counted of an agent's work, and when it is stopped, to the second."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
import trio
from trio.testing import MockClock

from cuggino import events
from cuggino.events import AgentMessage, Event, PingEvent, ProgressState, ProgressUpdate, ToolCall, ToolResult
from cuggino.spawn.monitor import LAST_LINES, Monitor, advance

START = datetime(2026, 1, 1, tzinfo=UTC)
BEFORE = ProgressState(start_time=START, last_activity=START)
LATER = START + timedelta(seconds=9)


def now() -> datetime:
    return START + timedelta(seconds=trio.current_time())


@pytest.mark.parametrize(
    ("event", "counted"),
    [
        (ToolCall(id="1", name="Read", input={"file_path": "/a"}), {"files_read": 1}),
        (ToolCall(id="1", name="read_file", input={}), {"files_read": 1}),
        (ToolCall(id="1", name="Write", input={"file_path": "/a"}), {"files_written": 1}),
        (ToolCall(id="1", name="Bash", input={"command": "cd x && git -C . commit -m 'y'"}), {"commits_made": 1}),
        (ToolCall(id="1", name="Bash", input={"command": "git log; echo commit"}), {}),
        (ToolCall(id="1", name="Bash", input={"command": ["git", "commit"]}), {}),
        (ToolResult(id="1", output="a\nb\n"), {"output_lines": 2}),
        (ToolResult(id="1", output="no", is_error=True), {"output_lines": 1, "other_errors": 1}),
        (AgentMessage(text="one\ntwo"), {"output_lines": 2}),
        (PingEvent(), {}),
    ],
)
def test_each_event_counts_for_what_it_is(event: Event, counted: dict[str, int]) -> None:
    after = advance(BEFORE, event, LATER)
    assert after.last_activity == LATER
    assert {name: getattr(after, name) for name in counted} == counted
    others = {"files_read", "files_written", "commits_made", "output_lines", "permission_errors", "other_errors"}
    assert all(getattr(after, name) == 0 for name in others - set(counted))


def test_a_denial_is_one_error_and_not_two() -> None:
    failed = advance(BEFORE, ToolResult(id="1", output="denied", is_error=True), LATER)
    denied = advance(failed, events.PermissionError(error="Bash: ls", fix=None), LATER)
    assert (denied.permission_errors, denied.other_errors) == (1, 0)


class Watched:
    def __init__(self, *, idle: float, total: float) -> None:
        self.events: list[Event] = []
        self.monitor = Monitor(idle=idle, total=total, now=now, send=self.send)

    async def send(self, event: Event) -> None:
        self.events.append(event)


async def test_an_agent_that_says_nothing_is_stopped_when_it_was_idle_too_long(autojump_clock: MockClock) -> None:
    watched = Watched(idle=120, total=1800)
    with watched.monitor.begin():
        await trio.sleep(50)
        await watched.monitor.see(PingEvent())
        await trio.sleep_forever()
    assert trio.current_time() == 170
    assert watched.monitor.timeout == "idle-timeout"


async def test_a_tool_that_runs_is_activity_until_the_total_time_is_over(autojump_clock: MockClock) -> None:
    watched = Watched(idle=120, total=1800)
    with watched.monitor.begin():
        await watched.monitor.see(ToolCall(id="1", name="Bash"))
        await trio.sleep_forever()
    assert trio.current_time() == 1800
    assert watched.monitor.timeout == "total-timeout"


async def test_the_total_time_goes_on_over_all_attempts(autojump_clock: MockClock) -> None:
    watched = Watched(idle=120, total=200)
    with watched.monitor.begin() as first:
        await trio.sleep(100)
    assert not first.cancelled_caught
    with watched.monitor.begin():
        await watched.monitor.see(ToolCall(id="1", name="Bash"))
        await trio.sleep_forever()
    assert trio.current_time() == 200
    assert watched.monitor.timeout == "total-timeout"


async def test_a_pause_between_attempts_ends_with_the_total_time(autojump_clock: MockClock) -> None:
    watched = Watched(idle=10, total=200)
    with watched.monitor.begin():
        await trio.sleep(5)
    with watched.monitor.pause():
        await trio.sleep_forever()
    assert (trio.current_time(), watched.monitor.timeout) == (200, "total-timeout")


async def test_progress_is_told_every_five_seconds_at_most_and_only_when_something_happens(
    autojump_clock: MockClock,
) -> None:
    watched = Watched(idle=120, total=1800)
    with watched.monitor.begin():
        for _ in range(20):
            await trio.sleep(1)
            await watched.monitor.see(ToolCall(id="1", name="Read"))
        await trio.sleep(60)
    told = [event.state.files_read for event in watched.events if isinstance(event, ProgressUpdate)]
    assert told == [5, 10, 15, 20]


async def test_the_last_fifty_lines_are_kept_and_no_more(autojump_clock: MockClock) -> None:
    watched = Watched(idle=120, total=1800)
    for number in range(100):
        await watched.monitor.see(AgentMessage(text=f"line {number}"))
    await watched.monitor.see(ToolResult(id="1", output="\n".join(map(str, range(1000)))))
    assert len(watched.monitor.last_lines) == LAST_LINES
    assert watched.monitor.last_lines[-1] == "999"
