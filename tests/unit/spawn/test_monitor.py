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
def test_each_event_is_counted(event: Event, counted: dict[str, int]) -> None:
    after = advance(BEFORE, event, LATER)
    assert after.last_activity == LATER
    assert {name: getattr(after, name) for name in counted} == counted
    others = {"files_read", "files_written", "commits_made", "output_lines", "permission_errors", "other_errors"}
    assert all(getattr(after, name) == 0 for name in others - set(counted))


def test_a_denial_is_counted_as_one_error() -> None:
    failed = advance(BEFORE, ToolResult(id="1", output="denied", is_error=True), LATER)
    denied = advance(failed, events.PermissionError(error="Bash: ls", fix=None), LATER)
    assert (denied.permission_errors, denied.other_errors) == (1, 0)


class Watched:
    """A monitor, with the events that it sends."""

    def __init__(self, *, idle: float = 120, total: float = 1800) -> None:
        self.events: list[Event] = []
        self.monitor = Monitor(idle=idle, total=total, now=now, send=self.send)

    async def send(self, event: Event) -> None:
        self.events.append(event)


@pytest.mark.parametrize(
    ("pause", "event", "ends_at", "timeout"),
    [(50, PingEvent(), 170, "idle-timeout"), (0, ToolCall(id="1", name="Bash"), 1800, "total-timeout")],
)
async def test_an_idle_agent_is_stopped_but_a_running_tool_is_activity(
    autojump_clock: MockClock, pause: float, event: Event, ends_at: float, timeout: str
) -> None:
    watched = Watched()
    with watched.monitor.begin():
        await trio.sleep(pause)
        await watched.monitor.see(event)
        await trio.sleep_forever()
    assert (trio.current_time(), watched.monitor.timeout) == (ends_at, timeout)


async def test_the_total_time_counts_all_attempts(autojump_clock: MockClock) -> None:
    watched = Watched(total=200)
    with watched.monitor.begin() as first:
        await trio.sleep(100)
    assert not first.cancelled_caught
    with watched.monitor.begin():
        await watched.monitor.see(ToolCall(id="1", name="Bash"))
        await trio.sleep_forever()
    assert (trio.current_time(), watched.monitor.timeout) == (200, "total-timeout")


async def test_a_pause_between_attempts_ends_with_the_total_time(autojump_clock: MockClock) -> None:
    watched = Watched(idle=10, total=200)
    with watched.monitor.begin():
        await trio.sleep(5)
    with watched.monitor.pause():
        await trio.sleep_forever()
    assert (trio.current_time(), watched.monitor.timeout) == (200, "total-timeout")


async def test_progress_is_reported_every_five_seconds_at_most_and_only_after_events(autojump_clock: MockClock) -> None:
    watched = Watched()
    with watched.monitor.begin():
        for _ in range(20):
            await trio.sleep(1)
            await watched.monitor.see(ToolCall(id="1", name="Read"))
        await trio.sleep(60)
    reported = [event.state.files_read for event in watched.events if isinstance(event, ProgressUpdate)]
    assert reported == [5, 10, 15, 20]


async def test_only_the_last_fifty_lines_are_kept(autojump_clock: MockClock) -> None:
    watched = Watched()
    for number in range(100):
        await watched.monitor.see(AgentMessage(text=f"line {number}"))
    await watched.monitor.see(ToolResult(id="1", output="\n".join(map(str, range(1000)))))
    assert len(watched.monitor.last_lines) == LAST_LINES
    assert watched.monitor.last_lines[-1] == "999"
