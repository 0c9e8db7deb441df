from __future__ import annotations

import json
from pathlib import Path

import pytest
import trio

from tests.e2e.loopback import Say
from tests.e2e.spawn_house import bash, on_github, read, spawn_house, write
from tests.process.spawn_house import sections

pytestmark = pytest.mark.e2e


async def test_all_seven_phases(tmp_path: Path) -> None:
    manifest = {"writablePaths": ["src/**"], "allowedCommands": ["echo *"], "complexity": "low"}
    evaluator = [[Say("I look."), read("{request}")], [Say(json.dumps(manifest))]]
    worker = [
        [Say("I begin."), write("src/new.txt", "one\ntwo\n"), read("list.txt")],
        [bash("echo three >> src/new.txt")],
        [Say("There is a ", "new file.")],
    ]
    with spawn_house(tmp_path, evaluator=[evaluator], worker=[worker]) as house, on_github(house) as pulls:
        before = house.snapshot()
        finished = await house.spawn(prompt="Make a file.\nA new one.")
        print(finished.out, finished.err)
        for r in house.server.requests:
            print(r.tools, r.tool_results)
        print((house.spawned / "events.jsonl").read_text())
        print(house.remembered, [p for p in house.home.rglob("*") if p.is_file()], list(house.temporary.rglob("*")))
        print(pulls.all, pulls.server.requests)
        assert house.snapshot() == before
        assert finished.code == 0
