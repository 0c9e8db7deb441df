"""A watch that is killed at any of its steps: the next one loses at most that iteration, and does nothing twice."""

from __future__ import annotations

from pathlib import Path

import pytest
from trio.testing import MockClock

from cuggino.ci.ports import Triage, Work
from tests.unit.ci.world import Killed, World, comment, thread

FLAKE = Triage(verdict="flake", cause="a port was taken")


def scene(root: Path) -> World:
    """A thread whose answer is a push, one whose answer is why not, a real failure, a flake."""
    root.mkdir()
    world = World(root)
    world.checks(test="FAILURE", flaky="FAILURE")
    world.threads(thread("a", comment(1)), thread("b", comment(2)))
    world.works["b"] = [Work(summary="no")] * 9
    world.triages["flaky"] = [FLAKE]

    def run_checks() -> None:
        mended = "test" in world.mended
        world.checks(test="SUCCESS" if mended else "FAILURE", flaky="SUCCESS" if mended else "FAILURE")

    world.after_push = run_checks
    return world


async def test_every_step(tmp_path: Path, autojump_clock: MockClock) -> None:
    whole = scene(tmp_path / "whole")
    assert await whole.watch() == 0
    total = len(whole.steps)
    assert total > 30
    for step in range(1, total + 1):
        world = scene(tmp_path / str(step))
        world.dies_at = step
        with pytest.raises(Killed):
            await world.watch()
        where = world.steps[step - 1]
        before = world.state.iteration if world.file.path.exists() else 0
        world.dies_at = 10**9
        begun = len(world.polls)
        assert await world.watch() == 0, (step, where)
        assert sorted(world.mended) == ["a", "test"], (step, where, world.mended)
        assert sorted(number for number, _ in world.replies) == ["1", "2"], (step, where, world.replies)
        assert world.state.in_flight == (), (step, where)
        assert world.state.attempts == {"test": 1}, (step, where, world.state.attempts)
        assert world.state.iteration >= before
        assert len(world.polls) - begun <= len(whole.polls) + 4, (step, where)
