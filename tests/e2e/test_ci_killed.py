"""`kill -9` in the middle of an iteration: the next watch loses at most that iteration, and does nothing twice."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from cuggino.events import CiStateLoaded, CiWatchEnded
from tests.e2e.ci_house import CiHouse, ci_house, of, run, say
from tests.e2e.github_pull import comment
from tests.e2e.github_server import Reply, Request, git
from tests.process.house import Running

pytestmark = pytest.mark.e2e

GATE = "touch {seen}/gate; while test -e {seen}/gate; do sleep 0.02; done"


@pytest.fixture
def house(tmp_path: Path) -> Iterator[CiHouse]:
    with ci_house(tmp_path) as house:
        yield house


async def at_gate(house: CiHouse) -> None:
    with trio.fail_after(60):
        while not (house.seen / "gate").exists():  # noqa: ASYNC110 - a file of another process
            await trio.sleep(0.01)


async def killed(running: Running) -> None:
    running.send(signal.SIGKILL)
    with trio.fail_after(30):
        assert (await running.end())[0] == -signal.SIGKILL


def set_up(house: CiHouse, *, triage: str = "", worker: str = "") -> None:
    """Set up a failing check and a thread; the first agent of each role runs its command first."""
    house.pull.job("test", lambda it: "SUCCESS" if it.file("fixed.txt") else "FAILURE")
    house.pull.thread("app.py", 1, comment("mia", "MEMBER", "Say hello."))
    house.play(
        triage=[{"steps": [run(triage or "true"), {"do": "structured", "value": {"verdict": "real", "cause": "x"}}]}],
        worker=[
            {"when": {"contains": "thread.md", "exists": "hello.txt"}, "steps": [say("It is there.")], "times": 0},
            {"when": {"contains": "thread.md"}, "steps": [run("echo hello > hello.txt"), say("Said.")], "times": 0},
            *([{"when": {"contains": "failure.md"}, "steps": [run(worker)]}] if worker else []),
            {"steps": [run("echo x > fixed.txt"), say("Fixed.")], "times": 0},
        ],
    )


async def assert_it_resumes_to_its_end(house: CiHouse) -> None:
    finished = await house.watch("12", "--max-iterations", "15")
    assert finished.code == 0, (finished.err, finished.out[-2000:])
    assert of(finished, CiStateLoaded)[0].resumed
    subjects = git(house.bare, "log", "--format=%s", "main..change").splitlines()
    assert sorted(subjects) == ["Fix test", "Review: app.py", "a change"]
    (thread,) = house.pull.threads
    assert [it["viewerDidAuthor"] for it in thread["comments"]] == [False, True]
    assert "## In Flight" not in house.state.read_text()
    assert "- test: 1\n" in house.state.read_text()
    house.assert_no_sandboxes()


@pytest.mark.parametrize("role", ["triage", "worker"])
async def test_while_an_agent_works(house: CiHouse, role: str) -> None:
    set_up(house, **{role: GATE})
    async with house.watching("12") as running:
        await at_gate(house)
        await killed(running)
    (house.seen / "gate").unlink()
    await assert_it_resumes_to_its_end(house)


@pytest.mark.parametrize("taken", [True, False])
async def test_while_it_pushes(house: CiHouse, taken: bool) -> None:
    """The server accepts the push anyway, or does not."""
    set_up(house)
    hook = house.bare / "hooks" / "pre-receive"
    gate = GATE.replace("{seen}", str(house.seen))
    hook.write_text(f"#!/bin/sh\n{gate}\nexit {0 if taken else 1}\n")
    hook.chmod(0o755)
    before = house.pull.tip
    async with house.watching("12") as running:
        await at_gate(house)
        assert "## In Flight\n- push " in house.state.read_text()
        await killed(running)
    hook.unlink()
    (house.seen / "gate").unlink()
    with trio.fail_after(30):
        while taken and house.pull.tip == before:  # noqa: ASYNC110 - git continues by itself
            await trio.sleep(0.01)
    await trio.sleep(0 if taken else 0.5)
    await assert_it_resumes_to_its_end(house)


@pytest.mark.parametrize("taken", [True, False])
async def test_while_it_answers(house: CiHouse, taken: bool) -> None:
    set_up(house)
    pids: list[int] = []
    real = house.pull.reply

    def reply(request: Request) -> Reply:
        if not pids:
            return real(request)
        answer = real(request) if taken else Reply(503)
        os.kill(pids.pop(), signal.SIGKILL)
        return answer

    house.server.on("POST", r"repos/o/r/pulls/12/comments/(?P<id>\d+)/replies", reply)
    async with house.watching("12") as running:
        pids.append(running.process.pid)
        with trio.fail_after(90):
            assert (await running.end())[0] == -signal.SIGKILL
    assert "## In Flight\n- answer " in house.state.read_text()
    await assert_it_resumes_to_its_end(house)


async def test_ctrl_c_while_an_agent_works(house: CiHouse) -> None:
    """It leaves no agent and no sandbox behind, and the attempt does not count."""
    set_up(house, worker=GATE)
    async with house.watching("12") as running:
        await at_gate(house)
        running.send(signal.SIGINT)
        with trio.fail_after(40):
            code, _ = await running.end()
    assert code == -signal.SIGINT
    ended = running.events[-1]
    assert isinstance(ended, CiWatchEnded)
    assert (ended.exit, ended.exit_code) == ("interrupted", 130)
    house.assert_no_sandboxes()
    (house.seen / "gate").unlink()
    await assert_it_resumes_to_its_end(house)
