"""`cuggino spawn list`, `show` and `clean`, and arguments that are not valid."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from tests.process.house import AT_GATE, script, turn
from tests.process.spawn_house import HELD, WORK, SpawnHouse, tasks

NOTHING = ({"do": "say", "text": "There is nothing to do."},)


async def test_list_and_show(tmp_path: Path) -> None:
    house = SpawnHouse(tmp_path, tasks(WORK, NOTHING, ({"do": "fail", "kind": "execution"},)))
    empty = await house.run("spawn", "list")
    assert (empty.code, empty.out) == (0, "")
    assert "There are no spawns" in empty.err
    for prompt, code in (("First\nwith more", 0), ("Second", 0), ("Third", 1)):
        await house.spawn(*house.given(), prompt=prompt, code=code)
    first, second, third = (path.name for path in house.spawns)
    listed = await house.run("spawn", "list")
    (folder,) = house.sandboxes
    assert listed.out.splitlines() == [
        *(f"{first}  First", "    done", f"    branch spawn/{first}"),
        *(f"{second}  Second", "    done"),
        *(
            f"{third}  Third",
            "    failed: resume it with `cuggino spawn retry ID`",
            f"    branch spawn/{third}",
            f"    {folder}",
        ),
    ]
    as_json = [json.loads(line) for line in (await house.run("spawn", "list", "--json")).out.splitlines()]
    entry = {"id": first, "state": "done", "title": "First", "branch": f"spawn/{first}", "folder": None}
    assert as_json[0] == entry
    shown = await house.run("spawn", "show", second[:-1])
    assert (shown.code, shown.out) == (0, (house.spawns[1] / "report.md").read_text())
    for command, prefix in (("show", "nowhere"), ("clean", "nowhere"), ("retry", first[:4]), ("show", "")):
        refused = await house.run("spawn", command, prefix)
        assert (refused.code, refused.out) == (2, ""), command
        assert f"spawn matches {prefix!r}." in refused.err
        assert ("cuggino spawn list" in refused.err) == (prefix != first[:4])
        assert (first in refused.err) == (prefix == first[:4])


async def test_clean_removes_what_is_integrated_and_keeps_the_rest(tmp_path: Path) -> None:
    unfinished = ({"do": "write", "path": "b.txt", "text": "b\n"}, {"do": "fail", "kind": "execution"})
    house = SpawnHouse(tmp_path, tasks(WORK, unfinished))
    await house.spawn(*house.given(writablePaths=["nothing"]))
    await house.spawn(*house.given(), code=1)
    first, second = (path.name for path in house.spawns)
    assert len(house.sandboxes) == 2
    refused = await house.run("spawn", "clean")
    assert refused.code == 1
    assert f"{first} has changes that are not committed: work.txt" in refused.out
    assert f"The work of the sandbox {second} is neither pushed nor merged: spawn/{second}." in refused.out
    assert "--force" in refused.out
    assert len(house.sandboxes) == 2
    house.git("merge", "-q", f"spawn/{second}")
    cleaned = await house.run("spawn", "clean", second)
    assert (cleaned.code, cleaned.out) == (0, f"Removed {second}  Do the work.\n")
    assert [path.name for path in house.sandboxes] == [first]
    assert house.branches == ["main", f"spawn/{first}"]
    forced = await house.run("spawn", "clean", first[:-2], "--force")
    assert (forced.code, forced.out) == (0, f"Removed {first}  Do the work.\n")
    assert house.sandboxes == []
    assert house.branches == ["main"]
    assert (await house.run("spawn", "clean")).out == "Nothing to remove.\n"
    assert len(house.spawns) == 2, "what was done is still listed"
    again = await house.run("spawn", "retry", second)
    assert again.code == 1
    assert "The sandbox does not exist any more" in again.out
    house.git("fsck", "--strict")


async def test_a_kept_branch_is_removed_once_it_is_merged(tmp_path: Path) -> None:
    house = SpawnHouse(tmp_path)
    await house.spawn(*house.given())
    assert (await house.run("spawn", "clean")).code == 1
    house.git("merge", "-q", house.branch)
    assert (await house.run("spawn", "clean")).code == 0
    assert house.branches == ["main"]


async def test_a_running_spawn_is_neither_removed_nor_resumed(tmp_path: Path) -> None:
    house = SpawnHouse(tmp_path, tasks((HELD, *WORK)))
    async with house.spawning(*house.given()) as running:
        await house.held()
        assert "    running\n" in (await house.run("spawn", "list")).out
        cleaned = await house.run("spawn", "clean", "--force")
        assert cleaned.code == 1
        assert "is in use" in cleaned.out
        again = await house.retry(code=1)
        assert f"process {running.process.pid}" in again.err
        shown = await house.run("spawn", "show", house.spawned.name)
        assert shown.code == 2
        assert "it is running" in shown.err
        house.release()
        code, _ = await running.end()
    assert code == 0


async def test_the_sandbox_of_a_live_watch_is_not_removed(tmp_path: Path) -> None:
    gate = {**AT_GATE, "command": str(AT_GATE["command"]).replace("gate", "$HOME/held")}
    house = SpawnHouse(tmp_path, script(planner=[turn(gate, times=1)]))
    house.item("1.md")
    async with house.watching("--jobs", "2") as watch:
        await house.held()
        (folder,) = house.sandboxes
        listed = await house.run("spawn", "list")
        assert f"{folder.name}  1.md\n    running\n" in listed.out
        for force in ([], ["--force"]):
            cleaned = await house.run("spawn", "clean", *force)
            assert cleaned.code == 1
            assert "is in use" in cleaned.out
        assert folder.is_dir()
        watch.send(signal.SIGTERM)
        await watch.end()
    assert "running" not in (await house.run("spawn", "list")).out


# ---- arguments --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["  \n"], ["The task is empty", "cuggino spawn"]),
        (["Do it.", "--idle-timeout", "0"], ["--idle-timeout", "expected a number > 0"]),
        (["Do it.", "--total-timeout", "-1"], ["--total-timeout", "expected a number > 0"]),
        (["Do it.", "--idle-timeout", "nan"], ["--idle-timeout", "expected a number > 0"]),
        (["Do it.", "--max-permission-escalations", "-1"], ["--max-permission-escalations", "integer ≥ 0, got -1"]),
        (["Do it.", "--recovery", "interactive"], ["needs a terminal", "another strategy"]),
        (["Do it.", "--recovery", "brave"], ["brave", "moderate", "aggressive", "interactive"]),
        (["Do it.", "--integrate", "push"], ["push", "pr", "merge", "branch"]),
        (["Do it.", "--agent", "nobody"], ["nobody", "claude", "scripted"]),
        (["Do it.", "--manifest", "."], ["manifest", "directory"]),
    ],
)
async def test_invalid_arguments_are_refused(tmp_path: Path, arguments: list[str], words: list[str]) -> None:
    house = SpawnHouse(tmp_path)
    finished = await house.run("spawn", *arguments)
    assert finished.code == 2
    assert [word for word in words if word not in finished.err] == []
    assert not (house.state / "spawns").exists()


@pytest.mark.parametrize("evaluated", [True, False])
async def test_a_place_without_git_or_commits_is_refused_before_an_agent_is_asked(
    tmp_path: Path, evaluated: bool
) -> None:
    house = SpawnHouse(tmp_path)
    manifest = () if evaluated else house.given()
    nowhere = await house.spawn(*manifest, "--base", "nowhere", code=1)
    assert "'nowhere' does not name a commit.\nGive a branch, a tag or a commit's hash." in nowhere.out
    git = house.root / ".git"
    git.rename(tmp_path / "git")
    outside = await house.spawn(*manifest, code=1)
    assert "is not in a git repository" in outside.out
    assert "`git init`" in outside.out
    house.git("init", "-q")
    unborn = await house.spawn(*manifest, code=1)
    assert "The repository has no commit yet.\nMake one" in unborn.out
    assert not house.script.with_name("script.json.played").exists()
    assert house.sandboxes == []
