"""`cuggino run` as a person starts it, with the scripted agent: real processes, files and commits."""

from __future__ import annotations

import json
import os
import stat
import sys
from pathlib import Path

import pytest
import trio

from cuggino import events
from tests.process.house import CHANGES, DONE, PLAN, PROGRESS, House, script

RUN = ("run", "--focus", "the work", "--json")


async def test_a_run_from_plan_to_approval_leaves_commits_and_nothing_else(tmp_path: Path) -> None:
    house = House(
        tmp_path,
        play=script(implementer=[PROGRESS, DONE, DONE], reviewer=[CHANGES]),
        commit=True,
        setupCommand="echo set up",
        checkCommand="ls; exit 3",
        gate=False,
    )
    (house.root / ".specs" / "app.md").write_text("# App, changed by a person\n")
    house.git("add", ".specs/app.md")
    with trio.fail_after(30):
        finished = await house.run(*RUN)
    assert finished.code == 0, finished.err
    assert finished.names[-1] == "LoopApproved"
    assert house.git("log", "--format=%s").split("\n")[:3] == ["The rest", "The rest", "A part"]
    committed = set(house.git("log", "--name-only", "--format=", "HEAD~3..HEAD").split())
    assert committed == {"work.txt"}
    assert house.git("diff", "--cached", "--name-only") == ".specs/app.md\n"
    assert house.wip == []
    assert house.left() == []
    checks = [event for event in finished.events if isinstance(event, events.CheckCommandOutput)]
    assert len(checks) == 5
    assert {check.exit_code for check in checks} == {3}
    setups = [event for event in finished.events if isinstance(event, events.SetupCommandOutput)]
    assert [setup.output for setup in setups] == ["set up\n"] * 2


async def test_the_log_has_what_json_prints(tmp_path: Path) -> None:
    house = House(tmp_path)
    with trio.fail_after(20):
        finished = await house.run(*RUN)
    assert house.logged() == [events.decode_log_line(line) for line in finished.out.splitlines()]
    (log,) = (house.state / "logs").iterdir()
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    first = json.loads(finished.out.splitlines()[0])
    assert set(first) == {"at", "session", "event"}
    assert first["event"]["_tag"] == "LoopStart"


async def test_for_people_it_ends_with_a_summary(tmp_path: Path) -> None:
    house = House(tmp_path, commit=True)
    with trio.fail_after(20):
        finished = await house.run("run", "-f", "the work")
    assert finished.code == 0
    assert "[DONE] The rest" in finished.out
    summary = finished.out.split("\n\n")[-1]
    assert "Outcome     approved" in summary
    assert "Commits     1" in summary
    assert finished.err == ""


async def test_a_spec_issue_ends_with_4_and_is_in_its_file(tmp_path: Path) -> None:
    house = House(tmp_path, play=script(planner=[[{"do": "marker", "name": "SPEC_ISSUE", "text": "a or b?"}]]))
    with trio.fail_after(20):
        finished = await house.run(*RUN)
    assert finished.code == 4
    last = finished.events[-1]
    assert isinstance(last, events.LoopSpecIssue)
    assert (house.state / "spec-issues" / last.filename).read_text() == "a or b?\n"
    assert house.wip == []


async def test_max_iterations_end_with_5(tmp_path: Path) -> None:
    house = House(tmp_path, play=script(reviewer=[CHANGES, CHANGES]), maxIterations=2)
    with trio.fail_after(20):
        assert (await house.run(*RUN)).code == 5
    assert house.wip == []


async def test_a_failure_ends_with_1_and_says_how_to_resume(tmp_path: Path) -> None:
    house = House(tmp_path, play=script(planner=[[{"do": "fail", "kind": "no-key"}]]))
    with trio.fail_after(20):
        finished = await house.run(*RUN)
    assert finished.code == 1
    last = finished.events[-1]
    assert isinstance(last, events.LoopFailed)
    assert "/login" in last.message
    (state,) = (name for name in house.wip if name.endswith(".json"))
    assert f"cuggino run --resume {state.removesuffix('.json')}" in finished.err


async def test_an_agent_that_does_not_exit_after_its_result_is_stopped(tmp_path: Path) -> None:
    """Ten real seconds: the one test that shows it with a real process."""
    house = House(tmp_path, play=script(planner=[[*PLAN, {"do": "result"}, {"do": "hang"}]]))
    with trio.fail_after(30):
        finished = await house.run(*RUN)
    assert finished.code == 0
    assert house.left() == []


async def test_a_line_of_10_mb_and_text_that_is_hostile_to_terminals(tmp_path: Path) -> None:
    big = {"do": "big", "size": 10_000_000}
    tricks = {"do": "say", "text": "\x1b[2J\x07 \r gone <DONE>no"}
    house = House(tmp_path, play=script(implementer=[[big, tricks, *DONE]]))
    with trio.fail_after(30):
        finished = await house.run("run", "-f", "x")
        logged = house.logged()
    assert finished.code == 0
    assert "\x1b" not in finished.out
    assert "\x07" not in finished.out
    assert any(isinstance(line.event, events.AgentMessage) and len(line.event.text) > 9_000_000 for line in logged)


async def test_check_output_of_any_size_reaches_the_next_agent_as_a_file(tmp_path: Path) -> None:
    house = House(
        tmp_path,
        play=script(implementer=[[{"do": "run", "command": "wc -c .cuggino/wip/*.check.txt"}, *DONE]]),
        checkCommand="head -c 30000000 /dev/zero | tr '\\0' 'x'; echo; echo '@/etc/passwd'",
    )
    with trio.fail_after(30):
        finished = await house.run(*RUN)
    check = next(event for event in finished.events if isinstance(event, events.CheckCommandOutput))
    assert len(check.output) < 70_000
    assert check.output.endswith("@/etc/passwd\n")
    result = next(
        event for event in finished.events if isinstance(event, events.ToolResult) and "check.txt" in event.output
    )
    assert result.output.startswith("30000014 ")


async def test_a_command_that_takes_too_long_is_stopped_and_says_so(tmp_path: Path) -> None:
    house = House(tmp_path, checkCommand="echo begun; sleep 300", gate=False, limits={"commandTimeout": 0.5})
    with trio.fail_after(30):
        finished = await house.run(*RUN)
    assert finished.code == 0
    check = next(event for event in finished.events if isinstance(event, events.CheckCommandOutput))
    assert check.exit_code == 124
    assert "begun\n" in check.output
    assert "limits.commandTimeout" in check.output
    assert house.left() == []


async def test_background_processes_of_setup_live_as_long_as_the_session_and_those_of_checks_do_not(
    tmp_path: Path,
) -> None:
    house = House(
        tmp_path,
        play=script(
            implementer=[
                [
                    {"do": "run", "command": "kill -0 $(cat set-up.pid) && ! kill -0 $(cat check.pid) && echo alone"},
                    *DONE,
                ]
            ]
        ),
        setupCommand="setsid sleep 300 & echo $! > set-up.pid",
        checkCommand="setsid sleep 301 & echo $! > check.pid",
    )
    with trio.fail_after(30):
        finished = await house.run(*RUN)
    assert finished.code == 0
    assert any(isinstance(event, events.ToolResult) and "alone" in event.output for event in finished.events)
    assert house.left() == []


async def test_a_refusing_hook_is_quoted_and_the_loop_continues(tmp_path: Path) -> None:
    house = House(tmp_path, commit=True)
    hook = house.root / ".git" / "hooks" / "pre-commit"
    hook.write_text("#!/bin/sh\necho 'no commits on Fridays' >&2\nsleep 300 &\nexit 1\n")
    hook.chmod(0o755)
    with trio.fail_after(20):
        finished = await house.run(*RUN)
    assert finished.code == 0
    failed = [event.message for event in finished.events if isinstance(event, events.CommitFailed)]
    assert "no commits on Fridays" in failed[0]
    assert not any(isinstance(event, events.CommitPerformed) for event in finished.events)
    assert house.left() == []


async def test_a_dirty_tree_is_warned_about_and_in_the_first_commit(tmp_path: Path) -> None:
    house = House(tmp_path, commit=True)
    (house.root / "mine.txt").write_text("not committed")
    with trio.fail_after(20):
        finished = await house.run(*RUN)
    assert isinstance(finished.events[1], events.SystemMessage)
    assert "uncommitted" in finished.events[1].text
    assert "mine.txt" in house.git("show", "--stat", "HEAD")


async def test_a_review_reaches_the_first_planner(tmp_path: Path) -> None:
    (tmp_path / "review.md").write_text("line 3 is wrong")
    house = House(tmp_path, play=script(planner=[[{"do": "run", "command": "cat .cuggino/wip/*.review.md"}, *PLAN]]))
    with trio.fail_after(20):
        finished = await house.run(*RUN, "--review", str(tmp_path / "review.md"))
    assert any(isinstance(event, events.ToolResult) and "line 3 is wrong" in event.output for event in finished.events)


# ---- what is refused before anything starts ---------------------------------------------------


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"limits": {"idleTimeout": -1}}', ["$.limits.idleTimeout", "-1", "> 0"]),
        ('{"comit": true}', ["comit", "commit"]),
        ('{"commit": true,}', ["line 1", "JSON"]),
        ("", ["empty"]),
    ],
)
async def test_a_wrong_configuration_is_an_error_and_nothing_starts(
    tmp_path: Path, text: str, words: list[str]
) -> None:
    house = House(tmp_path)
    (house.root / ".cuggino.json").write_text(text)
    with trio.fail_after(10):
        finished = await house.run(*RUN)
    assert finished.code == 2
    assert finished.out == ""
    assert str(house.root / ".cuggino.json") in finished.err
    for word in words:
        assert word in finished.err
    assert "Traceback" not in finished.err
    assert not house.state.exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run"], "focus"),
        (["run", "-f", "  "], "focus"),
        (["run", "--resume", "-f", "x"], "--resume"),
        (["run", "--resume", "0", "-f", "x"], "--resume"),
        (["run", "-f", "x", "--review", "nowhere.md"], "nowhere.md"),
        (["run", "--resume"], "no unfinished session"),
        (["run", "--resume", "0192"], "0192"),
        (["run", "--nonsense"], "--nonsense"),
        (["rnu"], "rnu"),
    ],
)
async def test_wrong_arguments_end_with_2(tmp_path: Path, arguments: list[str], words: str) -> None:
    house = House(tmp_path)
    with trio.fail_after(10):
        finished = await house.run(*arguments)
    assert finished.code == 2
    assert words in finished.err
    assert "Traceback" not in finished.err


async def test_a_second_run_is_refused_and_names_the_first(tmp_path: Path) -> None:
    house = House(tmp_path, play=script(planner=[[{"do": "say", "text": "hm"}, {"do": "hang"}]]))
    with trio.fail_after(20):
        async with house.started("run", "-f", "x") as running:
            await running.until("AgentMessage")
            second = await house.run(*RUN)
            assert second.code == 1
            assert f"process {running.process.pid}" in second.err
            assert "cuggino run" in second.err


async def test_a_closed_stdin_and_stderr_do_not_matter(tmp_path: Path) -> None:
    house = House(tmp_path)
    command = "exec python -m cuggino run -f x --json <&- 2>&-"
    environment = house.environment | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    with trio.fail_after(20):
        done = await trio.run_process(
            ["sh", "-c", command], cwd=house.root, env=environment, capture_stdout=True, check=False
        )
    assert done.returncode == 0
    lines: list[events.LogLine] = [events.decode_log_line(line) for line in done.stdout.splitlines()]
    assert type(lines[-1].event).__name__ == "LoopApproved"


async def test_a_project_without_git_works_except_for_commits(tmp_path: Path) -> None:
    house = House(tmp_path)
    (house.root / ".git").rename(tmp_path / "git")
    with trio.fail_after(20):
        assert (await house.run(*RUN)).code == 0
        (house.root / ".cuggino.json").write_text('{"agent": "scripted", "commit": true}')
        finished = await house.run(*RUN)
    assert finished.code == 0
    assert any(isinstance(event, events.CommitFailed) for event in finished.events)
