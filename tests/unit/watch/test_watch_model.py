"""The whole watch against a plain model, under random events.

The model is one function: state, event → state, effects. Time is a number that it advances itself. Changes of folders
are noticed at once here (their debounce has a model of its own) and happen at half seconds, so that they never coincide
with anything that takes whole seconds.
"""

from __future__ import annotations

import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import MockClock
from trio_util import AsyncValue

from cuggino.config import Config, Limits
from cuggino.events import WatchIdle, WatchLoopEvent
from cuggino.items import list_items
from cuggino.watch.counting import FolderListing, PollHistory
from cuggino.watch.watch import WatchOptions
from tests.unit.watch.world import PLANNING, World, describe

EVERY = 3
CONFIG = Config(validate_command="validate", limits=Limits(retries=0))
NAMES = ("a.md", "b.md", "c.md")

happenings = st.lists(
    st.tuples(
        st.integers(1, 120),
        st.one_of(
            st.tuples(
                st.just("add"),
                st.sampled_from(NAMES),
                st.lists(st.sampled_from(["well", "well", "issue", "fail", "overloaded", "setup"]), max_size=4),
            ),
            st.tuples(st.sampled_from(["add empty", "edit", "remove"]), st.sampled_from(NAMES), st.just([])),
            st.tuples(st.just("rename"), st.sampled_from(NAMES), st.just([])),
            st.tuples(st.sampled_from(["issue", "clear", "press"]), st.just(""), st.just([])),
        ),
    ),
    max_size=10,
)

Op = tuple[str, str, list[str]]


# ---- the model --------------------------------------------------------------------------------


@dataclass
class State:
    """The model's whole state."""

    items: dict[str, int] = field(default_factory=dict)
    """name → number of the content; 0 is empty."""
    endings: dict[str, list[str]] = field(default_factory=dict)
    issues: int = 0
    doing: str = "look"
    """look, wait, plan (an item), pause (after a failure), outage, ended."""
    until: float = float("inf")
    item: str = ""
    content: int = 0
    outages: int = 0
    reported: str = ""
    troubles: dict[str, tuple[int, int, bool]] = field(default_factory=dict)
    """name → content, failures, whether it is blocked."""
    counted: set[str] = field(default_factory=set)
    draining: bool = False
    finished: int = 0
    completed: int = 0
    validated: int = 0
    threshold: int = EVERY
    contents: int = 0
    effects: list[str] = field(default_factory=list)


def blocked(state: State, name: str) -> bool:
    content, _, is_blocked = state.troubles.get(name, (-1, 0, False))
    return is_blocked and content == state.items[name]


def happen(state: State, time: float, op: Op) -> None:
    """A person does something, at a half second."""
    kind, name, endings = op
    match kind:
        case "add":
            state.contents += 1
            state.items[name] = state.contents
            state.endings[name] = list(endings)
        case "add empty":
            state.items[name] = 0
        case "edit" if name in state.items:
            state.contents += 1
            state.items[name] = state.contents
        case "remove":
            state.items.pop(name, None)
        case "rename" if name in state.items:
            state.items[f"z-{name}"] = state.items.pop(name)
        case "issue":
            state.issues += 1
        case "clear":
            state.issues = 0
        case "press":
            escalate(state, time)
    if state.doing == "wait":
        look(state, time)


def escalate(state: State, time: float) -> None:
    if state.doing == "ended":
        return
    stage = "interrupt" if state.draining else "drain"
    state.effects.append(f"{time:g} WatchStopping {stage}")
    if state.draining:
        state.effects.append(f"{time:g} WatchEnded interrupted {state.completed} 130")
        state.doing = "ended"
    state.draining = True
    if state.doing in ("wait", "pause", "outage"):
        look(state, time)


def timer(state: State) -> None:
    """The time that was waited for has come."""
    time, state.until = state.until, float("inf")
    match state.doing:
        case "plan":
            planned(state, time)
        case "pause":
            look(state, time)
        case "outage":
            state.doing, state.until = "plan", time + PLANNING


def planned(state: State, time: float) -> None:
    name = state.item
    endings = state.endings.get(name, [])
    match endings.pop(0) if endings else "well":
        case "well":
            state.troubles.pop(name, None)
            if name not in state.items:
                state.effects.append(f"{time:g} WatchItemNotRemoved {name} gone")
            elif state.items[name] != state.content:
                state.effects.append(f"{time:g} WatchItemNotRemoved {name} changed")
            else:
                state.effects.append(f"{time:g} WatchItemCompleted {name}")
                del state.items[name]
                state.completed += 1
                state.finished += name not in state.counted
                state.counted.discard(name)
        case "issue":
            state.troubles.pop(name, None)
            state.issues += 1
            state.effects.append(f"{time:g} WatchItemNotRemoved {name} spec-issue")
        case "setup":
            state.effects.append(f"{time:g} WatchEnded setup-failed {state.completed} 1")
            state.doing = "ended"
            return
        case "overloaded":
            pause = (30, 60, 120, 240, 300)[min(state.outages, 4)]
            state.outages += 1
            if not state.draining:
                state.doing, state.until = "outage", time + pause
                return
        case "fail" if name not in state.items:
            state.troubles.pop(name, None)
            state.effects.append(f"{time:g} WatchItemNotRemoved {name} gone")
        case "fail":
            content, failures, _ = state.troubles.get(name, (-1, 0, False))
            failures = failures + 1 if content == state.content else 1
            state.troubles[name] = (state.content, failures, False)
            state.effects.append(f"{time:g} WatchItemFailed {name} {failures}")
            if failures == 3:
                block(state, time, "it failed 3 times: the request was refused")
            elif not state.draining:
                state.doing, state.until = "pause", time + (30, 60)[failures - 1]
                return
    look(state, time)


def block(state: State, time: float, reason: str) -> None:
    name = state.item
    content, failures, _ = state.troubles.get(name, (-1, 0, False))
    state.troubles[name] = (state.content, failures if content == state.content else 0, True)
    state.effects.append(f"{time:g} WatchItemBlocked {name} {reason}")
    state.finished += name not in state.counted
    state.counted.add(name)


def look(state: State, time: float) -> None:
    """Decide repeatedly until something takes time."""
    while True:
        unvalidated = state.finished > state.validated
        if state.draining and not unvalidated:
            state.effects.append(f"{time:g} WatchEnded interrupted {state.completed} 130")
            state.doing = "ended"
            return
        if state.draining or state.finished >= state.threshold:
            state.effects.append(f"{time:g} WatchValidationStarted {state.finished}")
            state.effects.append(f"{time:g} WatchValidationPassed {state.finished}")
            state.validated = state.finished
            while state.threshold <= state.finished:
                state.threshold += EVERY
            state.doing, state.reported = "look", ""
            continue
        ready = [name for name in sorted(state.items) if not blocked(state, name)]
        if state.issues == 0 and ready:
            state.item, state.content, state.outages = ready[0], state.items[ready[0]], 0
            state.effects.append(f"{time:g} WatchProcessingItem {state.item}")
            state.doing, state.reported = "look", ""
            if state.content == 0:
                block(state, time, "it is empty")
                continue
            state.doing, state.until = "plan", time + PLANNING
            return
        waiting = "WatchSpecIssueWaiting" if state.issues else "WatchBacklogWaiting"
        if state.doing != "wait" or state.reported != waiting:
            state.effects.append(f"{time:g} {waiting}")
        state.doing, state.reported = "wait", waiting
        return


def model(ops: list[tuple[float, Op]], end: float) -> list[str]:
    state = State()
    look(state, 0)
    for time, op in [*ops, (end, ("press", "", [])), (end + 1, ("press", "", []))]:
        while state.until < time and state.doing != "ended":
            timer(state)
        if state.doing == "ended":
            break
        happen(state, time, op)
    return state.effects


# ---- the real one -----------------------------------------------------------------------------


class ImmediateCounting:
    """The folders' contents, counted whenever the test has changed something."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._counts: AsyncValue[tuple[FolderListing, ...] | None] | None = None
        self._look = 0

    async def count(
        self,
        counts: AsyncValue[tuple[FolderListing, ...] | None],
        failed: Callable[[int, str], Awaitable[None]],
        polls: PollHistory,
    ) -> None:
        del failed, polls
        self._counts = counts
        self.count_again()
        try:
            await trio.sleep_forever()
        finally:
            self._counts = None

    def count_again(self) -> None:
        if self._counts is not None:
            self._look += 1
            project = self._world.project
            self._counts.value = tuple(
                FolderListing(self._look, list_items(folder)) for folder in (project.spec_issues, project.backlog)
            )


async def play(ops: list[tuple[float, Op]], end: float, root: Path) -> list[str]:
    world = World(root, CONFIG)
    seen = ImmediateCounting(world)
    contents = 0

    def do(op: Op) -> None:
        nonlocal contents
        kind, name, endings = op
        path = world.project.backlog / name
        match kind:
            case "add":
                contents += 1
                path.write_text(f"content {contents}")
                world.endings[name] = list(endings)
            case "add empty":
                path.write_text("")
            case "edit" if path.exists():
                contents += 1
                path.write_text(f"content {contents}")
            case "remove":
                path.unlink(missing_ok=True)
            case "rename" if path.exists():
                path.rename(path.with_name(f"z-{name}"))
            case "issue":
                (world.project.spec_issues / f"{trio.current_time()}.md").write_text("why")
            case "clear":
                world.clear_issues()
            case "press":
                world.escalate()
        seen.count_again()

    async def people() -> None:
        for time, op in [*ops, (end, ("press", "", [])), (end + 1, ("press", "", []))]:
            await trio.sleep_until(time)
            do(op)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(people)
        with world.shutdown.interrupted:
            world.count = seen.count  # type: ignore[method-assign]
            await world.run_watch(WatchOptions(every=EVERY))
        nursery.cancel_scope.cancel()
    return [
        f"{time:g} {describe(event)}"
        for time, event in world.log
        if isinstance(event, WatchLoopEvent) and not isinstance(event, WatchIdle)
    ]


@settings(max_examples=120)
@given(happenings)
def test_the_watch_behaves_like_the_model(steps: list[tuple[int, Op]]) -> None:
    time, ops = 0.5, []
    for pause, op in steps:
        time += pause
        ops.append((time, op))
    with tempfile.TemporaryDirectory() as folder:
        played = trio.run(play, ops, time + 1000, Path(folder), clock=MockClock(autojump_threshold=0))
    assert played == model(ops, time + 1000)
