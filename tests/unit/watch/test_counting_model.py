"""Counting against a plain model: changes with and without a notice, unreadable folders, at random times."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, TypeAlias

import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import MockClock

from cuggino.watch.counting import BacklogUnreadable
from tests.unit.watch.test_counting import BACKLOG, SPEC_ISSUES, Folders, Seen

Kind: TypeAlias = Literal["change", "silent", "break", "repair"]
Action: TypeAlias = tuple[int, Kind, int]
"""The time in milliseconds, the action, the number of the folder."""

KINDS: Sequence[Kind] = ("change", "change", "change", "change", "silent", "break", "repair")
HORIZON = 900_000


def model(actions: Sequence[Action], count: int) -> tuple[list[Seen], list[tuple[float, int]]]:
    """Follow the specification at every moment when something may happen: multiples of 30 s after each action."""
    moments = {at + step for at in (0, *(at for at, *_ in actions)) for step in range(0, HORIZON, 30_000)}
    todo = list(actions)
    held, counted, looks = [0] * count, [0] * count, [0] * count
    changes: list[list[int]] = [[] for _ in range(count)]  # of each folder, since it was counted
    broken: set[int] = set()
    last, failures = -1, 0
    seen: list[Seen] = []
    failed: list[tuple[float, int]] = []

    def end(folder: int) -> float:
        return min(changes[folder][-1] + 30_000, changes[folder][0] + 300_000) if changes[folder] else math.inf

    for now in sorted(moment for moment in moments if moment < HORIZON):
        while todo and todo[0][0] == now:
            _, kind, folder = todo.pop(0)
            held[folder] += kind in ("change", "silent")
            changes[folder] += [now] * (kind == "change")
            broken = {"break": broken | {folder}, "repair": set()}.get(kind, broken)
        ends = [end(folder) for folder in range(count)]
        recount = now >= last + 60_000
        normal = last < 0 or min(ends) <= now or (recount and math.inf in ends)
        if not (recount if failures else normal):
            continue
        last = now
        if broken:
            failures += 1
            failed.append((now / 1000, failures))
            if failures == 3:
                break
            continue
        failures = 0
        for folder in range(count):
            if not now < ends[folder] < math.inf:
                changes[folder].clear()
            elif looks[folder]:
                continue
            counted[folder], looks[folder] = held[folder], looks[folder] + 1
        if not seen or seen[-1][2] != tuple(looks):
            seen.append((now / 1000, tuple(counted), tuple(looks)))
    return seen, failed


@st.composite
def stories(draw: st.DrawFn) -> tuple[list[Action], int]:
    """Actions at different moments, which also have no consequences at the same moment."""
    count = draw(st.integers(1, 2))
    waits = st.one_of(st.integers(0, 35), st.integers(0, 5), st.integers(40, 130))
    kinds = st.sampled_from(KINDS)
    drawn = draw(st.lists(st.tuples(waits, kinds, st.integers(0, count - 1)), max_size=60))
    now = 0
    actions: list[Action] = []
    for number, (wait, kind, folder) in enumerate(drawn, 1):
        now += wait
        actions.append((now * 1000 + number, kind, folder))
    return [action for action in actions if action[0] < HORIZON], count


@settings(max_examples=150)
@given(stories())
def test_counting_behaves_like_the_model(story: tuple[list[Action], int]) -> None:
    actions, count = story
    paths = (SPEC_ISSUES, BACKLOG)[-count:]
    clock = MockClock(autojump_threshold=0)
    folders = Folders()

    async def act() -> None:
        for at, kind, number in actions:
            await trio.sleep_until(at / 1000)
            folder = paths[number]
            more = (*folders.names[folder], str(at))
            match kind:
                case "change" if folder in folders.open:
                    folders.touch(*more, folder=folder)
                case "change" | "silent":
                    folders.put(*more, folder=folder)
                case "break":
                    folders.broken.add(folder)
                case "repair":
                    folders.broken.clear()

    async def main() -> None:
        with trio.move_on_at((HORIZON - 1) / 1000):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(act)
                try:
                    await folders.watch(*paths)
                except* BacklogUnreadable:
                    nursery.cancel_scope.cancel()

    trio.run(main, clock=clock)
    seen, failed = model(actions, count)
    assert [(round(at, 3), *rest) for at, *rest in folders.seen] == seen
    assert [(round(at, 3), attempt) for at, attempt in folders.failed] == failed
    assert folders.open == {}
