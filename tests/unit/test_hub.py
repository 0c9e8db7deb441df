"""The event hub on a virtual clock, with a display that only records."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from cuggino.errors import StorageError
from cuggino.events import AgentMessage, Event, LogLine, Note, PingEvent, SystemMessage, ToolCall, decode_log_line
from cuggino.output.hub import CAPACITY, FLUSH, EventHub, open_hub
from cuggino.output.jsonlines import LogFile, encode
from cuggino.output.page import Page
from cuggino.output.stream import OutputClosed


class Memory:
    """A display that can stall, fail and close."""

    def __init__(self, *, waits_for_reader: bool = True, every: float = math.inf, stalled: bool = False) -> None:
        self.waits_for_reader = waits_for_reader
        self.every = every
        self.due = math.inf
        self.shown: list[Event] = []
        self.encoded = b""
        self.calls: list[str] = []
        self.ticks: list[float] = []
        self.warnings: list[str] = []
        self.flowing = trio.Event()
        if not stalled:
            self.flowing.set()
        self.gone = trio.Event()
        self.error: Exception | None = None

    async def show(self, lines: Sequence[LogLine], encoded: bytes, /) -> None:
        self.calls.append("show")
        await self.flowing.wait()
        if self.error is not None:
            raise self.error
        self.shown += [line.event for line in lines]
        self.encoded += encoded
        self.due = trio.current_time() + self.every

    async def tick(self) -> None:
        self.calls.append("tick")
        self.ticks.append(trio.current_time())
        self.due = trio.current_time() + self.every

    async def finish(self) -> None:
        self.calls.append("finish")

    async def print(self, _text: Callable[[Page], Sequence[str]], /) -> None: ...

    async def warn(self, text: str) -> None:
        self.warnings.append(text)

    async def closed(self) -> None:
        await self.gone.wait()


def texts(received: Sequence[Event]) -> list[str]:
    return [event.text for event in received if isinstance(event, AgentMessage)]


def logged(log: Path) -> list[str]:
    return texts([decode_log_line(line).event for line in log.read_bytes().splitlines()])


def message(number: int) -> AgentMessage:
    return AgentMessage(text=str(number))


async def send_many(hub: EventHub, first: int, end: int) -> None:
    send = hub.sender(None)
    for number in range(first, end):
        await send(message(number))


def numbers(end: int) -> list[str]:
    return [str(number) for number in range(end)]


# ---- what is written --------------------------------------------------------------------------


async def test_events_are_logged_and_shown_in_order_and_pings_only_shown(tmp_path: Path) -> None:
    display = Memory()
    log = tmp_path / "log"
    async with open_hub(log=log, display=display, now=lambda: 1795297964.9629) as hub:
        await send_many(hub, 0, 500)
        await hub.sender("s")(PingEvent())
        await hub.sender("s")(Note(content="é"))
    assert texts(display.shown) == logged(log) == numbers(500)
    assert PingEvent() in display.shown
    assert display.calls[-1] == "finish"
    assert log.read_bytes() == display.encoded
    assert b"PingEvent" not in display.encoded
    assert log.read_bytes().splitlines()[-1].decode() == (
        '{"at":"2026-11-21T21:52:44.962Z","session":"s","event":{"_tag":"Note","content":"é"}}'
    )
    assert log.stat().st_mode & 0o777 == 0o600


async def test_waiting_events_are_written_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writes: list[bytes] = []
    monkeypatch.setattr(LogFile, "append", lambda _self, data: writes.append(data))
    async with open_hub(log=tmp_path / "log", display=Memory()) as hub:
        await send_many(hub, 0, CAPACITY)
    assert [data.count(b"\n") for data in writes] == [CAPACITY]


@pytest.mark.parametrize("given", ["\udc80", {"deep": ["\ud800"]}, object(), {"\udfff": 1}])
def test_an_event_that_json_cannot_represent_does_not_harm_its_neighbours(given: Any) -> None:
    lines = [
        LogLine(at="", session=None, event=event)
        for event in (message(1), ToolCall(id="", name="", input=given), message(2))
    ]
    first, middle, last = (decode_log_line(line).event for line in encode(lines).splitlines())
    assert (first, last) == (message(1), message(2))
    assert isinstance(middle, ToolCall | SystemMessage)


async def test_an_event_nested_too_deeply_is_replaced_by_a_message() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    (line,) = encode([LogLine(at="", session=None, event=ToolCall(id="", name="", input=deep))]).splitlines()
    event = decode_log_line(line).event
    assert isinstance(event, SystemMessage)
    assert "ToolCall could not be written as JSON" in event.text


# ---- a log that cannot be written -------------------------------------------------------------


async def test_a_log_that_cannot_be_opened_is_reported_once_and_everything_is_shown(tmp_path: Path) -> None:
    display = Memory()
    async with open_hub(log=tmp_path / "missing" / "log", display=display) as hub:
        await send_many(hub, 0, 300)
    assert texts(display.shown) == numbers(300)
    (warning,) = display.warnings
    assert "No such file" in warning


def test_a_full_disk_leaves_whole_lines_and_logging_continues_when_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = LogFile(tmp_path / "log")
    assert log.append(b"one\n") is None
    write = os.write

    def almost_full(fd: int, data: bytes) -> int:
        if len(data) <= 2:
            raise OSError(28, "No space left on device")
        return write(fd, data[:2])

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", almost_full)
        error = log.append(b"two\n")
    assert error is not None
    assert log.append(b"three\n") is None
    log.close()
    assert (tmp_path / "log").read_bytes() == b"one\nthree\n"


# ---- time -------------------------------------------------------------------------------------


async def test_the_display_is_ticked_while_no_events_arrive(autojump_clock: MockClock) -> None:
    display = Memory(every=0.25)
    async with open_hub(log=None, display=display) as hub:
        start = autojump_clock.current_time()
        await trio.sleep(10)
        assert display.ticks == []
        await hub.sender(None)(message(0))
        await trio.sleep(1.1)
    assert [tick - start for tick in display.ticks] == pytest.approx([10.25, 10.5, 10.75, 11.0])


async def test_a_stalled_display_blocks_the_producers_so_that_memory_stays_flat(autojump_clock: MockClock) -> None:
    display = Memory(stalled=True)
    sent = 0
    async with open_hub(log=None, display=display) as hub, trio.open_nursery() as nursery:

        @nursery.start_soon
        async def producer() -> None:
            nonlocal sent
            send = hub.sender(None)
            for number in range(1000):
                await send(message(number))
                sent = number + 1

        await trio.sleep(60)
        assert autojump_clock.current_time() >= 60
        assert CAPACITY <= sent <= 2 * CAPACITY + 2
        display.flowing.set()
    assert texts(display.shown) == numbers(1000)


# ---- the end ----------------------------------------------------------------------------------


async def test_events_that_a_cancelled_body_sends_during_cleanup_are_not_lost(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    display = Memory()
    start = autojump_clock.current_time()
    with trio.CancelScope() as interrupted:
        async with open_hub(log=tmp_path / "log", display=display) as hub:
            try:
                await send_many(hub, 0, 10)
                interrupted.cancel()
                await trio.sleep_forever()
            finally:
                with trio.move_on_after(5, shield=True):
                    await trio.sleep(3)
                    await send_many(hub, 10, 300)
                await hub.sender(None)(message(300))  # works without a shield because the channel has room
    assert texts(display.shown) == logged(tmp_path / "log") == numbers(301)
    assert display.calls[-1] == "finish"
    assert autojump_clock.current_time() - start == pytest.approx(3)


@pytest.mark.parametrize(("waits", "cancelled_after"), [(False, 0), (True, 100)])
async def test_a_stalled_display_has_a_bounded_time_after_the_end_or_after_a_cancellation(
    tmp_path: Path, autojump_clock: MockClock, waits: bool, cancelled_after: float
) -> None:
    display = Memory(waits_for_reader=waits, stalled=True)
    start = autojump_clock.current_time()
    with trio.move_on_after(100) as scope:
        async with open_hub(log=tmp_path / "log", display=display) as hub:
            await send_many(hub, 0, 10)
            await wait_all_tasks_blocked()
            await send_many(hub, 10, 20)
    assert scope.cancelled_caught is waits
    assert autojump_clock.current_time() - start == pytest.approx(cancelled_after + FLUSH)
    assert logged(tmp_path / "log") == numbers(20)


async def test_a_display_that_waits_for_its_reader_has_unbounded_time(autojump_clock: MockClock) -> None:
    display = Memory(stalled=True)
    async with trio.open_nursery() as nursery:

        @nursery.start_soon
        async def reader() -> None:
            await trio.sleep(1000)
            display.flowing.set()

        async with open_hub(log=None, display=display) as hub:
            await send_many(hub, 0, 10)
    assert autojump_clock.current_time() >= 1000
    assert texts(display.shown) == numbers(10)


@pytest.mark.parametrize("error", [OutputClosed(), StorageError("Cannot write the output: disk full")])
async def test_a_display_that_fails_ends_the_body_and_logging_continues(tmp_path: Path, error: Exception) -> None:
    display = Memory()
    display.error = error
    with pytest.RaisesGroup(pytest.RaisesExc(type(error))):
        async with open_hub(log=tmp_path / "log", display=display) as hub:
            try:
                await hub.sender(None)(message(0))
                await trio.sleep_forever()
            finally:
                with trio.CancelScope(shield=True):
                    await send_many(hub, 1, 300)
    assert logged(tmp_path / "log") == numbers(300)
    assert display.calls == ["show"]


async def test_a_closed_output_is_noticed_although_nothing_is_written(tmp_path: Path) -> None:
    display = Memory()
    with pytest.RaisesGroup(OutputClosed):
        async with open_hub(log=tmp_path / "log", display=display):
            display.gone.set()
            await trio.sleep_forever()


async def test_an_error_of_the_body_is_raised_and_sent_events_are_logged(tmp_path: Path) -> None:
    with pytest.RaisesGroup(ZeroDivisionError):
        async with open_hub(log=tmp_path / "log", display=Memory()) as hub:
            await hub.sender(None)(message(0))
            raise ZeroDivisionError
    assert logged(tmp_path / "log") == ["0"]


async def test_a_session_can_have_a_log_of_its_own_besides(tmp_path: Path) -> None:
    (tmp_path / "own").write_text("before\n")
    async with open_hub(log=tmp_path / "log", display=Memory(), now=lambda: 0) as hub:
        hub.log_session("a", tmp_path / "own")
        for session in ("a", "b", None, "a"):
            await hub.sender(session)(message(1))
            await hub.sender(session)(PingEvent())
    lines = (tmp_path / "log").read_bytes().splitlines()
    assert len(lines) == 4
    assert (tmp_path / "own").read_bytes().splitlines() == [b"before", lines[0], lines[3]]
