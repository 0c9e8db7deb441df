"""`cuggino watch --jobs N` as a process: items are shell scripts that scripted agents run in their sandboxes."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import trio

from cuggino.events import (
    ConflictsFound,
    SandboxCreated,
    WatchEnded,
    WatchItemBlocked,
    WatchItemCompleted,
    WatchItemFailed,
    WatchItemNotRemoved,
)
from tests.process.house import Step, quick_watch, turn, until_exists
from tests.process.spawn_house import SpawnHouse

RUN: Step = {"do": "run", "command": "sh .cuggino/backlog/*.md"}
RUN_OWN: Step = {"do": "run", "command": "sh .cuggino/backlog/$(grep -rhoE '[0-9]\\.md' .cuggino/wip | head -n 1)"}
"""Runs the session's item, where a sandbox has others too."""
DONE: Step = {"do": "marker", "name": "DONE", "text": "Do it"}
THINK: Step = {"do": "think", "seconds": 0.2}
RESOLVE = (
    r"for file in $(grep -rlE '^<<<<<<<' --include=*.txt .); do "
    r"sed -i -E '/^(<<<<<<<|=======|>>>>>>>)/d' $file; done"
)

PLAY: dict[str, Any] = {
    "planner": [
        turn(
            {"do": "marker", "name": "SPEC_ISSUE", "text": "Which colour?"}, when={"contains": "-unclear.md"}, times=0
        ),
        turn(
            {"do": "write", "path": "{writable}", "text": "# Plan\n"},
            {"do": "marker", "name": "PLAN_COMPLETE"},
            times=0,
        ),
    ],
    "implementer": [turn(THINK, RUN, DONE, times=0)],
    "reviewer": [turn({"do": "marker", "name": "APPROVED"}, times=0)],
    "worker": [turn({"do": "run", "command": RESOLVE}, times=0)],
}
CHECK = "! grep -rE '^(<<<<<<<|=======|>>>>>>>)' --include=*.txt . && test ! -e broken"


def names(count: int) -> list[str]:
    return [f"{number}.md" for number in range(count)]


class JobsHouse(SpawnHouse):
    def __init__(self, folder: Path, *, ignored: bool = True, **config: Any) -> None:
        """With `ignored` unset, git sees the state folder as in any project that has only cuggino's own .gitignore."""
        super().__init__(folder, play=PLAY, checkCommand=CHECK, **config)
        if ignored:
            (self.root / ".gitignore").write_text(".cuggino\n")
        self.git("add", ".")
        self.git("commit", "-q", "--amend", "--no-edit")

    def commit_file(self, name: str, text: str) -> None:
        (self.root / name).write_text(text)
        self.commit(f"{name} by hand")

    async def listed(self) -> dict[str, dict[str, Any]]:
        """Return the entries of `cuggino spawn list --json`, by title."""
        finished = await self.run("spawn", "list", "--json")
        assert finished.code == 0, finished.out
        return {entry["title"]: entry for entry in map(json.loads, finished.out.splitlines())}

    def assert_clean(self) -> None:
        """Assert that the tree has no changes and the repository no damage."""
        assert self.git("status", "--porcelain") == ""
        self.git("fsck", "--strict")


async def test_forty_items_four_at_a_time(tmp_path: Path) -> None:
    house = JobsHouse(tmp_path)
    for number in range(40):
        text = f"echo {number} > file-{number:02}.txt\n"
        if number in (7, 8):  # both change the same line at the same time
            other = 15 - number
            text += f"touch $HOME/at-{number}; while ! test -e $HOME/at-{other}; do sleep 0.05; done\n"
            text += f"sed -i s/second/second-{number}/ list.txt\n"
        house.item(f"{number:02}.md", text)
    with trio.fail_after(240):
        finished = await house.watch_until_idle("--jobs", "4")
    assert finished.code == 0, finished.out
    assert sorted(name for name, _ in house.archived) == [f"{number:02}.md" for number in range(40)]
    assert Counter(event.filename for event in finished.reported if isinstance(event, WatchItemCompleted)) == Counter(
        f"{number:02}.md" for number in range(40)
    )
    house.assert_clean()
    for number in range(40):
        assert (house.root / f"file-{number:02}.txt").read_text() == f"{number}\n"
    assert {"second-7", "second-8"} <= set((house.root / "list.txt").read_text().split())
    assert [event.paths for event in finished.events if isinstance(event, ConflictsFound)] == [("list.txt",)]
    first_parents = house.git("log", "--first-parent", "--format=%s").splitlines()
    assert 1 <= sum(subject.startswith("Merge ") for subject in first_parents) <= 40
    assert len(house.git("log", "--no-merges", "--format=%s").splitlines()) == 42
    assert house.sandboxes == []
    assert len(house.git("branch").splitlines()) == 1
    assert {entry["state"] for entry in (await house.listed()).values()} == {"done, removed"}
    assert house.left() == []


@pytest.mark.parametrize("tracked", [False, True], ids=["untracked", "tracked"])
async def test_where_git_sees_the_backlog_no_sandbox_or_branch_stays(tmp_path: Path, tracked: bool) -> None:
    house = JobsHouse(tmp_path, ignored=False, spawn={"include": ["*.cache"]})
    house.play({**PLAY, "implementer": [turn(THINK, RUN_OWN, DONE, times=0)]})
    (house.root / ".gitignore").write_text("*.cache\n")
    (house.root / "my.cache").write_text("lent\n")
    assert (await house.run("watch", "--until-idle")).code == 0  # makes .cuggino and its .gitignore
    for number in range(3):
        staged = "echo changed >> my.cache\ngit add --all --force .\n"
        house.item(f"{number}.md", f"echo {number} > {number}.txt\n{staged}echo more >> {number}.txt\n")
    house.git("add", ".gitignore", *([".cuggino"] if tracked else []))
    house.git("commit", "-qm", "items")
    with trio.fail_after(120):
        finished = await house.watch_until_idle("--jobs", "2")
    assert finished.code == 0, finished.out
    assert sorted(name for name, _ in house.archived) == names(3)
    assert [(house.root / f"{number}.txt").read_text() for number in range(3)] == [f"{n}\nmore\n" for n in range(3)]
    assert "not integrated" not in finished.out
    assert house.sandboxes == []
    assert house.branches == ["main"]
    merged = house.git("log", "--format=", "--name-only", "-m", "HEAD~2..").split()
    assert not [path for path in merged if path.startswith(".cuggino/") or path == "my.cache"]


async def test_status_shows_each_item_that_is_worked_on(tmp_path: Path) -> None:
    house = JobsHouse(tmp_path)
    for name in ("1", "2", "3"):
        wait = "while ! test -e $HOME/go; do sleep 0.05; done"
        house.item(f"{name}.md", f"# Item {name}\ntouch $HOME/at-{name}; {wait}\n")
    with trio.fail_after(60):
        async with house.watching("--jobs", "2") as watch:
            while len(list(house.home.glob("at-*"))) < 2:  # noqa: ASYNC110 - files of other processes
                await trio.sleep(0.05)
            working = json.loads((await house.run("status", "--json")).out)
            page = (await house.run("status")).out.splitlines()
            watch.send(signal.SIGINT)
            await watch.until("WatchStopping")
            watch.send(signal.SIGINT)
            await watch.end()
        left = json.loads((await house.run("status", "--json")).out)
    jobs = {job["backlogFile"]: job for job in working["work"]["jobs"]}
    assert sorted(jobs) == ["1.md", "2.md"]
    assert {job["phase"] for job in jobs.values()} == {"implementing"}
    states = [(item["name"], item["state"]) for item in working["backlog"]]
    assert states == [("1.md", "working"), ("2.md", "working"), ("3.md", "ready")]
    lines = sorted(line for line in page if line.startswith("Working on"))
    assert lines == ["Working on  1.md: Item 1", "Working on  2.md: Item 2"]
    assert [item["session"] for item in left["backlog"]] == [jobs["1.md"]["session"], jobs["2.md"]["session"], None]
    assert left["sessions"] == [], "they are in sandboxes, where only a watch resumes them"
    assert house.left() == []


async def test_a_spec_issue_lets_running_items_finish(tmp_path: Path) -> None:
    house = JobsHouse(tmp_path)
    for name in ("1", "2-unclear", "3", "4"):
        house.item(f"{name}.md", f"echo {name} > {name}.txt\n")
    with trio.fail_after(60):
        finished = await house.watch_until_idle("--jobs", "2")
    assert finished.code == 4
    issue = next((house.state / "spec-issues").iterdir())
    assert issue.read_text() == "Which colour?\n"
    done = {name for name, _ in house.archived}
    assert "1.md" in done
    assert "4.md" not in done
    house.assert_clean()
    issue.unlink()
    house.item("2-unclear.md", "").unlink()
    house.item("2-clear.md", "echo 2 > 2.txt\n")
    with trio.fail_after(60):
        finished = await house.watch_until_idle("--jobs", "2")
    assert finished.code == 0, finished.out
    assert {name for name, _ in house.archived} == {"1.md", "2-clear.md", "3.md", "4.md"}
    house.assert_clean()
    listed = await house.listed()
    assert listed["2-unclear.md"]["state"] == "interrupted"
    cleaned = await house.run("spawn", "clean")
    assert cleaned.code == 0, cleaned.out
    assert house.sandboxes == []


async def test_an_item_that_cannot_be_merged_is_blocked_and_its_work_kept(tmp_path: Path) -> None:
    house = JobsHouse(tmp_path, spawn={"repairAttempts": 1})
    house.play({**PLAY, "worker": [turn({"do": "say", "text": "I cannot."}, times=0)]})
    house.item("1.md", "sed -i s/second/one/ list.txt\n")
    house.item("2.md", "sed -i s/second/two/ list.txt; sleep 1\n")
    with trio.fail_after(60):
        finished = await house.watch_until_idle("--jobs", "2")
    assert finished.code == 1
    assert "list.txt" in next(event.reason for event in finished.reported if isinstance(event, WatchItemBlocked))
    house.assert_clean()
    assert (house.root / "list.txt").read_text() == "first\none\nthird\n"
    (sandbox,) = house.sandboxes
    assert (sandbox / "list.txt").read_text() == "first\ntwo\nthird\n"
    kept = await house.run("spawn", "clean")
    assert kept.code == 1
    assert "neither pushed nor merged" in kept.out
    assert house.sandboxes == [sandbox]
    assert (await house.run("spawn", "clean", "--force")).code == 0
    assert house.sandboxes == []


async def test_a_validation_is_alone_in_the_persons_tree(tmp_path: Path) -> None:
    """An item is approved while the validation runs; it is merged afterwards, and validated too."""
    approved = """until grep -qs '"worked"' .cuggino/spawns/*/sandbox.json; do sleep 0.05; done"""
    validate = (
        "test -e $HOME/validating && touch $HOME/again && exit; "
        f"before=$(git rev-parse HEAD); touch $HOME/validating; {approved}; sleep 1; "
        "test $before = $(git rev-parse HEAD) && test -z $(git status --porcelain)"
    )
    house = JobsHouse(tmp_path, validateCommand=validate)
    house.item("1.md", "echo 1 > 1.txt\n")
    house.item("2.md", "echo 2 > 2.txt; until test -e $HOME/validating; do sleep 0.05; done\n")
    with trio.fail_after(120):
        finished = await house.watch_until_idle("--jobs", "2", "--validate-every", "1")
    assert finished.code == 0, finished.out
    assert sorted(name for name, _ in house.archived) == ["1.md", "2.md"]
    assert (house.home / "again").exists()
    house.assert_clean()


@pytest.mark.parametrize("ends", ["approved", "conflict", "unclear"])
async def test_an_item_that_is_removed_while_it_is_worked_on_ends_as_gone(tmp_path: Path, ends: str) -> None:
    house = JobsHouse(tmp_path, spawn={"repairAttempts": 0})
    wait = "touch $HOME/at-{0}; while ! test -e $HOME/go; do sleep 0.05; done\n"
    gone = "1-unclear.md" if ends == "unclear" else "1.md"
    item = house.item(gone, "sed -i s/second/one/ list.txt\n" + wait.format(1))
    house.item("2.md", "echo 2 > 2.txt\n" + wait.format(2))
    play = PLAY
    if ends == "unclear":
        issue = [{"do": "run", "command": wait.format(1)}, {"do": "marker", "name": "SPEC_ISSUE", "text": "Which?"}]
        play = {**PLAY, "planner": [turn(*issue, when={"contains": "-unclear.md"}), PLAY["planner"][1]]}
    house.play(play)
    with trio.fail_after(60):
        async with house.watching("--jobs", "2", "--until-idle") as watch:
            for number in (1, 2):
                await until_exists(house.home / f"at-{number}")
            item.unlink()
            if ends == "conflict":
                house.commit_file("list.txt", "first\nmine\nthird\n")
            (house.home / "go").touch()
            code, _ = await watch.end()
    shown = "\n".join(map(str, watch.events))
    assert code == (4 if ends == "unclear" else 0), shown
    assert WatchItemCompleted(filename="2.md") in watch.events
    (kept,) = (event for event in watch.reported if isinstance(event, WatchItemNotRemoved))
    assert (kept.filename, kept.reason) == (gone, "spec-issue" if ends == "unclear" else "gone")
    assert not [event for event in watch.events if isinstance(event, WatchItemFailed | WatchItemBlocked)]
    assert [name for name, _ in house.archived] == ["2.md"]
    house.assert_clean()
    if ends == "approved":
        assert (house.root / "list.txt").read_text() == "first\none\nthird\n"
        assert (house.sandboxes, house.branches) == ([], ["main"])
    elif ends == "conflict":
        (branch,) = set(house.branches) - {"main"}
        assert house.shown(f"{branch}:list.txt") == "first\none\nthird\n"
        assert f"Its work is kept on the branch {branch}." in shown


async def test_a_merge_waits_until_the_persons_changes_are_out_of_the_way(tmp_path: Path) -> None:
    house = JobsHouse(tmp_path)
    house.item("1.md", "sed -i s/second/one/ list.txt\n")
    (house.root / "list.txt").write_text("mine\n")
    with trio.fail_after(60):
        async with house.watching("--jobs", "2", merge_retry=0.2) as watch:
            while not any("1.md waits" in getattr(event, "text", "") for event in watch.events):
                await watch.until_more()
            assert (house.root / "list.txt").read_text() == "mine\n"
            house.git("checkout", "--", "list.txt")
            await watch.until("WatchItemCompleted")
    assert (house.root / "list.txt").read_text() == "first\none\nthird\n"
    house.assert_clean()


@pytest.mark.parametrize("presses", [1, 2])
async def test_after_ctrl_c_the_next_watch_finishes_the_items(tmp_path: Path, presses: int) -> None:
    house = JobsHouse(tmp_path)
    for number in range(6):
        house.item(f"{number}.md", f"echo {number} > {number}.txt\n")
    with trio.fail_after(120):
        async with house.watching("--jobs", "3") as watch:
            await watch.until("WatchItemCompleted")
            for escalate in range(presses):
                watch.send(signal.SIGINT)
                await watch.until("WatchStopping", escalate + 1)
            code, _ = await watch.end()
        assert code == -signal.SIGINT
        assert house.left() == []
        assert isinstance(watch.events[-1], WatchEnded)
        completed = [event.filename for event in watch.events if isinstance(event, WatchItemCompleted)]
        assert [name for name, _ in house.archived] == completed
        if presses == 1:
            assert house.sandboxes == []
        finished = await house.watch_until_idle("--jobs", "3")
    assert finished.code == 0, finished.err + finished.out
    assert sorted(name for name, _ in house.archived) == names(6)
    assert house.sandboxes == []
    house.assert_clean()


@pytest.mark.parametrize("command", ["worktree add", "commit-tree", "update-ref", "worktree remove"])
async def test_the_terminals_ctrl_c_does_not_reach_git(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    """A terminal signals the whole foreground group; only the watch may react."""
    house = JobsHouse(tmp_path)
    house.item("1.md", "echo 1 > 1.txt\n")
    slow = tmp_path / "bin" / "git"
    slow.parent.mkdir()
    slow.write_text(
        "#!/bin/sh\n"
        f'case " $* " in *" {command} "*) test -e {tmp_path}/begun || {{ touch {tmp_path}/begun; sleep 1; }};; esac\n'
        f'exec {shutil.which("git")} "$@"\n'
    )
    slow.chmod(0o755)
    monkeypatch.setenv("PATH", f"{slow.parent}:{os.environ['PATH']}")
    with trio.fail_after(60):
        async with house.started("watch", "--jobs", "2", under=("setsid",), program=quick_watch()) as watch:
            await until_exists(tmp_path / "begun")
            os.killpg(watch.process.pid, signal.SIGINT)
            code, _ = await watch.end()
    assert code == -signal.SIGINT
    assert watch.events[-1] == WatchEnded(reason="interrupted", completed=1, exit_code=130)
    assert not [event for event in watch.events if isinstance(event, WatchItemFailed)]
    assert (house.root / "1.txt").read_text() == "1\n"
    assert house.sandboxes == []
    assert house.left() == []
    house.assert_clean()


async def test_after_repeated_kills_nothing_is_lost_or_done_twice(tmp_path: Path) -> None:
    """SIGKILL at random moments; the next watch resumes in the sandboxes that exist."""
    house = JobsHouse(tmp_path)
    dice = random.Random(5)
    for number in range(8):
        house.item(f"{number}.md", f"echo {number} > file-{number}.txt\n")
    made = 0
    with trio.fail_after(240):
        for _ in range(8):
            async with house.watching("--jobs", "3") as watch:
                with trio.move_on_after(0.5 + dice.random() * 2.5):
                    await watch.end()
                watch.send(signal.SIGKILL)
                await watch.process.wait()
            made += sum(isinstance(event, SandboxCreated) for event in watch.events)
            house.git("fsck", "--strict")
        finished = await house.watch_until_idle("--jobs", "3")
    assert finished.code == 0, finished.out
    made += sum(isinstance(event, SandboxCreated) for event in finished.events)
    assert sorted(name for name, _ in house.archived) == names(8)
    assert [(house.root / f"file-{number}.txt").read_text() for number in range(8)] == [f"{n}\n" for n in range(8)]
    house.assert_clean()
    listed = await house.run("spawn", "list", "--json")
    assert listed.out.count('"state":"done, removed"') >= 8
    assert (await house.run("spawn", "clean")).code == 0
    assert house.sandboxes == []
    assert len(house.git("branch").splitlines()) == 1
    assert house.left() == []
