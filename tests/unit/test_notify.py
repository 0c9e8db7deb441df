"""The queue of notifications, on the virtual clock: the program is a function."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from cuggino.events import Event, Note, PingEvent, SystemMessage, decode_log_line
from cuggino.notify import CAPACITY, LAST, PATIENCE, Notifier, Run


class Runtime:
    """A notifier for Notes at work, and what it said."""

    def __init__(self, run: Callable[[str], Awaitable[str | None]], *names: str) -> None:
        self.said: list[str] = []
        self.force_kill = trio.Event()
        self.told: list[str] = []

        async def program(line: bytes) -> str | None:
            event = decode_log_line(line).event
            assert isinstance(event, Note)
            self.told.append(event.content)
            return await run(event.content)

        self.notifier = Notifier(names or ("Note",), "bell", program, self._say)

    async def _say(self, event: Event) -> None:
        assert isinstance(event, SystemMessage)
        self.said.append(event.text)

    def offer(self, *contents: str) -> None:
        for content in contents:
            self.notifier.offer(None, Note(content=content))

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Runtime]:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.notifier.run)
            try:
                yield self
            finally:
                await self.notifier.close(self.force_kill)


async def works(_content: str) -> str | None:
    return None


async def fails(_content: str) -> str | None:
    return "it ended with 3"


def takes(seconds: float) -> Callable[[str], Awaitable[str | None]]:
    async def run(_content: str) -> str | None:
        await trio.sleep(seconds)
        return None

    return run


async def test_the_program_gets_the_line_of_an_event_that_is_wanted_and_of_no_other() -> None:
    lines: list[bytes] = []

    async def take(line: bytes) -> str | None:
        lines.append(line)
        return None

    async def say(event: Event) -> None:
        raise AssertionError(event)

    notifier = Notifier(("Note", "PingEvent"), "bell", take, say)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(notifier.run)
        notifier.offer("a-session", Note(content="ü\ud800"))
        notifier.offer("a-session", SystemMessage(text="not wanted"))
        notifier.offer("a-session", PingEvent())
        await notifier.close(trio.Event())
    (line,) = lines
    assert line.endswith(b"}\n")
    told = decode_log_line(line)
    assert (told.session, told.event) == ("a-session", Note(content="ü\\ud800"))
    assert told.at[10] == "T"
    assert told.at[-5] == "."
    assert told.at[-1] == "Z"


async def test_events_are_told_in_order_and_one_at_a_time(autojump_clock: trio.testing.MockClock) -> None:
    running = 0

    async def run(_content: str) -> str | None:
        nonlocal running
        running += 1
        assert running == 1
        await trio.sleep(0.1)
        running -= 1
        return None

    async with Runtime(run).open() as runtime:
        runtime.offer("a", "b", "c")
        await trio.sleep(1)
    assert runtime.told == ["a", "b", "c"]
    assert runtime.said == []


async def test_a_program_that_hangs_is_stopped_and_that_is_told_once(autojump_clock: trio.testing.MockClock) -> None:
    stopped: list[float] = []

    async def hang(_content: str) -> str | None:
        try:
            await trio.sleep_forever()
        finally:
            stopped.append(trio.current_time())
        raise AssertionError

    async with Runtime(hang).open() as runtime:
        begun = trio.current_time()
        runtime.offer("a", "b")
        await trio.sleep(3 * PATIENCE)
    assert stopped == pytest.approx([begun + PATIENCE, begun + 2 * PATIENCE])
    assert runtime.said == [
        "`bell` of notify.command failed: it took longer than 10 s and was stopped. This is told once."
    ]


async def test_a_program_that_fails_is_told_once_and_gets_the_next_event_all_the_same() -> None:
    async with Runtime(fails).open() as runtime:
        runtime.offer("a", "b", "c")
        await trio.testing.wait_all_tasks_blocked()
    assert runtime.told == ["a", "b", "c"]
    assert runtime.said == ["`bell` of notify.command failed: it ended with 3. This is told once."]


async def test_of_a_flood_what_does_not_fit_is_left_out_and_counted(autojump_clock: trio.testing.MockClock) -> None:
    async with Runtime(takes(0.1)).open() as runtime:
        await trio.testing.wait_all_tasks_blocked()  # it waits, and takes the first one at once
        for _ in range(2):
            runtime.offer(*map(str, range(1 + CAPACITY + 5)))
            await trio.sleep(60)
    assert runtime.told == [str(number) for number in range(1 + CAPACITY)] * 2
    assert runtime.notifier.left_out == 10
    assert runtime.said == [
        "Events come faster than `bell` of notify.command takes them; it was not told of 5 so far. This is told once."
    ]


async def test_at_the_end_what_waits_has_two_seconds(autojump_clock: trio.testing.MockClock) -> None:
    begun = trio.current_time()
    async with Runtime(takes(0.7)).open() as runtime:
        runtime.offer("a", "b", "c", "d")
        await trio.testing.wait_all_tasks_blocked()
        begun = trio.current_time()
    assert runtime.told == ["a", "b", "c"]
    assert trio.current_time() - begun == pytest.approx(LAST)


async def test_the_end_is_no_later_than_the_last_notification(autojump_clock: trio.testing.MockClock) -> None:
    async with Runtime(takes(0.7)).open() as runtime:
        runtime.offer("a")
        begun = trio.current_time()
    assert trio.current_time() - begun == pytest.approx(0.7)
    assert runtime.told == ["a"]


async def test_a_person_in_a_hurry_waits_for_nothing(autojump_clock: trio.testing.MockClock) -> None:
    async with Runtime(takes(5)).open() as runtime:
        runtime.offer("a", "b")
        await trio.testing.wait_all_tasks_blocked()
        begun = trio.current_time()
        runtime.force_kill.set()
    assert trio.current_time() == begun
    assert runtime.told == ["a"]


async def test_a_cancelled_command_still_tells_what_happened(autojump_clock: trio.testing.MockClock) -> None:
    runtime = Runtime(takes(0.5))
    with trio.CancelScope() as interrupted:
        async with runtime.open():
            interrupted.cancel()
            runtime.offer("a", "b")
            await trio.sleep_forever()
    assert interrupted.cancelled_caught
    assert runtime.told == ["a", "b"]


async def test_a_cancelled_command_waits_no_longer_than_another(autojump_clock: trio.testing.MockClock) -> None:
    begun = trio.current_time()
    with trio.CancelScope() as interrupted:
        async with Runtime(takes(5)).open() as runtime:
            interrupted.cancel()
            runtime.offer("a")
    assert trio.current_time() - begun == pytest.approx(LAST)


async def test_a_hub_that_is_stuck_holds_up_the_end_no_longer_than_the_program_may(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def stuck(_event: Event) -> None:
        await trio.sleep_forever()

    async def run(_line: bytes) -> str | None:
        return "it ended with 1"

    program: Run = run
    notifier = Notifier(("Note",), "bell", program, stuck)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(notifier.run)
        notifier.offer(None, Note(content="a"))
        begun = trio.current_time()
        await notifier.close(trio.Event())
    assert trio.current_time() - begun == pytest.approx(LAST)


@given(
    bursts=st.lists(st.tuples(st.integers(0, 3 * CAPACITY), st.floats(0, 20)), max_size=8),
    seconds=st.floats(0, 2 * PATIENCE),
)
def test_whatever_comes_when_each_event_is_told_in_its_order_or_counted(
    bursts: list[tuple[int, float]], seconds: float
) -> None:
    async def main() -> None:
        offered = 0
        async with Runtime(takes(seconds)).open() as runtime:
            for size, pause in bursts:
                begun = trio.current_time()
                runtime.offer(*(str(offered + number) for number in range(size)))
                offered += size
                assert trio.current_time() == begun
                await trio.sleep(pause)
            await trio.sleep((CAPACITY + 1) * PATIENCE)
        numbers = [int(content) for content in runtime.told]
        assert numbers == sorted(set(numbers))
        assert len(numbers) + runtime.notifier.left_out == offered
        assert len(runtime.said) <= 2

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
