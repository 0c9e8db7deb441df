"""The queue of notifications, on the virtual clock: the program is a function."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock, wait_all_tasks_blocked

from cuggino.events import Event, Note, PingEvent, SystemMessage, decode_log_line
from cuggino.notify import CAPACITY, DRAIN_TIMEOUT, TIMEOUT, Notifier

Program = Callable[[str], Awaitable[str | None]]


class Bell:
    """A running notifier for Notes; `notified` is what its program got, `messages` what it sent."""

    def __init__(self, run: Program) -> None:
        self.messages: list[str] = []
        self.notified: list[str] = []
        self.force_kill = trio.Event()

        async def program(line: bytes) -> str | None:
            event = decode_log_line(line).event
            assert isinstance(event, Note)
            self.notified.append(event.content)
            return await run(event.content)

        async def send(event: Event) -> None:
            assert isinstance(event, SystemMessage)
            self.messages.append(event.text)

        self.notifier = Notifier(["Note"], "bell", program, send)

    def notify(self, *contents: str) -> None:
        for content in contents:
            self.notifier.notify(None, Note(content=content))

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Bell]:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.notifier.run)
            try:
                yield self
            finally:
                await self.notifier.close(self.force_kill)


def takes(seconds: float, result: str | None = None) -> Program:
    async def run(_content: str) -> str | None:
        await trio.sleep(seconds)
        return result

    return run


async def test_the_program_gets_the_lines_of_the_configured_events_only() -> None:
    lines: list[bytes] = []

    async def take(line: bytes) -> str | None:
        lines.append(line)
        return None

    async def send(event: Event) -> None:
        raise AssertionError(event)

    notifier = Notifier(("Note", "PingEvent"), "bell", take, send)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(notifier.run)
        for event in (Note(content="ü\ud800"), SystemMessage(text="not configured"), PingEvent()):
            notifier.notify("a-session", event)
        await notifier.close(trio.Event())
    (line,) = lines
    assert line.endswith(b"}\n")
    decoded = decode_log_line(line)
    assert (decoded.session, decoded.event) == ("a-session", Note(content="ü\\ud800"))
    assert (decoded.at[10], decoded.at[-5], decoded.at[-1]) == ("T", ".", "Z")


async def test_the_program_gets_events_in_order_and_one_at_a_time(autojump_clock: MockClock) -> None:
    running = 0

    async def run(_content: str) -> str | None:
        nonlocal running
        running += 1
        assert running == 1
        await trio.sleep(0.1)
        running -= 1
        return None

    async with Bell(run).open() as bell:
        bell.notify("a", "b", "c")
        await trio.sleep(1)
    assert (bell.notified, bell.messages) == (["a", "b", "c"], [])


async def test_a_program_that_hangs_is_stopped_and_reported_once(autojump_clock: MockClock) -> None:
    stopped: list[float] = []

    async def hang(_content: str) -> str | None:
        try:
            await trio.sleep_forever()
        finally:
            stopped.append(trio.current_time())
        raise AssertionError

    async with Bell(hang).open() as bell:
        start = trio.current_time()
        bell.notify("a", "b")
        await trio.sleep(3 * TIMEOUT)
    assert stopped == pytest.approx([start + TIMEOUT, start + 2 * TIMEOUT])
    assert bell.messages == [
        "`bell` of notify.command failed: it took longer than 10 s and was stopped. Further failures are not reported."
    ]


async def test_a_program_that_fails_is_reported_once_and_gets_the_next_event() -> None:
    async with Bell(takes(0, "it exited with 3")).open() as bell:
        bell.notify("a", "b", "c")
        await wait_all_tasks_blocked()
    assert bell.notified == ["a", "b", "c"]
    assert bell.messages == ["`bell` of notify.command failed: it exited with 3. Further failures are not reported."]


async def test_events_that_do_not_fit_are_dropped_and_reported_once(autojump_clock: MockClock) -> None:
    async with Bell(takes(0.1)).open() as bell:
        await wait_all_tasks_blocked()  # it waits, and takes the first one at once
        for _ in range(2):
            bell.notify(*map(str, range(1 + CAPACITY + 5)))
            await trio.sleep(60)
    assert bell.notified == [str(number) for number in range(1 + CAPACITY)] * 2
    assert bell.notifier.dropped == 10
    assert bell.messages == [
        "`bell` of notify.command is too slow: 5 events were dropped so far. Further ones are not reported."
    ]


@pytest.mark.parametrize(
    ("seconds", "cancelled", "force_kill", "notified", "lasts"),
    [
        (0.7, False, False, ["a", "b", "c"], DRAIN_TIMEOUT),
        (0.1, False, False, ["a", "b", "c", "d"], 0.4),
        (5, False, True, ["a"], 0),
        (0.5, True, False, ["a", "b", "c", "d"], DRAIN_TIMEOUT),
        (5, True, False, ["a"], DRAIN_TIMEOUT),
    ],
    ids=["two seconds", "no longer than needed", "killed", "cancelled", "cancelled and slow"],
)
async def test_queued_events_have_two_seconds_at_the_end_even_if_it_was_cancelled(
    autojump_clock: MockClock, *, seconds: float, cancelled: bool, force_kill: bool, notified: list[str], lasts: float
) -> None:
    with trio.CancelScope() as interrupted:
        async with Bell(takes(seconds)).open() as bell:
            await wait_all_tasks_blocked()
            start = trio.current_time()
            if cancelled:
                interrupted.cancel()
            bell.notify("a", "b", "c", "d")
            if force_kill:
                await wait_all_tasks_blocked()
                bell.force_kill.set()
    assert trio.current_time() - start == pytest.approx(lasts)
    assert bell.notified == notified


async def test_a_hub_that_is_stuck_delays_the_end_no_longer_than_the_program_may(autojump_clock: MockClock) -> None:
    async def stuck(_event: Event) -> None:
        await trio.sleep_forever()

    async def fail(_line: bytes) -> str | None:
        return "it exited with 1"

    notifier = Notifier(("Note",), "bell", fail, stuck)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(notifier.run)
        notifier.notify(None, Note(content="a"))
        start = trio.current_time()
        await notifier.close(trio.Event())
    assert trio.current_time() - start == pytest.approx(DRAIN_TIMEOUT)


@given(
    bursts=st.lists(st.tuples(st.integers(0, 3 * CAPACITY), st.floats(0, 20)), max_size=8),
    seconds=st.floats(0, 2 * TIMEOUT),
)
def test_every_event_is_passed_on_in_order_or_counted(bursts: list[tuple[int, float]], seconds: float) -> None:
    async def main() -> None:
        offered = 0
        async with Bell(takes(seconds)).open() as bell:
            for size, pause in bursts:
                start = trio.current_time()
                bell.notify(*(str(offered + number) for number in range(size)))
                offered += size
                assert trio.current_time() == start
                await trio.sleep(pause)
            await trio.sleep((CAPACITY + 1) * TIMEOUT)
        numbers = [int(content) for content in bell.notified]
        assert numbers == sorted(set(numbers))
        assert len(numbers) + bell.notifier.dropped == offered
        assert len(bell.messages) <= 2

    trio.run(main, clock=MockClock(autojump_threshold=0))
