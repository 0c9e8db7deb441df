"""`cuggino spawn` as a process: a task becomes a branch and a report, and the person's tree does not change."""

from __future__ import annotations

import json
import re
import stat
from pathlib import Path
from typing import Any

import pytest
import trio

from cuggino.events import ConflictsFound, ManifestReady, SandboxCreated, SpawnCompleted, SystemMessage
from tests.process.house import turn
from tests.process.spawn_house import HELD, WORK, SpawnHouse, answer, tasks

CHANGE = ({"do": "run", "command": "sed -i s/second/agent/ list.txt"}, {"do": "say", "text": "Changed."})


async def test_a_whole_spawn(tmp_path: Path) -> None:
    house = SpawnHouse(tmp_path)
    before = house.snapshot()
    finished = await house.spawn("--integrate", "branch", prompt="Do the work.\nAnd do it well.")
    assert finished.err == ""
    name = house.spawned.name
    report = (house.spawned / "report.md").read_text()
    assert re.fullmatch(
        rf"""## Spawn Complete: Do the work\. \(spawn-id: {name}\)

\*\*Status:\*\* Success \(\d+s\)
\*\*Branch:\*\* spawn/{name}

### Changes
- `work\.txt` \(\+1, -0\) - new

### Summary
It is done: `work\.txt` says so\.

### Cost
\$0\.00, tokens: 0 in, 0 out

### Logs
Debug logs: `\.cuggino/spawns/{name}/`
""",
        report,
    )
    assert finished.out.endswith(f"\n\n{report}")
    assert [it for it in house.names if it not in ("SystemMessage", "UsageReport")] == [
        *("AgentMessage", "ManifestReady", "SandboxCreated", "LLMStarted"),
        *("AgentMessage", "ToolCall", "ToolResult", "AgentMessage"),
        *("LLMCompleted", "SpawnCompleted"),
    ]
    assert {line.session for line in house.log} == {name}
    assert [line.event for line in house.logged()] == [line.event for line in house.log]
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in house.spawned.iterdir()}
    names = ("events.jsonl", "lock", "manifest.json", "report.md", "request.md", "sandbox.json", "spawn.json")
    assert modes == dict.fromkeys(names, 0o600)
    assert stat.S_IMODE(house.spawned.stat().st_mode) == 0o700
    assert house.snapshot() == before
    assert house.branches == ["main", house.branch]
    assert house.shown(f"{house.branch}:work.txt") == "done\n"
    assert house.git("log", "--format=%an|%s", "main..", house.branch) == "tester|Do the work.\n"
    assert house.sandboxes == []
    assert house.left() == []


async def test_json_prints_only_the_events(tmp_path: Path) -> None:
    house = SpawnHouse(tmp_path)
    finished = await house.spawn("--json", *house.given())
    assert finished.events == [line.event for line in house.log]
    assert isinstance(finished.events[-1], SpawnCompleted)


# ---- the person's tree ------------------------------------------------------------------------


def _dirty(house: SpawnHouse) -> None:
    (house.root / "list.txt").write_text("stashed\n")
    house.git("stash")
    (house.root / "list.txt").write_text("staged\n")
    house.git("add", "list.txt")
    (house.root / "list.txt").write_text("changed\n")
    (house.root / "new.txt").write_text("new\n")
    (house.root / ".specs" / "app.md").write_text("# A newer spec\n")


def _detached(house: SpawnHouse) -> None:
    house.git("checkout", "-q", "--detach", "HEAD~1")


def _subfolder(house: SpawnHouse) -> None:
    folder = house.root / "part"
    (folder / ".specs").mkdir(parents=True)
    (folder / ".cuggino.json").write_text('{"agent": "scripted"}')
    house.commit("a part")
    house.root = folder


@pytest.mark.parametrize("arrange", [_dirty, _detached, _subfolder])
async def test_the_persons_tree_does_not_change(tmp_path: Path, arrange: Any) -> None:
    house = SpawnHouse(tmp_path)
    arrange(house)
    commit = {"do": "run", "command": "git add . && git commit -qm mine"}
    house.play(tasks(({"do": "read", "path": ".specs/app.md"}, *WORK, commit)))
    before = house.snapshot()
    finished = await house.spawn(*house.given(), "--integrate", "branch")
    assert house.snapshot() == before
    assert "work.txt" in house.git("diff", "--name-only", f"HEAD...{house.branch}")
    warnings = [it.event.text for it in house.log if isinstance(it.event, SystemMessage) and "sandbox" in it.event.text]
    if arrange is _dirty:
        assert warnings == ["The sandbox starts from a commit, without your uncommitted changes: list.txt, new.txt."]
        assert "A newer spec" in finished.out
    else:
        assert warnings == []


async def test_an_agent_that_changes_nothing_leaves_no_branch(tmp_path: Path) -> None:
    house = SpawnHouse(tmp_path, tasks(({"do": "say", "text": "All is well."},)))
    finished = await house.spawn(*house.given())
    assert house.report["Summary"] == "All is well.\n\nNothing was changed."
    assert "**Branch:**" not in finished.out
    assert house.branches == ["main"]
    assert house.sandboxes == []


# ---- merge ------------------------------------------------------------------------------------


async def test_a_merge_fast_forwards_the_persons_branch_and_tree(tmp_path: Path) -> None:
    house = SpawnHouse(tmp_path)
    (house.root / "own.txt").write_text("the person's\n")
    finished = await house.spawn(*house.given(), "--integrate", "merge")
    assert (house.root / "work.txt").read_text() == "done\n"
    assert house.git("status", "--porcelain").splitlines() == ["?? own.txt"]
    assert house.git("log", "--format=%s").splitlines() == ["Do the work.", "a list", "start"]
    assert house.branches == ["main"]
    assert house.sandboxes == []
    assert "**Branch:**" not in finished.out


ALL = "first\nsecond\nthird\n"
CONFLICTS: dict[str, tuple[tuple[Any, ...], str, str, str]] = {
    # what the agent does, then the person's list.txt, the merged one, and what the report says
    "small": (
        ({"do": "append", "path": "list.txt", "text": "the agent's\n"},),
        f"{ALL}the person's\n",
        f"{ALL}the person's\nthe agent's\n",
        "both sides' lines kept",
    ),
    "repaired": (CHANGE, "first\nperson\nthird\n", "first\nboth\nthird\n", "repaired by an agent"),
    "not repaired": (CHANGE, "first\nperson\nthird\n", "first\nperson\nthird\n", "left for you"),
}


@pytest.mark.parametrize("kind", CONFLICTS)
async def test_a_conflict_is_merged_or_repaired_or_left_for_the_person(tmp_path: Path, kind: str) -> None:
    steps, persons, merged, outcome = CONFLICTS[kind]
    fix = ({"do": "write", "path": "list.txt", "text": merged},) if kind == "repaired" else ()
    repair = turn(*fix, {"do": "say", "text": "repaired, or not."}, times=0)
    house = SpawnHouse(tmp_path, tasks((HELD, *steps), repair), spawn={"repairAttempts": 1})
    async with house.spawning(*house.given(), "--integrate", "merge") as running:
        await house.held()
        (house.root / "list.txt").write_text(persons)
        house.commit("another")
        house.release()
        code, _ = await running.end()
    assert (house.root / "list.txt").read_text() == merged
    assert house.git("status", "--porcelain") == ""
    assert house.left() == []
    assert house.report["Conflicts"] == f"- `list.txt` (contents): {outcome}"
    found = [it for it in running.events if isinstance(it, ConflictsFound)]
    assert found == [ConflictsFound(paths=("list.txt",), small=kind == "small")]
    if kind != "not repaired":
        assert code == 0, running.err
        assert house.sandboxes == []
    else:
        assert code == 1
        assert f"cuggino spawn retry {house.spawned.name}" in house.report["What went wrong"]
        assert house.shown(f"{house.branch}:list.txt") == "first\nagent\nthird\n"
        assert (house.sandboxes[0] / "list.txt").read_text() == "first\nagent\nthird\n"


async def test_uncommitted_changes_prevent_a_merge_that_retry_repeats(tmp_path: Path) -> None:
    house = SpawnHouse(tmp_path, tasks(CHANGE))
    (house.root / "list.txt").write_text("mine\n")
    before = house.snapshot()
    await house.spawn(*house.given(), "--integrate", "merge", code=1)
    assert house.snapshot() == before
    assert f"**Branch:** {house.branch}" in house.report[""]
    assert "list.txt" in house.report["What went wrong"]
    assert f"cuggino spawn retry {house.spawned.name}" in house.report["What went wrong"]
    listed = await house.run("spawn", "list")
    assert "not integrated: try again with `cuggino spawn retry ID`" in listed.out
    await house.retry(code=1)
    assert house.snapshot() == before
    house.git("checkout", "-q", "list.txt")
    await house.retry()
    assert (house.root / "list.txt").read_text() == "first\nagent\nthird\n"
    assert house.names.count("LLMStarted") == 1
    assert house.branches == ["main"]
    done = await house.retry(code=2)
    assert "is done" in done.err


async def test_a_failing_check_command_prevents_a_merge(tmp_path: Path) -> None:
    house = SpawnHouse(tmp_path, tasks(CHANGE), checkCommand="cat list.txt; ! grep -q agent list.txt")
    await house.spawn(*house.given(), "--integrate", "merge", code=1)
    assert "The check command fails" in house.report["What went wrong"]
    assert (house.spawned / "check.txt").read_text() == "first\nagent\nthird\n"
    assert stat.S_IMODE((house.spawned / "check.txt").stat().st_mode) == 0o600
    assert (house.root / "list.txt").read_text() == "first\nsecond\nthird\n"


# ---- evaluation -------------------------------------------------------------------------------


async def test_the_evaluations_manifest_limits_the_agent(tmp_path: Path) -> None:
    worker = (*WORK, {"do": "write", "path": "src/a.txt", "text": "a\n"}, {"do": "say", "text": "Both."})
    house = SpawnHouse(tmp_path, tasks(worker, evaluator=[answer(writablePaths=["src/**"], complexity="low")]))
    await house.spawn()
    manifest = house.manifest
    assert (manifest["writablePaths"], manifest["complexity"]) == (["src/**"], "low")
    assert manifest["allowedCommands"][:2] == ["make *", "git status *"]
    report = house.report
    assert report["Changes"] == "- `src/a.txt` (+1, -0) - new"
    assert report["Not integrated"] == "- `work.txt`: not in `writablePaths`"
    assert (house.sandboxes[0] / "work.txt").read_text() == "done\n"
    assert house.git("diff", "--name-only", "main", house.branch) == "src/a.txt\n"


@pytest.mark.parametrize("source", ["evaluation", "default"])
async def test_an_invalid_answer_is_asked_for_once_more_and_then_the_default_is_used(
    tmp_path: Path, source: str
) -> None:
    bad = {"do": "say", "text": '{"writablePaths": "everything"}'}
    good = {"do": "say", "text": '{"writablePaths": ["work.txt"]}'}
    again = turn(good if source == "evaluation" else bad, when={"resumed": True, "contains": "writablePaths"})
    house = SpawnHouse(tmp_path, {**tasks(WORK), "evaluator": [turn(bad), again]}, checkCommand="true")
    (house.root / "Makefile").write_text("all:\n")
    finished = await house.spawn("--json")
    (ready,) = [event for event in finished.events if isinstance(event, ManifestReady)]
    assert ready.source == source
    assert ready.manifest["writablePaths"] == (["work.txt"] if source == "evaluation" else ["**"])
    assert ("make *" in ready.manifest["allowedCommands"]) == (source == "default")
    assert "true" in ready.manifest["allowedCommands"]
    messages = [it.text for it in finished.events if isinstance(it, SystemMessage)]
    assert any("the default manifest is used" in text for text in messages) == (source == "default")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", ["manifest.json"]),
        ('{"writeablePaths": []}', ["writeablePaths", "writablePaths"]),
        ('{"complexity": "huge"}', ["complexity", "huge", '"low", "medium"']),
        ('{"secrets": ["hunter2"]}', ["secrets", '"env:NAME" or "file:PATH"']),
        ('{"writablePaths": ["../other"]}', ["writablePaths", "../other", "relative to the repository"]),
        (None, ["manifest.json", "No such file"]),
    ],
)
async def test_an_invalid_manifest_is_refused(tmp_path: Path, content: str | None, words: list[str]) -> None:
    house = SpawnHouse(tmp_path)
    house.given()
    path = house.home / "manifest.json"
    path.unlink() if content is None else path.write_text(content)
    finished = await house.spawn("--manifest", str(path), code=2)
    assert [word for word in [str(path), *words] if word not in finished.err] == []
    assert finished.out == ""
    assert not (house.state / "spawns").exists()
    assert not house.script.with_name("script.json.played").exists()


@pytest.mark.parametrize("aisp", [True, False])
async def test_the_prompt_is_unchanged_without_aisp(tmp_path: Path, aisp: bool) -> None:
    prompt = "  Do @this,\n\n  /and that: \u00e4\u2026 $HOME {cwd} \u2713 \n"
    rewritten = "\u27e6\u03a9:Goal\u27e7{ do this }"
    evaluator = answer(prompt=rewritten) if aisp else answer()
    worker = turn(*WORK, when={"contains": rewritten if aisp else "/and that: \u00e4\u2026 $HOME"})
    house = SpawnHouse(tmp_path, {"evaluator": [evaluator], "worker": [worker]})
    finished = await house.spawn(*(["--aisp"] if aisp else []), prompt=prompt)
    record = json.loads((house.spawned / "spawn.json").read_text())
    assert record["task"]["prompt"] == prompt
    assert record["prompt"] == (rewritten if aisp else prompt)
    assert (house.spawned / "request.md").read_text() == prompt
    assert "work.txt" in house.git("diff", "--name-only", "main", house.branch)
    assert "Spawn Complete: Do @this, (spawn-id" in finished.out


# ---- bases ------------------------------------------------------------------------------------


async def test_it_starts_from_the_given_base(tmp_path: Path) -> None:
    house = SpawnHouse(tmp_path)
    house.git("branch", "older", "HEAD~1")
    await house.spawn(*house.given(), "--base", "older", "--integrate", "merge")
    assert house.git("log", "--format=%s", "older").splitlines() == ["Do the work.", "start"]
    assert house.git("log", "--format=%s", "main").splitlines() == ["a list", "start"]
    (made,) = [line.event for line in house.log if isinstance(line.event, SandboxCreated)]
    assert made.base == house.git("rev-parse", "main~1").strip()


# ---- many -------------------------------------------------------------------------------------


async def test_eight_spawns_at_once(tmp_path: Path) -> None:
    write = {"do": "run", "command": "echo $$ > $(basename $PWD).txt"}
    house = SpawnHouse(tmp_path, tasks(turn(write, {"do": "say", "text": "Done."}, times=0)), checkCommand="sleep 0.1")

    async def one() -> None:
        await house.spawn(*house.given(), "--integrate", "merge")

    with trio.fail_after(120):
        async with trio.open_nursery() as nursery:
            for _ in range(8):
                nursery.start_soon(one)
    assert len(list(house.root.glob("0*.txt"))) == 8
    assert house.git("status", "--porcelain") == ""
    assert house.branches == ["main"]
    assert house.sandboxes == []
    assert house.left() == []


async def test_a_spawn_beside_a_watch(tmp_path: Path) -> None:
    play = {
        **tasks(WORK),
        "planner": [turn({"do": "marker", "name": "SPEC_ISSUE", "text": "?"}, when={"contains": "#"})],
    }
    house = SpawnHouse(tmp_path, play)
    async with house.watching() as watch:
        await watch.until("WatchIdle")
        await house.spawn(*house.given())
        assert watch.process.returncode is None
    assert house.branches == ["main", house.branch]
