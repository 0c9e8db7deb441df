"""The watch on the virtual clock, to the second."""

from __future__ import annotations

import gc
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from random import Random

import msgspec
import pytest
import trio
from trio.testing import MockClock

from cuggino.agents.agent import AgentOptions, AgentResult
from cuggino.config import Config, Limits
from cuggino.errors import LlmSessionError, LlmSessionErrorKind
from cuggino.events import (
    AgentWaiting,
    Done,
    Send,
    ToBeDiscussed,
    UsageReport,
    WatchIdle,
    WatchItemCompleted,
    WatchItemFailed,
    WatchTbdItemFound,
)
from cuggino.roles import Role
from cuggino.watch.ledger import LedgerState
from cuggino.watch.watch import WatchOptions
from tests.unit.watch.world import World

CHECK = Config(validate_command="validate")
AUDIT = Config(audit=True)
NO_RETRIES = Config(limits=Limits(retries=0))


def at(seconds: float, action: Callable[[], object]) -> Callable[[], Awaitable[None]]:
    """Return a task that acts at a virtual time."""

    async def act() -> None:
        await trio.sleep_until(seconds)
        action()

    return act


async def play(
    world: World,
    *acts: Callable[[], Awaitable[None]],
    until: float = 10_000,
    every: int = 10,
    until_idle: bool = False,
) -> int | None:
    """Run the watch and these tasks, cancel it at `until`, and return its exit code if it ended before."""
    code: int | None = None
    with trio.move_on_at(until):
        async with trio.open_nursery() as nursery:
            for act in acts:
                nursery.start_soon(act)
            code = await world.watch(every=every, until_idle=until_idle)
            nursery.cancel_scope.cancel()
    return code


# ---- waiting ----------------------------------------------------------------------------------


async def test_ready_items_are_taken_at_once_in_filename_order(tmp_path: Path, clock: MockClock) -> None:
    world = World(tmp_path)
    world.put("b.md")
    world.put("a.md")
    assert await play(world, until_idle=True) == 0
    assert world.story == [
        "0 WatchProcessingItem a.md",
        "10 WatchItemCompleted a.md",
        "10 WatchProcessingItem b.md",
        "20 WatchItemCompleted b.md",
        "20 WatchEnded idle 2 0",
    ]
    assert world.archived == ["a.md", "b.md"]
    assert world.wip == []


async def test_an_item_that_arrives_is_taken_30_seconds_after_the_last_change(tmp_path: Path, clock: MockClock) -> None:
    world = World(tmp_path)
    await play(world, at(5, partial(world.put, "a.md")), at(25, partial(world.put, "a.md", "more")), until=60)
    assert world.story == [
        "0 WatchBacklogWaiting",
        "0 WatchIdle 0 0",
        "55 WatchProcessingItem a.md",
        "60 WatchEnded interrupted 0 130",
    ]


async def test_idle_is_reported_at_once_and_every_five_minutes(tmp_path: Path, clock: MockClock) -> None:
    world = World(tmp_path)
    world.raise_issue()
    world.put("a.md")
    world.put("b.md")
    await play(world, until=700)
    assert [line for line in world.story if "Idle" in line] == [
        "0 WatchIdle 0 2",
        "300 WatchIdle 300 2",
        "600 WatchIdle 600 2",
    ]


async def test_each_change_of_state_is_reported_once(tmp_path: Path, clock: MockClock) -> None:
    world = World(tmp_path)
    world.raise_issue()
    await play(
        world,
        at(100, partial(world.raise_issue, "another.md")),
        at(200, world.clear_issues),
        at(300, world.raise_issue),
        until=400,
    )
    assert [line for line in world.story if "Waiting" in line] == [
        "0 WatchSpecIssueWaiting",
        "230 WatchBacklogWaiting",
        "330 WatchSpecIssueWaiting",
    ]


async def test_three_failed_polls_end_the_watch(tmp_path: Path, clock: MockClock) -> None:
    world = World(tmp_path)
    world.unreadable = lambda: True
    assert await play(world) == 3
    assert world.story == [
        "0 WatchPollFailed 1",
        "0 WatchIdle 0",
        "60 WatchPollFailed 2",
        "120 WatchPollFailed 3",
        "120 WatchEnded poll-failed 0 3",
    ]


# ---- items ------------------------------------------------------------------------------------


async def test_after_a_spec_issue_its_item_is_taken_first_again(tmp_path: Path, clock: MockClock) -> None:
    world = World(tmp_path)
    world.put("a.md")
    world.put("b.md")
    world.endings["a.md"] = ["issue"]
    await play(world, at(100, world.clear_issues), until=151)
    assert world.story == [
        "0 WatchProcessingItem a.md",
        "10 WatchItemNotRemoved a.md spec-issue",
        "10 WatchSpecIssueWaiting",
        "10 WatchIdle 0 2",
        "130 WatchProcessingItem a.md",
        "140 WatchItemCompleted a.md",
        "140 WatchProcessingItem b.md",
        "150 WatchItemCompleted b.md",
        "150 WatchBacklogWaiting",
        "150 WatchIdle 0 0",
        "151 WatchEnded interrupted 2 130",
    ]


async def test_a_failed_item_is_retried_after_30_and_60_s_then_blocked(tmp_path: Path, clock: MockClock) -> None:
    world = World(tmp_path)
    world.put("a.md")
    world.put("b.md")
    world.endings["a.md"] = ["fail"] * 3
    assert await play(world, until_idle=True) == 1
    assert world.story == [
        "0 WatchProcessingItem a.md",
        "10 WatchItemFailed a.md 1",
        "40 WatchProcessingItem a.md",
        "50 WatchItemFailed a.md 2",
        "110 WatchProcessingItem a.md",
        "120 WatchItemFailed a.md 3",
        "120 WatchItemBlocked a.md it failed 3 times: the request was refused",
        "120 WatchProcessingItem b.md",
        "130 WatchItemCompleted b.md",
        "130 WatchEnded idle 1 1",
    ]
    failed = [event.retry_in for _, event in world.log if isinstance(event, WatchItemFailed)]
    assert failed == [30, 60, None]
    state = msgspec.json.decode(world.project.state_file.read_bytes(), type=LedgerState)
    assert state.items["a.md"].attempts == 3


async def test_an_edit_unblocks_an_item(tmp_path: Path, clock: MockClock) -> None:
    world = World(tmp_path)
    world.put("a.md", "")
    await play(world, at(100, partial(world.put, "a.md", "now with text")), until=145)
    assert world.story == [
        "0 WatchProcessingItem a.md",
        "0 WatchItemBlocked a.md it is empty",
        "0 WatchBacklogWaiting",
        "0 WatchIdle 0 1",
        "130 WatchProcessingItem a.md",
        "140 WatchItemCompleted a.md",
        "140 WatchBacklogWaiting",
        "140 WatchIdle 0 0",
        "145 WatchEnded interrupted 1 130",
    ]


async def test_an_item_edited_or_deleted_during_its_loop_is_not_archived(tmp_path: Path, clock: MockClock) -> None:
    world = World(tmp_path)
    world.put("a.md")
    world.put("b.md")
    assert (
        await play(
            world, at(5, partial(world.put, "a.md", "other")), at(25, partial(world.remove, "b.md")), until_idle=True
        )
        == 0
    )
    assert world.story == [
        "0 WatchProcessingItem a.md",
        "10 WatchItemNotRemoved a.md changed",
        "10 WatchProcessingItem a.md",
        "20 WatchItemCompleted a.md",
        "20 WatchProcessingItem b.md",
        "30 WatchItemNotRemoved b.md gone",
        "30 WatchEnded idle 1 0",
    ]
    assert world.wip == []


async def test_a_finished_item_that_comes_back_unchanged_is_not_done_twice(tmp_path: Path, clock: MockClock) -> None:
    """As by an agent's `git checkout -- .`, where git tracks the backlog."""
    world = World(tmp_path)
    world.put("a.md", "first")
    world.put("b.md")
    assert await play(world, at(15, lambda: world.put("a.md", "first")), until_idle=True) == 0
    assert world.story == [
        "0 WatchProcessingItem a.md",
        "10 WatchItemCompleted a.md",
        "10 WatchProcessingItem b.md",
        "20 WatchItemCompleted b.md",
        "20 WatchEnded idle 2 0",
    ]
    assert sorted(world.archived) == ["a.md", "a.md", "b.md"]


async def test_an_item_removed_before_it_fails_is_gone_and_not_retried(tmp_path: Path, clock: MockClock) -> None:
    world = World(tmp_path, NO_RETRIES)
    world.endings["a.md"] = ["fail"]
    world.put("a.md")
    world.put("b.md")
    assert await play(world, at(5, lambda: world.remove("a.md")), until_idle=True) == 0
    assert world.story == [
        "0 WatchProcessingItem a.md",
        "10 WatchItemNotRemoved a.md gone",
        "10 WatchProcessingItem b.md",
        "20 WatchItemCompleted b.md",
        "20 WatchEnded idle 1 0",
    ]


async def test_an_edit_resets_the_failures_of_an_item(tmp_path: Path, clock: MockClock) -> None:
    world = World(tmp_path)
    world.put("a.md")
    world.endings["a.md"] = ["fail"] * 5
    await play(world, at(60, partial(world.put, "a.md", "edited")), until=250)
    attempts = [event.attempt for _, event in world.log if isinstance(event, WatchItemFailed)]
    assert attempts == [1, 2, 1, 2, 3]


async def test_a_limit_blocks_the_item_at_once(tmp_path: Path, clock: MockClock) -> None:
    world = World(tmp_path, Config(limits=Limits(max_runtime=5)))
    world.put("a.md")
    assert await play(world, until_idle=True) == 1
    assert world.story == [
        "0 WatchProcessingItem a.md",
        "5 WatchItemBlocked a.md its loop has reached maxRuntime (5)",
        "5 WatchEnded idle 0 1",
    ]


async def test_an_agent_that_cannot_be_set_up_ends_the_watch(tmp_path: Path, clock: MockClock) -> None:
    world = World(tmp_path)
    world.put("a.md")
    world.endings["a.md"] = ["setup"]
    assert await play(world) == 1
    assert world.story == ["0 WatchProcessingItem a.md", "10 WatchEnded setup-failed 0 1"]
    assert len(world.wip) >= 1
    assert msgspec.json.decode(world.project.state_file.read_bytes(), type=LedgerState).items == {}


async def test_after_an_outage_of_an_hour_work_resumes_where_it_stopped(tmp_path: Path, clock: MockClock) -> None:
    world = World(tmp_path, NO_RETRIES)
    world.put("a.md")

    async def implement(_options: AgentOptions, send: Send) -> AgentResult:
        if trio.current_time() < 3600:
            raise LlmSessionError("529", LlmSessionErrorKind.OVERLOADED)
        await send(Done(content="done"))
        return AgentResult(exit_status=0)

    world.troupe.parts[Role.IMPLEMENTER] = [implement]
    assert await play(world, until_idle=True) == 0
    assert len(world.story) == 3
    assert world.story[1].endswith("WatchItemCompleted a.md")
    assert world.starts(Role.PLANNER) == [0]
    pauses = [
        round(b - a) for a, b in zip(world.starts(Role.IMPLEMENTER), world.starts(Role.IMPLEMENTER)[1:], strict=False)
    ]
    assert pauses[:6] == [30, 60, 120, 240, 300, 300]
    assert set(pauses[6:]) == {300}
    assert sum(isinstance(event, AgentWaiting) for _, event in world.log) == len(pauses)


# ---- validation -------------------------------------------------------------------------------


async def test_validation_runs_every_ten_items_and_when_idle(tmp_path: Path, clock: MockClock) -> None:
    world = World(tmp_path, CHECK)
    for number in range(23):
        world.put(f"{number:02}.md", "" if number in (3, 4) else "do it")
    assert await play(world, until_idle=True) == 1  # two were set aside
    started = [line for line in world.story if "ValidationStarted" in line]
    assert [line.split()[-1] for line in started] == ["10", "20", "23"]
    assert world.story[-1].endswith("WatchEnded idle 21 1")


async def test_a_failed_validation_ends_the_watch_without_another_one(tmp_path: Path, clock: MockClock) -> None:
    world = World(tmp_path, CHECK)
    world.commands.exit_code = 1
    for name in "abc":
        world.put(f"{name}.md")
    assert await play(world, every=2) == 1
    assert world.story[-3:] == [
        "20 WatchValidationStarted 2",
        "20 WatchValidationFailed 2 1",
        "20 WatchEnded validation-failed 2 1",
    ]
    assert world.commands.run_commands == ["validate"]


@pytest.mark.parametrize(
    ("config", "events"),
    [
        (Config(), []),
        (Config(check_command="check"), ["10 WatchValidationStarted 1", "10 WatchValidationPassed 1"]),
    ],
)
async def test_without_a_validate_command_the_check_command_runs_if_there_is_one(
    tmp_path: Path, clock: MockClock, config: Config, events: list[str]
) -> None:
    world = World(tmp_path, config)
    world.put("a.md")
    await play(world, until_idle=True)
    assert world.story[2:] == [*events, "10 WatchEnded idle 1 0"]


# ---- audit ------------------------------------------------------------------------------------


async def finds(world: World, send: Send) -> None:
    for number in (1, 2):
        await trio.sleep(10)
        await send(ToBeDiscussed(content=f"finding {number}"))
        assert len(list(world.project.tbd.iterdir())) == number
    await send(UsageReport(cost_usd=0.1))
    await trio.sleep(80)


async def test_an_audit_saves_each_finding_before_its_event(tmp_path: Path, clock: MockClock) -> None:
    world = World(tmp_path, AUDIT)
    world.audit = partial(finds, world)
    await play(world, until=200)
    assert [line for line in world.story if "Idle" not in line] == [
        "0 WatchBacklogWaiting",
        "0 WatchAuditStarted",
        "10 WatchTbdItemFound",
        "20 WatchTbdItemFound",
        "100 WatchAuditEnded",
        "200 WatchEnded interrupted 0 130",
    ]
    found = [event for _, event in world.log if isinstance(event, WatchTbdItemFound)]
    assert [(world.project.tbd / event.filename).read_text() for event in found] == ["finding 1\n", "finding 2\n"]
    assert world.wip == []


async def test_work_ends_an_audit_before_the_first_agent_starts(tmp_path: Path, clock: MockClock) -> None:
    world = World(tmp_path, AUDIT)
    await play(world, at(20, partial(world.put, "a.md")), until=61)
    assert [line for line in world.story if "Idle" not in line] == [
        "0 WatchBacklogWaiting",
        "0 WatchAuditStarted",
        "50 WatchAuditInterrupted",
        "50 WatchProcessingItem a.md",
        "60 WatchItemCompleted a.md",
        "60 WatchBacklogWaiting",
        "60 WatchAuditStarted",
        "61 WatchAuditInterrupted",
        "61 WatchEnded interrupted 1 130",
    ]
    assert world.troupe.played[0].stopped


async def test_changes_that_do_not_end_the_waiting_do_not_end_an_audit(tmp_path: Path, clock: MockClock) -> None:
    world = World(tmp_path, AUDIT)
    world.raise_issue()
    await play(world, at(10, partial(world.put, "a.md")), at(60, world.raise_issue), until=150)
    assert "100 WatchAuditEnded" in world.story


@pytest.mark.parametrize(
    ("changed_at", "items_at", "started"),
    [
        (550, (200, 400, 600), ["0", "640"]),
        (50, (200,), ["0", "240"]),  # while the first audit ran
    ],
)
async def test_an_audit_is_repeated_only_when_something_has_changed(
    tmp_path: Path, clock: MockClock, changed_at: float, items_at: Sequence[float], started: list[str]
) -> None:
    def change() -> None:
        world.git.tree += 1

    world = World(tmp_path, AUDIT)
    world.git.implementers_work = False
    await play(world, at(changed_at, change), *(at(time, partial(world.put, f"{time}.md")) for time in items_at))
    assert [line.split()[0] for line in world.story if "AuditStarted" in line] == started


async def test_a_new_watch_does_not_repeat_an_audit_either(tmp_path: Path, clock: MockClock) -> None:
    world = World(tmp_path, AUDIT)
    await play(world, until=150)
    again = World(tmp_path, AUDIT)
    await play(again, until=300)
    assert not any("Audit" in line for line in again.story)


async def test_a_failed_audit_does_not_stop_the_watch(tmp_path: Path, clock: MockClock) -> None:
    async def fails(_send: Send) -> None:
        raise LlmSessionError("529", LlmSessionErrorKind.OVERLOADED)

    world = World(tmp_path, AUDIT)
    world.audit = fails
    await play(world, at(5, partial(world.put, "a.md")), until=46)
    assert "0 WatchAuditFailed" in world.story
    assert "45 WatchItemCompleted a.md" in world.story


async def test_no_audit_starts_while_a_failed_item_waits(tmp_path: Path, clock: MockClock) -> None:
    world = World(tmp_path, AUDIT)
    world.put("a.md")
    world.endings["a.md"] = ["fail", "fail"]
    await play(world, until=120)
    assert not any("Audit" in line for line in world.story[:-2])


# ---- stopping ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("when", "doing", "ends"),
    [
        (15, {}, 15),  # waiting
        (45, {"put": 40}, 45),  # debouncing
        (40, {"put": 5}, 45),  # planning, since 35
        (20, {"endings": ["fail"], "start": True}, 20),  # backing off
        (20, {"endings": ["overloaded"], "start": True}, 20),  # waiting for the provider
        (5, {"start": True}, 10),  # planning
        (30, {"audit": True}, 30),
    ],
)
async def test_a_drain_ends_every_wait_at_once_and_lets_running_work_finish(
    tmp_path: Path, clock: MockClock, when: float, doing: dict[str, object], ends: float
) -> None:
    world = World(tmp_path, Config(audit=bool(doing.get("audit")), limits=Limits(retries=0)))
    acts = [at(when, world.escalate)]
    if "start" in doing:
        world.put("a.md")
    if "put" in doing:
        acts.append(at(float(str(doing["put"])), partial(world.put, "a.md")))
    world.endings["a.md"] = list(doing.get("endings", []))  # type: ignore[call-overload]
    assert await play(world, *acts) == 130
    active = 1 if ends != when else 0
    stopping = next(line for line in world.story if "Stopping" in line)
    assert stopping == f"{when} WatchStopping drain"
    assert next(event.active for _, event in world.log if "Stopping" in type(event).__name__) == active  # type: ignore[attr-defined]
    assert world.story[-1].startswith(f"{ends} WatchEnded interrupted")
    if doing.get("endings"):
        assert (world.project.backlog / "a.md").exists()


async def test_a_second_press_interrupts_and_a_new_watch_resumes(tmp_path: Path, clock: MockClock) -> None:
    world = World(tmp_path, CHECK)
    world.put("a.md")
    await play(world, at(3, world.escalate), at(4, world.escalate))
    assert world.story == [
        "0 WatchProcessingItem a.md",
        "3 WatchStopping drain",
        "4 WatchStopping interrupt",
        "4 WatchEnded interrupted 0 130",
    ]
    assert (world.project.backlog / "a.md").exists()
    assert len(world.wip) >= 1
    again = World(tmp_path)
    assert await play(again, until_idle=True) == 0
    assert again.wip == []


@pytest.mark.parametrize(("exit_code", "code"), [(0, 130), (1, 1)])
async def test_a_last_validation_runs_after_a_drain(
    tmp_path: Path, clock: MockClock, exit_code: int, code: int
) -> None:
    world = World(tmp_path, CHECK)
    world.commands.exit_code = exit_code
    world.put("a.md")
    assert await play(world, at(20, world.escalate)) == code
    assert world.story[-3] == "20 WatchValidationStarted 1"
    assert world.story[-1] == f"20 WatchEnded {'validation-failed' if exit_code else 'interrupted'} 1 {code}"


async def test_the_next_watch_reports_the_items_of_a_dead_one(tmp_path: Path, clock: MockClock) -> None:
    world = World(tmp_path)
    assert await world.run_watch(WatchOptions(until_idle=True, already_archived=("old.md",))) == 0
    assert world.story == ["0 WatchItemCompleted old.md", "0 WatchEnded idle 0 0"]


async def test_idle_without_a_count_reports_no_number_of_blocked_items(tmp_path: Path, clock: MockClock) -> None:
    world = World(tmp_path)
    world.unreadable = lambda: trio.current_time() < 30
    await play(world, until=70)
    idle = [event for _, event in world.log if isinstance(event, WatchIdle)]
    assert idle == [WatchIdle(wait_seconds=0, blocked=None)]


# ---- a long time ------------------------------------------------------------------------------


async def test_no_item_of_a_day_is_lost_and_memory_stays_flat(tmp_path: Path, clock: MockClock) -> None:
    """500 items over a day, 50 spec issues, 20 crashes of the watch."""
    chance = Random(500)
    finished: set[str] = set()
    completed: list[str] = []
    items = [f"{number:03}.md" for number in range(500)]
    troubled = {name: ["issue"] for name in chance.sample(items, 50)}
    crashes = iter(sorted(chance.sample(range(1000, 80_000), 20)))
    world = World(tmp_path)
    sizes: list[int] = []

    async def people() -> None:
        for number, name in enumerate(items):
            await trio.sleep_until(number * 160)
            world.put(name)

    async def clears_issues() -> None:
        while True:
            await trio.sleep(300)
            world.clear_issues()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(people)
        nursery.start_soon(clears_issues)
        while len(finished) < len(items):
            world = World(tmp_path)
            world.endings.update({name: endings for name, endings in troubled.items() if endings})
            with trio.move_on_at(next(crashes, 90_000)):
                await world.watch()
            reported = [event.filename for _, event in world.log if isinstance(event, WatchItemCompleted)]
            completed += reported
            finished.update(reported)
            world.log.clear()
            world.troupe.played.clear()
            sizes.append(len(gc.get_objects()))
        nursery.cancel_scope.cancel()
    assert sorted(completed) == items
    assert sorted(world.archived) == items
    assert not any(troubled.values())
    assert world.wip == []
    assert list(world.project.backlog.iterdir()) == []
    assert max(sizes) < sizes[1] * 1.1
