"""Several items at a time: which begin when, what waits for whom, and how it all ends. On the virtual clock."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from cuggino.backlog import Item
from cuggino.config import Config
from cuggino.errors import LlmSessionErrorKind, LoopError
from cuggino.events import (
    Send,
    WatchAuditStarted,
    WatchBacklogWaiting,
    WatchEnded,
    WatchIdle,
    WatchItemCompleted,
    WatchPollFailed,
    WatchSpecIssueWaiting,
    WatchStopping,
    WatchValidationStarted,
)
from cuggino.loop.context import LoopContext
from cuggino.roles import Role
from cuggino.watch.places import ItemWork
from cuggino.watch.watch import WatchOptions, run_watch
from tests.unit.watch.world import World


class Crew:
    """Who works on items: each takes as many seconds as its text says; `issue` in it raises a spec issue then."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.integrating = trio.Lock()
        self.begun: list[tuple[float, str]] = []
        self.integrated: list[tuple[float, str]] = []
        self.most = self._now = 0
        self.stopped: list[str] = []

    async def prepare(self) -> None:
        """There is nothing to prepare."""

    async def work(self, context: LoopContext, item: Item, _sender: Callable[[str | None], Send]) -> ItemWork:
        self.begun.append((trio.current_time(), item.name))
        self._now += 1
        self.most = max(self.most, self._now)
        try:
            seconds, *words = item.text.split()
            await trio.sleep(float(seconds))
            match words:
                case ["issue"]:
                    self.world.raise_issue()
                    return ItemWork(end="spec-issue", clean_up=trio.lowlevel.checkpoint)
                case ["pause"]:
                    await context.sleep(1000)
                case ["setup"]:
                    raise LoopError("no agent", Role.PLANNER, kind=LlmSessionErrorKind.SETUP)
        except trio.Cancelled:
            self.stopped.append(item.name)
            raise
        else:
            async with self.integrating:
                self.integrated.append((trio.current_time(), item.name))
            return ItemWork(end="done", clean_up=trio.lowlevel.checkpoint)
        finally:
            self._now -= 1

    async def watch(self, jobs: int, *, until_idle: bool = True, every: int = 10) -> int:
        world, options = self.world, WatchOptions(jobs=jobs, until_idle=until_idle, every=every)
        with world.shutdown.interrupted:
            return await run_watch(world.context, world.shutdown, world.sender, self, options, count=world.count)
        return 130

    def completed(self) -> list[tuple[float, str]]:
        return [(at, event.filename) for at, event in self.world.log if isinstance(event, WatchItemCompleted)]

    def times(self, kind: type) -> list[float]:
        return [at for at, event in self.world.log if isinstance(event, kind)]


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


async def test_items_begin_in_order_and_a_free_place_is_filled_at_once(world: World, autojump_clock: MockClock) -> None:
    for name, seconds in {"a": 30, "b": 10, "c": 5, "d": 1}.items():
        world.put(name, str(seconds))
    crew = Crew(world)
    assert await crew.watch(2) == 0
    assert crew.begun == [(0, "a"), (0, "b"), (10, "c"), (15, "d")]
    assert crew.completed() == [(10, "b"), (15, "c"), (16, "d"), (30, "a")]
    assert crew.most == 2


async def test_an_item_that_arrives_while_others_run_gets_a_free_place(world: World, autojump_clock: MockClock) -> None:
    world.put("a", "100")
    crew = Crew(world)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(crew.watch, 2)
        await trio.sleep(10)
        world.put("b", "1")
    assert crew.begun == [(0, "a"), (40, "b")], "30 s after the last change"
    assert crew.completed() == [(41, "b"), (100, "a")]


async def test_a_spec_issue_lets_the_running_ones_finish_and_starts_no_new_one(
    world: World, autojump_clock: MockClock
) -> None:
    world.put("a", "5 issue")
    world.put("b", "50")
    world.put("c", "1")
    crew = Crew(world)
    assert await crew.watch(2) == 4
    assert crew.begun == [(0, "a"), (0, "b")]
    assert crew.completed() == [(50, "b")]
    assert crew.times(WatchEnded) == [50]


async def test_nothing_is_said_of_waiting_and_no_audit_starts_while_something_runs(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    world = World(tmp_path, Config(audit=True))
    world.put("a", "500")
    crew = Crew(world)
    with trio.move_on_after(2000):
        await crew.watch(4, until_idle=False)
    assert min(crew.times(WatchBacklogWaiting)) == 500
    assert min(crew.times(WatchAuditStarted)) == 500
    assert crew.times(WatchSpecIssueWaiting) == []


async def test_a_drain_lets_all_that_run_come_to_their_end_and_ends_their_waits(
    world: World, autojump_clock: MockClock
) -> None:
    for name, words in {"a": "20", "b": "30", "c": "1 pause", "d": "1"}.items():
        world.put(name, words)
    crew = Crew(world)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(crew.watch, 3)
        await trio.sleep(10)
        world.escalate()
    assert [name for _, name in crew.begun] == ["a", "b", "c"]
    assert crew.completed() == [(20, "a"), (30, "b")]
    stopping = [event for _, event in world.log if isinstance(event, WatchStopping)]
    assert stopping == [WatchStopping(stage="drain", active=2)], "who waits is not at work"
    assert [event for _, event in world.log if isinstance(event, WatchEnded)] == [
        WatchEnded(reason="interrupted", completed=2, exit_code=130)
    ]


async def test_an_interrupt_stops_them_all(world: World, autojump_clock: MockClock) -> None:
    for name in "abc":
        world.put(name, "1000")
    crew = Crew(world)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(crew.watch, 3)
        await trio.sleep(10)
        world.escalate()
        world.escalate()
    assert sorted(crew.stopped) == ["a", "b", "c"]
    assert trio.current_time() < 20
    assert sorted(world.project.backlog.iterdir()) == [world.project.backlog / name for name in "abc"]


async def test_an_agent_that_cannot_be_set_up_ends_the_watch_when_the_others_are_done(
    world: World, autojump_clock: MockClock
) -> None:
    world.put("a", "10 setup")
    world.put("b", "100")
    world.put("c", "1")
    crew = Crew(world)
    assert await crew.watch(2) == 1
    assert [name for _, name in crew.begun] == ["a", "b"]
    assert crew.completed() == [(100, "b")]


async def test_what_finished_is_validated_as_it_is_for_one_at_a_time(tmp_path: Path, autojump_clock: MockClock) -> None:
    world = World(tmp_path, Config(validate_command="true"))
    for number in range(6):
        world.put(f"{number}", f"{10 * (number + 1)}")
    crew = Crew(world)
    assert await crew.watch(6, every=2) == 0
    assert crew.times(WatchValidationStarted) == [20, 40, 60]


async def test_while_a_validation_runs_nothing_is_integrated_and_no_item_starts_and_a_last_one_follows(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    world = World(tmp_path, Config(validate_command="validate"))
    for name, seconds in {"a": 10, "b": 15, "c": 100, "d": 1}.items():
        world.put(name, str(seconds))
    crew = Crew(world)
    world.commands.seconds = 50
    assert await crew.watch(3, every=1) == 0
    assert sorted(name for _, name in crew.integrated) == ["a", "b", "c", "d"]
    validations = [(at, event.completed) for at, event in world.log if isinstance(event, WatchValidationStarted)]
    (first, *_, last) = validations
    assert (first, last[1]) == ((10, 1), 4), "the last one validates all"
    during = [(at, at + 50) for at, _ in validations]
    moments = [at for at, _ in (*crew.begun, *crew.integrated)]
    assert not [at for at in moments if any(start < at < end for start, end in during)]


async def test_items_that_end_neither_reset_failed_polls_nor_repeat_them_sooner_and_nobody_is_idle_meanwhile(
    world: World, autojump_clock: MockClock
) -> None:
    for name, seconds in {"a": 70, "b": 75, "c": 100, "d": 1000}.items():
        world.put(name, str(seconds))
    world.unreadable = lambda: trio.current_time() > 30
    crew = Crew(world)
    assert await crew.watch(5, until_idle=False) == 3
    polls = [(at, event.attempt) for at, event in world.log if isinstance(event, WatchPollFailed)]
    assert polls == [(60, 1), (120, 2), (180, 3)]
    assert crew.times(WatchIdle) == []
    assert crew.times(WatchEnded) == [1000]


async def test_while_no_place_is_free_the_folders_are_not_read(world: World, autojump_clock: MockClock) -> None:
    for name in "ab":
        world.put(name, "500")
    world.unreadable = lambda: 0 < trio.current_time() < 500
    assert await Crew(world).watch(2) == 0
    assert not [event for _, event in world.log if isinstance(event, WatchPollFailed)]


async def test_forty_items_are_each_done_once(world: World, autojump_clock: MockClock) -> None:
    for number in range(40):
        world.put(f"{number:02}", str(1 + number * 7 % 13))
    crew = Crew(world)
    assert await crew.watch(4) == 0
    assert [name for _, name in crew.begun] == [f"{number:02}" for number in range(40)]
    assert crew.most == 4
    assert len(crew.completed()) == 40
