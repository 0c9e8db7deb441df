"""`cuggino run` with each agent's real program, to every possible end, and with several agents in one loop."""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
import trio

from cuggino.config import BackendName
from cuggino.events import AgentRetry, LoopFailed, LoopSpecIssue, WatchTbdItemFound
from tests.e2e.agents_house import agents_house, shell, write
from tests.e2e.messages import Fail, Say, Script, Stall
from tests.e2e.provider import Asked

pytestmark = pytest.mark.e2e

RUN = ("run", "--focus", "the work")

AGENTS: Sequence[BackendName] = ("codex", "gemini", "opencode")
"""claude has tests of its own, and more of them."""

LOOP = ("planner", "implementer", "reviewer")

KEYS: Mapping[BackendName, Sequence[str]] = {
    "codex": ("codex login", "CODEX_API_KEY"),
    "gemini": ("GEMINI_API_KEY",),
    "opencode": ("opencode auth login",),
}
"""The advice for a rejected key."""

LATEST = 5.0 + 3.0
"""Maximum seconds for stopping: those of the agent, and those of the sweep after it."""

HIDDEN = (
    "cd /; env -i PATH=/usr/bin:/bin setsid"
    " sh -c \"trap '' INT TERM HUP QUIT; touch {project}/begun; exec tail -f {project}/begun\""
    " > /dev/null 2>&1 < /dev/null"
)


@pytest.fixture(params=AGENTS)
def agent(request: pytest.FixtureRequest) -> BackendName:
    name: BackendName = request.param
    return name


async def test_a_focus_is_planned_implemented_approved_and_committed(tmp_path: Path, agent: BackendName) -> None:
    reviewer: Script = [
        [shell("git log -1 --format=%s && cat work.txt"), write("{review}", "# Review\nGood.\n")],
        [Say("<APPROVED>good</APPROVED>")],
    ]
    with agents_house(
        tmp_path, agent, scripts={"reviewer": reviewer}, commit=True, checkCommand="echo from the check"
    ) as house:
        with trio.fail_after(110):
            finished = await house.run(*RUN, "--json")
        assert finished.code == 0, finished.out[-3000:] + finished.err
        assert house.asked == [(role, agent) for role in LOOP]
        assert (house.root / "work.txt").read_text() == "done\n"
        assert house.commits == ["The work\n"]
        assert house.git("show", "--format=", "--name-only", "HEAD") == "work.txt\n"
        shown = (
            "LoopStart",
            "PlanComplete",
            "CheckCommandOutput",
            "Done",
            "CommitPerformed",
            "Approved",
            "LoopApproved",
        )
        assert [name for name in finished.names if name in shown] == [
            *("LoopStart", "PlanComplete", "CheckCommandOutput", "Done", "CommitPerformed"),
            *("CheckCommandOutput", "Approved", "LoopApproved"),
        ]
        assert "AgentRetry" not in finished.names
        assert house.git("status", "--porcelain") == ""
        assert [*house.wip, *house.left()] == []


async def test_a_spec_issue_ends_the_run(tmp_path: Path, agent: BackendName) -> None:
    planner: Script = [[Say("<SPEC_ISSUE>app.md says ", "nothing.</SPEC_ISSUE>")]]
    with agents_house(tmp_path, agent, scripts={"planner": planner}) as house:
        with trio.fail_after(60):
            finished = await house.run(*RUN, "--json")
        assert finished.code == 4, finished.out[-3000:] + finished.err
        [issue] = [event for event in finished.events if isinstance(event, LoopSpecIssue)]
        assert issue.content == "app.md says nothing."
        assert (house.state / "spec-issues" / issue.filename).read_text() == "app.md says nothing.\n"
        assert house.left() == []


async def test_a_refused_key_ends_the_run_in_seconds_with_advice(tmp_path: Path, agent: BackendName) -> None:
    with agents_house(tmp_path, agent, scripts={"planner": [[Fail(401)]]}) as house:
        with trio.fail_after(60):
            finished = await house.run(*RUN)
        assert finished.code == 1
        assert [word for word in KEYS[agent] if word not in finished.out] == []
        assert "Retry" not in finished.out
        assert "cuggino run --resume" in finished.err
        last = house.logged()[-1].event
        assert isinstance(last, LoopFailed)
        assert last.phase == "planner"
        assert house.left() == []


def overloaded_until_resumed(asked: Asked) -> Script:
    """The texts with which cuggino continues decide what follows."""
    after = [Say("<DONE>The work</DONE>")] if "interrupted by a failure" in asked.text else [Fail(529)]
    return [[shell("echo half >> work.txt")], after, after, after]


async def test_an_overloaded_server_is_asked_again_in_the_same_conversation(tmp_path: Path, agent: BackendName) -> None:
    scripts = {"implementer": overloaded_until_resumed}
    with agents_house(tmp_path, "scripted", agents={"implementer": agent}, scripts=scripts) as house:
        house.limit_retries()
        with trio.fail_after(110):
            finished = await house.run(*RUN, "--json")
        assert finished.code == 0, finished.out[-3000:] + finished.err
        assert [event.attempt for event in finished.events if isinstance(event, AgentRetry)] == [1]
        assert (house.root / "work.txt").read_text() == "half\n"


async def test_ctrl_c_in_a_command_that_hides_leaves_nothing(tmp_path: Path, agent: BackendName) -> None:
    implementer: Script = [[shell(HIDDEN)], [Stall()]]
    scripts = {"implementer": implementer}
    with (
        agents_house(tmp_path, "scripted", agents={"implementer": agent}, scripts=scripts) as house,
        trio.fail_after(60),
    ):
        async with house.started(*RUN) as running:
            await running.until("ImplementingStart")
            while f"tail -f {house.root / 'begun'} " not in house.left():  # noqa: ASYNC110 - a process of its own
                await trio.sleep(0.02)
            running.send(signal.SIGINT)
            code, seconds = await running.end()
        assert code == -signal.SIGINT
        assert seconds < LATEST
        assert b"cuggino run --resume" in running.err
        assert house.left() == []


async def test_a_watch_with_another_agent_for_each_role(tmp_path: Path) -> None:
    auditor: Script = [[Say("<TO_BE_DISCUSSED>No title</TO_BE_DISCUSSED>")]]
    with (
        agents_house(
            tmp_path,
            "claude",
            agents={"implementer": "codex", "reviewer": "gemini", "audit": "opencode"},
            scripts={"auditor": auditor},
            commit=True,
            audit=True,
        ) as house,
        trio.fail_after(110),
    ):
        house.item("1.md")
        async with house.started("watch") as running:
            await running.until("WatchAuditEnded")
            running.send(signal.SIGINT)
            await running.end()
        assert house.asked == [
            *(("planner", "claude"), ("implementer", "codex"), ("reviewer", "gemini"), ("auditor", "opencode")),
        ]
        assert house.commits == ["The work\n"]
        assert [name for name, _ in house.archived] == ["1.md"]
        [found] = [event for event in running.reported if isinstance(event, WatchTbdItemFound)]
        assert found.content == "No title"
        assert [*house.wip, *house.left()] == []
