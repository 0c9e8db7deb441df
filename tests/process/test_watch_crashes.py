"""A watch that is killed repeatedly at any moment: nothing is lost, done twice, torn or left alive."""

from __future__ import annotations

import random
import signal
from collections import Counter
from pathlib import Path

import msgspec
import pytest
import trio

from cuggino.events import LogLine, PlanningStart, WatchItemCompleted, WatchProcessingItem, decode_log_line
from cuggino.loop.course import Step as CourseStep
from cuggino.loop.session import SessionState
from cuggino.watch.ledger import LedgerState
from tests.process.house import APPROVE, DONE, PLAN, PROGRESS, House, Step, script, turn

THINK: Step = {"do": "think", "seconds": 0.15}
STRAY: Step = {"do": "leave", "setsid": True, "doubleFork": True, "ignoreSignals": True}
PLAY = script(
    planner=[turn(STRAY, THINK, *PLAN, times=0)],
    implementer=[
        turn(THINK, *PROGRESS, times=0, when={"missing": "half"}),
        turn(STRAY, THINK, *DONE, times=0),
    ],
    reviewer=[turn(STRAY, THINK, *APPROVE, times=0)],
)
KILLS = 25
"""In each of the two projects, which are worked on at the same time."""


class Trial:
    """A project whose watch is killed. Each item has its own content."""

    def __init__(self, folder: Path, seed: int, **config: bool) -> None:
        self.house = House(folder, play=PLAY, **config)
        (self.house.root / "half").touch()
        self.random = random.Random(seed)
        self.items: dict[str, str] = {}
        self.planned: set[str] = set()
        self.archived_before: set[str] = set()
        self.last_log: Path | None = None

    async def run(self) -> None:
        for _ in range(KILLS):
            self.fill()
            await self.start_and_kill()
            self.examine()
        with trio.fail_after(60):
            finished = await self.house.watch_until_idle()
        assert finished.code == 0, finished.err
        self.examine()
        self.examine_end()

    def fill(self) -> None:
        """Put one or two items into the backlog before a watch starts."""
        while len(list(self.house.backlog.iterdir())) < self.random.randint(1, 2):
            name = f"{len(self.items):03}.md"
            self.items[name] = f"The item {name}."
            self.house.item(name, self.items[name])

    async def start_and_kill(self) -> None:
        """Kill the watch, sometimes with its keepers, so that the next start has to kill what they left."""
        async with self.house.watching() as running:
            if self.random.random() < 0.75:  # some are killed while they start
                await running.until_more()
            await trio.sleep(self.random.uniform(0.05, 1.2))
            if self.random.random() < 0.3:
                running.kill_keepers()
            running.send(signal.SIGKILL)
            await running.end()

    # ---- invariants

    def examine(self) -> None:
        """Check the invariants while nothing runs."""
        self.nothing_is_lost()
        self.nothing_is_torn()
        self.nothing_is_done_again()

    def nothing_is_lost(self) -> None:
        waiting = [(path.name, path.read_text()) for path in self.house.backlog.iterdir()]
        assert sorted([*waiting, *self.archived]) == sorted(self.items.items())

    def nothing_is_torn(self) -> None:
        if (state := self.house.state / "state.json").exists():
            msgspec.json.decode(state.read_bytes(), type=LedgerState)
        for path in self.sessions:
            msgspec.json.decode(path.read_bytes(), type=SessionState)

    def nothing_is_done_again(self) -> None:
        """No archived item is taken, and nothing is planned twice."""
        item = ""
        for line in self.new_log():
            if isinstance(line.event, WatchProcessingItem):
                item = line.event.filename
                assert item not in self.archived_before
            elif isinstance(line.event, PlanningStart):
                assert item not in self.planned
        self.archived_before = {name for name, _ in self.archived}
        states = [msgspec.json.decode(path.read_bytes(), type=SessionState) for path in self.sessions]
        self.planned = {state.backlog_file or "" for state in states if state.course.step is not CourseStep.PLAN}

    def examine_end(self) -> None:
        house = self.house
        assert sorted(self.archived) == sorted(self.items.items())
        assert house.wip == []
        completed = Counter(
            line.event.filename
            for log in (house.state / "logs").glob("*.jsonl")
            for line in decoded(log)
            if isinstance(line.event, WatchItemCompleted)
        )
        assert max(completed.values()) == 1
        assert house.left() == []

    @property
    def archived(self) -> list[tuple[str, str]]:
        return self.house.archived if (self.house.state / "archive").exists() else []

    @property
    def sessions(self) -> list[Path]:
        return [path for path in (self.house.state / "wip").glob("*.json") if not path.name.startswith(".")]

    def new_log(self) -> list[LogLine]:
        """What the last watch logged: nothing if it died before it began."""
        newest = max((self.house.state / "logs").glob("*.jsonl"), default=None)
        if newest in (None, self.last_log):
            return []
        self.last_log = newest
        return decoded(newest)


def decoded(log: Path) -> list[LogLine]:
    """Decode the complete lines; the last one may be torn."""
    return [decode_log_line(line) for line in log.read_bytes().split(b"\n")[:-1]]


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="finds keepers in Linux's /proc")
async def test_fifty_kills_lose_nothing(tmp_path: Path) -> None:
    trials = [Trial(make(tmp_path / "a"), seed=1), Trial(make(tmp_path / "b"), seed=2, commit=True, audit=True)]
    with trio.fail_after(110):
        async with trio.open_nursery() as nursery:
            for trial in trials:
                nursery.start_soon(trial.run)


def make(folder: Path) -> Path:
    folder.mkdir()
    return folder


async def test_an_agent_that_deletes_the_sessions_files_fails_no_item(tmp_path: Path) -> None:
    clean: Step = {"do": "run", "command": "rm -rf .cuggino/wip"}
    house = House(tmp_path, play=script(implementer=[[clean, *DONE]]), commit=True)
    house.item("a.md")
    house.item("b.md")
    with trio.fail_after(60):
        done = await house.watch_until_idle()
    assert (done.code, [name for name, _ in house.archived]) == (0, ["a.md", "b.md"]), done.err
