"""cuggino from Python: scripts, asyncio and Trio programs, each as a program of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from cuggino import api
from cuggino.backlog import read_item
from cuggino.errors import ConfigError, CugginoError, LoopError, UsageError
from cuggino.events import LoopApproved
from cuggino.loop.session import Session
from cuggino.project import Project
from tests.process.house import House, script

HANG = [{"do": "say", "text": "hm"}, {"do": "hang"}]


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[House]:
    house = House(tmp_path)
    for name, value in house.environment.items():
        monkeypatch.setenv(name, value)
    yield house
    others = [words for words in house.left() if "scripted" in words]
    assert others == []


def test_a_script_gets_the_events_and_the_outcome(house: House) -> None:
    with api.run("the work", root=house.root) as loop:
        names = [type(event).__name__ for event in loop]
    assert names[:2] == ["LoopStart", "IterationStart"]
    assert names[-1] == "LoopApproved"
    assert loop.outcome == LoopApproved(iteration=1)
    assert house.wip == []


def test_leaving_the_block_early_interrupts_the_loop_and_keeps_the_session(house: House) -> None:
    house.play(script(implementer=[HANG]))
    with api.run("the work", root=house.root) as loop:
        for event in loop:
            if type(event).__name__ == "AgentMessage":
                break
    with pytest.raises(CugginoError, match="has not ended yet"):
        _ = loop.outcome
    with api.run(root=house.root, resume=True) as loop:
        names = [type(event).__name__ for event in loop]
    assert "PlanningStart" not in names
    assert names[-1] == "LoopApproved"


def test_a_backlog_item_is_archived_when_its_session_is_resumed(house: House) -> None:
    project = Project.find(house.root)
    project.prepare()
    (project.backlog / "a.md").write_text("do it")
    item = read_item(project, "a.md")
    assert item is not None
    Session.create(project, "do it", backlog_file=item.name, backlog_hash=item.digest)
    with api.run(root=house.root, resume=True) as loop:
        assert type(list(loop)[-1]).__name__ == "LoopApproved"
    assert list(project.backlog.iterdir()) == []
    assert [path.read_text() for path in project.archive.iterdir()] == ["do it"]


def test_an_error_in_the_scripts_own_block_ends_the_loop_and_comes_out(house: House) -> None:
    house.play(script(planner=[HANG]))
    loop = api.run("the work", root=house.root)
    with pytest.raises(ZeroDivisionError), loop:
        _ = 1 // (len(type(next(iter(loop))).__name__) - len("LoopStart"))


def test_a_failure_is_the_last_event_and_then_raised(house: House) -> None:
    house.play(script(planner=[[{"do": "fail", "kind": "no-key"}]]))
    names: list[str] = []
    loop = api.run("the work", root=house.root)
    with pytest.raises(LoopError, match="/login"), loop:
        names.extend(type(event).__name__ for event in loop)
    assert names[-1] == "LoopFailed"


def test_a_broken_configuration_is_raised_too(house: House) -> None:
    (house.root / ".cuggino.json").write_text("[]")
    with pytest.raises(ConfigError), api.run("the work", root=house.root) as loop:
        list(loop)


@pytest.mark.parametrize("arguments", [{}, {"focus": "x", "resume": True}])
def test_either_a_focus_or_a_session_is_given(arguments: dict[str, bool]) -> None:
    with pytest.raises(UsageError):
        api.run(**arguments)  # type: ignore[arg-type]


async def _names(house: House) -> list[str]:
    async with api.run("the work", root=house.root) as loop:
        return [type(event).__name__ async for event in loop]


def test_an_asyncio_program_iterates_the_events(house: House) -> None:
    assert asyncio.run(_names(house))[-1] == "LoopApproved"


def test_a_trio_program_iterates_the_events(house: House) -> None:
    assert trio.run(_names, house)[-1] == "LoopApproved"


def test_a_cancelled_asyncio_task_interrupts_the_loop(house: House) -> None:
    house.play(script(planner=[HANG]))

    async def main() -> None:
        task = asyncio.create_task(_names(house))
        state = house.state / "wip"
        while not list(state.glob("*.out")):  # noqa: ASYNC110 - files of the loop's thread
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert any(name.endswith(".json") for name in house.wip)
