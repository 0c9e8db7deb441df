"""The script in the guide to `status` and `log` is run as it stands there."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import trio

from tests.process.house import DONE, House, script

GUIDE = Path(__file__).parents[2] / "docs" / "how-to" / "see-what-is-going-on.md"


async def test_the_guides_script_prints_what_waits_and_the_cost(tmp_path: Path) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    usage = {"do": "usage", "cost": 0.25}
    house = House(tmp_path, play=script(implementer=[[usage, *DONE], [usage, *DONE]]))
    backlog = house.state / "backlog"
    with trio.fail_after(40):
        for _ in range(2):
            assert (await house.run("run", "-f", "the work")).code == 0
        (backlog / "empty.md").write_text("")
        assert (await house.run("watch", "--until-idle")).code == 1
        (house.state / "spec-issues" / "issue.md").write_text("a or b?\nmore")
        programs = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        done = await trio.run_process(
            [sys.executable, "-c", code],
            cwd=house.root,
            env=house.environment | {"PATH": programs},
            capture_stdout=True,
        )
    assert done.stdout.decode().splitlines() == [
        "spec issue: a or b?",
        "blocked: empty.md - it is empty",
        "2 sessions, $0.50",
    ]
