"""The loop on the virtual clock, with scripted agents."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest
import trio
from trio.testing import MockClock

from cuggino.agents.agent import AgentOptions, AgentResult
from cuggino.config import Config, Limits
from cuggino.errors import LlmSessionError, LlmSessionErrorKind, LoopError
from cuggino.events import (
    AgentMessage,
    AgentRetry,
    AgentWaiting,
    Approved,
    CommitFailed,
    Done,
    Event,
    LoopApproved,
    LoopFailed,
    LoopLimitReached,
    LoopMaxIterations,
    LoopSpecIssue,
    LoopStart,
    Note,
    PingEvent,
    PlanComplete,
    Progress,
    RequestChanges,
    Send,
    SpecIssue,
    ToolCall,
    ToolResult,
    UsageReport,
)
from cuggino.loop.session import Session, SessionState, find_session
from cuggino.records import load
from cuggino.roles import Role
from tests.unit.stage import START, Performance, Stage, Troupe, plans, says

PLAN = plans(PlanComplete(content="planned"))
PROGRESS = says(Note(content="seen"), Progress(content="first task"))
DONE = says(Done(content="all of it"))
APPROVE = says(Approved(content="good"))
REFUSE = says(RequestChanges(content="the tests are missing"))

FULL = Config(setup_command="setup", check_command="check", commit=True)
EXIT = AgentResult(exit_status=0)


def stage_for(root: Path, config: Config | None = None, **parts: list[Performance]) -> Stage:
    """A stage where every role succeeds at once, except for these parts."""
    return Stage(root, Troupe(**{"planner": [PLAN], "implementer": [DONE], "reviewer": [APPROVE]} | parts), config)


def retries(stage: Stage) -> list[AgentRetry]:
    return [event for event in stage.events if isinstance(event, AgentRetry)]


async def test_a_whole_loop_sends_its_events_in_order(tmp_path: Path, clock: MockClock) -> None:
    stage = stage_for(tmp_path, FULL, implementer=[PROGRESS, DONE, DONE], reviewer=[REFUSE, APPROVE])
    assert await stage.run() == LoopApproved(iteration=2)
    one_task = ["ImplementingStart", "Done", "CommitPerformed", "CheckCommandOutput"]
    planning = ["IterationStart", "PlanningStart", "PlanComplete", "SetupCommandOutput", "CheckCommandOutput"]
    assert stage.names == [
        "LoopStart",
        *planning,
        *["ImplementingStart", "Note", "Progress", "CommitPerformed", "CheckCommandOutput"],
        *one_task,
        *["ReviewingStart", "RequestChanges"],
        *planning,
        *one_task,
        *["ReviewingStart", "Approved", "LoopApproved"],
    ]
    assert stage.git.commits == ["first task", "all of it", "all of it"]
    assert stage.commands.left_running == 0
    stage.session.delete()
    assert stage.wip == []


async def test_steps_that_are_not_configured_are_skipped(tmp_path: Path, clock: MockClock) -> None:
    stage = stage_for(tmp_path)
    await stage.run(Session.create(stage.project, "@the/item.md", backlog_file="item.md", backlog_hash="1"))
    assert stage.names == [
        *["LoopStart", "IterationStart", "PlanningStart", "PlanComplete", "ImplementingStart", "Done"],
        *["ReviewingStart", "Approved", "LoopApproved"],
    ]
    assert stage.events[0] == LoopStart(iteration=1, focus="@the/item.md", backlog_file="item.md", resumed=False)
    assert (stage.commands.run_commands, stage.git.commits) == ([], [])


async def test_the_session_file_has_the_plan_and_each_marker_before_it_is_sent(
    tmp_path: Path, clock: MockClock
) -> None:
    seen: list[str] = []

    async def implement(_options: AgentOptions, send: Send) -> AgentResult:
        await send(Note(content="a choice"))
        seen.append(stage.session.file.read_text())
        await send(Done(content="done"))
        return EXIT

    stage = stage_for(tmp_path, implementer=[implement])
    await stage.run()
    head = "# Plan\n1. the task\n\n# Progress Log\n\n"
    assert seen == [f"{head}<NOTE>a choice</NOTE>\n\n"]
    assert stage.session.file.read_text() == (
        f"{head}<NOTE>a choice</NOTE>\n\n<DONE>done</DONE>\n\n<APPROVED>good</APPROVED>\n\n"
    )


async def test_the_planner_gets_the_latest_review_and_never_a_stale_one(tmp_path: Path, clock: MockClock) -> None:
    async def write_review(options: AgentOptions, send: Send) -> AgentResult:
        assert not options.writable[0].exists()
        options.writable[0].write_text("finding 1")
        await send(RequestChanges(content="summary"))
        return EXIT

    async def plan(options: AgentOptions, send: Send) -> AgentResult:
        review = stage.session.review
        reviews.append(review.read_text() if review.name in options.prompt else None)
        return await PLAN(options, send) or EXIT

    reviews: list[str | None] = []
    stage = stage_for(tmp_path, planner=[plan], reviewer=[write_review, REFUSE, APPROVE])
    await stage.run()
    assert reviews == [None, "finding 1", "the tests are missing\n"]


async def test_a_persons_review_is_input_for_the_first_planner(tmp_path: Path, clock: MockClock) -> None:
    stage = stage_for(tmp_path)
    await stage.run(Session.create(stage.project, "focus", review="look at line 3"))
    assert str(stage.session.review) in stage.troupe.played[0].options.prompt
    assert "look at line 3" not in stage.troupe.played[0].options.prompt


@pytest.mark.parametrize("role", ["planner", "implementer", "reviewer"])
async def test_a_spec_issue_stops_the_loop_at_once(tmp_path: Path, clock: MockClock, role: str) -> None:
    stage = stage_for(tmp_path, FULL, **{role: [says(SpecIssue(content="a and b exclude each other"))]})
    last = await stage.run()
    assert isinstance(last, LoopSpecIssue)
    assert stage.troupe.roles[-1] == role
    assert stage.events[-1] is last
    path = stage.project.spec_issues / last.filename
    assert path.read_text() == "a and b exclude each other\n"
    path.unlink()  # as if a crash had come before it was written
    for _ in range(2):
        stage.session.persist_issue()
    assert [found.name for found in stage.project.spec_issues.iterdir()] == [last.filename]


async def test_the_loop_ends_after_max_iterations(tmp_path: Path, clock: MockClock) -> None:
    stage = stage_for(tmp_path, Config(max_iterations=2), reviewer=[REFUSE])
    assert await stage.run() == LoopMaxIterations(iteration=2, max_iterations=2)
    assert stage.troupe.roles.count(Role.REVIEWER) == 2


async def test_a_failed_commit_is_reported_and_the_loop_continues(tmp_path: Path, clock: MockClock) -> None:
    stage = stage_for(tmp_path, FULL)
    stage.git.fails = "fatal: a hook said no"
    assert isinstance(await stage.run(), LoopApproved)
    assert CommitFailed(iteration=1, message="fatal: a hook said no") in stage.events


async def test_a_commit_that_hangs_is_reported_and_stopped(tmp_path: Path, clock: MockClock) -> None:
    async def hang(message: str, *, exclude: Sequence[Path]) -> str | None:
        del message, exclude
        await trio.sleep(10_000)
        return None

    stage = stage_for(tmp_path, Config(commit=True, limits=Limits(command_timeout=60)))
    stage.git.commit = hang  # type: ignore[method-assign]
    assert await stage.run() == LoopApproved(iteration=1)
    ends = {type(event).__name__: at for event, at in zip(stage.events, stage.times, strict=True)}
    assert (ends["SystemMessage"], ends["CommitFailed"]) == (10, 60)


async def test_check_output_reaches_the_next_agent_as_a_file(tmp_path: Path, clock: MockClock) -> None:
    stage = stage_for(tmp_path, msgspec.structs.replace(FULL, gate=False))
    stage.commands.exit_code = 3
    await stage.run()
    for played in stage.troupe.played[1:]:
        assert str(stage.session.check) in played.options.prompt
        assert "exited with 3" in played.options.prompt
        assert "output of check" not in played.options.prompt


async def test_only_the_first_terminal_marker_counts(tmp_path: Path, clock: MockClock) -> None:
    both = says(Progress(content="one"), Note(content="late"), Done(content="two"))
    stage = stage_for(tmp_path, FULL, implementer=[both, DONE])
    await stage.run()
    assert stage.git.commits == ["one", "all of it"]


# ---- agents that misbehave --------------------------------------------------------------------


async def test_an_agent_has_ten_seconds_to_exit_after_its_marker(tmp_path: Path, clock: MockClock) -> None:
    async def never_exits(_options: AgentOptions, send: Send) -> AgentResult:
        await send(Done(content="d"))
        while True:
            await send(ToolCall(id="1", name="Bash"))
            await trio.sleep(1)

    stage = stage_for(tmp_path, implementer=[never_exits])
    assert isinstance(await stage.run(), LoopApproved)
    assert stage.troupe.played[1].stopped
    assert trio.current_time() == 10.0


async def test_an_agent_without_a_marker_is_asked_again_in_its_conversation(tmp_path: Path, clock: MockClock) -> None:
    stage = stage_for(tmp_path, implementer=[says(AgentMessage(text="hm")), DONE])
    await stage.run()
    first, second = (played.options for played in stage.troupe.played[1:3])
    assert first.session_id is not None
    assert first.resume_session_id is None
    assert (second.session_id, second.resume_session_id) == (None, first.session_id)
    assert "<PROGRESS>…</PROGRESS>, <DONE>…</DONE>" in second.prompt
    [retry] = retries(stage)
    assert (retry.attempt, retry.delay) == (1, 0.0)
    assert "without a marker" in retry.reason


async def test_an_agent_that_did_nothing_starts_over_with_the_whole_prompt(tmp_path: Path, clock: MockClock) -> None:
    stage = stage_for(tmp_path, implementer=[says(), DONE])
    await stage.run()
    first, second = (played.options for played in stage.troupe.played[1:3])
    assert second.resume_session_id is None
    assert second.session_id not in (None, first.session_id)
    assert second.prompt == first.prompt


async def test_the_loop_fails_when_nudges_are_used_up(tmp_path: Path, clock: MockClock) -> None:
    config = Config(limits=Limits(nudges=2))
    stage = stage_for(tmp_path, config, implementer=[says(AgentMessage(text="I am lost"))])
    with pytest.raises(LoopError, match="I am lost") as caught:
        await stage.run()
    assert caught.value.phase == "implementer"
    assert stage.troupe.roles.count(Role.IMPLEMENTER) == 3
    last = stage.events[-1]
    assert isinstance(last, LoopFailed)
    assert "I am lost" in last.message
    assert f"{stage.session.id}.json" in stage.wip


async def test_silence_is_noticed_on_time_but_a_running_tool_is_activity(tmp_path: Path, clock: MockClock) -> None:
    async def build_then_silent(_options: AgentOptions, send: Send) -> AgentResult:
        await send(ToolCall(id="a", name="Bash"))
        await trio.sleep(5000)
        await send(ToolResult(id="a", output=""))
        for _ in range(10):
            await trio.sleep(1700)
            await send(PingEvent())
        await trio.sleep_forever()
        raise AssertionError

    config = Config(limits=Limits(idle_timeout=1800, agent_timeout=100_000))
    stage = stage_for(tmp_path, config, implementer=[build_then_silent, DONE])
    await stage.run()
    assert trio.current_time() == 5000 + 17_000 + 1800
    assert "silent for 1800 s" in retries(stage)[0].reason


async def test_an_agent_that_runs_too_long_is_stopped_even_while_a_tool_runs(tmp_path: Path, clock: MockClock) -> None:
    async def busy(_options: AgentOptions, send: Send) -> AgentResult:
        await send(ToolCall(id="a", name="Bash"))
        await trio.sleep_forever()
        raise AssertionError

    stage = stage_for(tmp_path, implementer=[busy, DONE])
    await stage.run()
    assert trio.current_time() == 7200
    assert "longer than 7200 s" in retries(stage)[0].reason


async def test_a_slow_display_does_not_count_as_silence(tmp_path: Path, clock: MockClock) -> None:
    async def slow_send(event: Event) -> None:
        if isinstance(event, AgentMessage):
            await trio.sleep(3000)
        await stage.send(event)

    stage = stage_for(tmp_path, implementer=[says(AgentMessage(text="a"), Done(content="d"))])
    await stage.run(send=slow_send)
    assert retries(stage) == []


async def test_an_overload_is_retried_in_the_same_conversation_and_iteration(tmp_path: Path, clock: MockClock) -> None:
    overloaded = says(AgentMessage(text="half"), then=LlmSessionError("529 Overloaded", LlmSessionErrorKind.OVERLOADED))
    stage = stage_for(tmp_path, Config(max_iterations=1), implementer=[overloaded, overloaded, DONE])
    await stage.run()
    first, second = retries(stage)
    assert (first.attempt, second.attempt) == (1, 2)
    assert 5 <= first.delay <= 6.25
    assert 10 <= second.delay <= 12.5
    assert trio.current_time() == pytest.approx(first.delay + second.delay)
    assert stage.troupe.played[3].options.resume_session_id == stage.troupe.played[1].options.session_id


@pytest.mark.parametrize(
    ("error", "starts"),
    [
        (LlmSessionError("529", LlmSessionErrorKind.OVERLOADED, advice="Try later."), 3),
        (LlmSessionError("Not logged in", LlmSessionErrorKind.SETUP, advice="Run `claude` and /login."), 1),
    ],
    ids=["after its retries", "a setup error at once"],
)
async def test_a_loop_that_fails_reports_reason_and_advice(
    tmp_path: Path, clock: MockClock, error: LlmSessionError, starts: int
) -> None:
    stage = stage_for(tmp_path, Config(limits=Limits(retries=2)), planner=[says(then=error)])
    with pytest.raises(LoopError, match=error.message) as caught:
        await stage.run()
    assert caught.value.kind is error.kind
    assert len(stage.troupe.played) == starts
    last = stage.events[-1]
    assert isinstance(last, LoopFailed)
    assert (last.iteration, last.phase) == (1, "planner")
    assert last.message.startswith(error.message)
    assert last.message.endswith(f"\n{error.advice}")


async def test_a_usage_limit_is_waited_out_until_30_seconds_after_its_reset(tmp_path: Path, clock: MockClock) -> None:
    resets = START + timedelta(hours=4)
    limited = says(then=LlmSessionError("session limit", LlmSessionErrorKind.USAGE_LIMIT, resets_at=resets))
    stage = stage_for(tmp_path, planner=[limited, PLAN])
    await stage.run()
    waiting = next(event for event in stage.events if isinstance(event, AgentWaiting))
    assert waiting == AgentWaiting(iteration=1, until=resets + timedelta(seconds=30), reason="session limit")
    assert stage.troupe.played[1].at == 4 * 3600 + 30


async def test_a_planner_without_a_plan_is_asked_again(tmp_path: Path, clock: MockClock) -> None:
    stage = stage_for(tmp_path, planner=[says(AgentMessage(text="…"), PlanComplete(content="")), PLAN])
    await stage.run()
    assert stage.troupe.roles.count(Role.PLANNER) == 2


async def test_without_a_plan_file_the_marker_is_the_plan(tmp_path: Path, clock: MockClock) -> None:
    stage = stage_for(tmp_path, planner=[says(PlanComplete(content="1. do it"))])
    await stage.run()
    assert stage.session.file.read_text().startswith("1. do it\n\n# Progress Log\n\n")


async def test_three_tasks_that_change_nothing_fail_the_loop(tmp_path: Path, clock: MockClock) -> None:
    stage = stage_for(tmp_path, implementer=[PROGRESS])
    stage.git.implementers_work = False
    with pytest.raises(LoopError, match="did not change"):
        await stage.run()
    assert stage.troupe.roles.count(Role.IMPLEMENTER) == 3
    assert stage.session.state.course.unchanged == 0  # whoever resumes it has looked at it


async def test_a_reviewer_that_changed_the_tree_is_reported(tmp_path: Path, clock: MockClock) -> None:
    async def meddle(_options: AgentOptions, send: Send) -> AgentResult:
        stage.git.tree += 1
        await send(Approved(content="good"))
        return EXIT

    stage = stage_for(tmp_path, reviewer=[meddle])
    await stage.run()
    assert stage.names.count("SystemMessage") == 1
    assert stage.names[-1] == "LoopApproved"


# ---- limits of the whole loop -----------------------------------------------------------------


async def test_no_reviewer_starts_while_the_check_fails(tmp_path: Path, clock: MockClock) -> None:
    async def fix(_options: AgentOptions, send: Send) -> AgentResult:
        stage.commands.exit_code = 0
        await send(Done(content="fixed"))
        return EXIT

    stage = stage_for(tmp_path, Config(check_command="check"), implementer=[DONE, DONE, fix])
    stage.commands.exit_code = 1
    assert await stage.run() == LoopApproved(iteration=1)
    roles = [Role.PLANNER, Role.IMPLEMENTER, Role.IMPLEMENTER, Role.IMPLEMENTER, Role.REVIEWER]
    assert stage.troupe.roles == roles
    prompts = [played.options.prompt for played in stage.troupe.played]
    assert all(
        ("exited with 1" in prompt) is (role is Role.IMPLEMENTER) for role, prompt in zip(roles, prompts, strict=True)
    )


async def test_an_approval_does_not_count_while_the_check_fails(tmp_path: Path, clock: MockClock) -> None:
    reviews: list[str] = []

    async def spoil(_options: AgentOptions, send: Send) -> AgentResult:
        stage.commands.exit_code = 7
        stage.git.tree += 1
        await send(Approved(content="good"))
        return EXIT

    async def replan(options: AgentOptions, send: Send) -> AgentResult:
        reviews.append(stage.session.review.read_text())
        assert str(stage.session.review) in options.prompt
        stage.commands.exit_code = 0
        return await PLAN(options, send) or EXIT

    stage = stage_for(tmp_path, Config(check_command="check"), planner=[PLAN, replan], reviewer=[spoil, APPROVE])
    assert await stage.run() == LoopApproved(iteration=2)
    assert reviews == ["The check command failed (exit 7). Its output:\n\noutput of check\n"]


async def test_without_the_gate_a_failing_check_stops_nothing(tmp_path: Path, clock: MockClock) -> None:
    stage = stage_for(tmp_path, Config(check_command="check", gate=False))
    stage.commands.exit_code = 1
    assert await stage.run() == LoopApproved(iteration=1)
    assert stage.troupe.roles == [Role.PLANNER, Role.IMPLEMENTER, Role.REVIEWER]


async def test_session_files_that_an_agent_deletes_are_written_again(tmp_path: Path, clock: MockClock) -> None:
    async def clean(_options: AgentOptions, send: Send) -> AgentResult:
        shutil.rmtree(stage.project.wip)
        await send(Progress(content="cleaned"))
        return EXIT

    async def empty(_options: AgentOptions, send: Send) -> AgentResult:
        assert stage.session.file.exists()
        await send(RequestChanges(content="the findings"))
        shutil.rmtree(stage.project.wip)
        return EXIT

    stage = stage_for(tmp_path, FULL, implementer=[clean, DONE], reviewer=[empty, APPROVE])
    assert await stage.run() == LoopApproved(iteration=2)
    assert "<DONE>all of it</DONE>\n\n<APPROVED>good</APPROVED>" in stage.session.file.read_text()
    assert find_session_state(stage).course == stage.session.state.course


async def test_a_session_that_cannot_be_written_fails_with_the_first_error(tmp_path: Path, clock: MockClock) -> None:
    async def block(_options: AgentOptions, send: Send) -> AgentResult:
        shutil.rmtree(stage.project.wip)
        stage.project.wip.write_text("in the way")
        await send(Done(content="done"))
        return EXIT

    stage = stage_for(tmp_path, implementer=[block, DONE])
    with pytest.raises(LoopError, match="wip cannot be created"):
        await stage.run()
    assert isinstance(stage.events[-1], LoopFailed)
    stage.project.wip.unlink()
    assert await stage.run(stage.session) == LoopApproved(iteration=1)


def find_session_state(stage: Stage) -> SessionState:
    return load(stage.project.wip / f"{stage.session.id}.json", SessionState)


async def test_the_cost_limit_ends_the_loop_before_the_next_agent(tmp_path: Path, clock: MockClock) -> None:
    costly = says(UsageReport(cost_usd=1.5), Progress(content="p"))
    stage = stage_for(tmp_path, Config(limits=Limits(max_cost_usd=4.0)), implementer=[costly])
    assert await stage.run() == LoopLimitReached(iteration=1, limit="maxCostUsd", value=4.5)
    assert [played.options.budget_usd for played in stage.troupe.played] == [4.0, 4.0, 2.5, 1.0]
    assert f"{stage.session.id}.json" in stage.wip


async def test_no_agent_is_announced_that_the_budget_does_not_allow(tmp_path: Path, clock: MockClock) -> None:
    dear = says(Done(content="done"), UsageReport(cost_usd=2.0))
    stage = stage_for(tmp_path, Config(limits=Limits(max_cost_usd=1.0)), implementer=[dear])
    assert isinstance(await stage.run(), LoopLimitReached)
    assert "ReviewingStart" not in stage.names


async def test_the_runtime_limit_ends_the_loop(tmp_path: Path, clock: MockClock) -> None:
    async def slow(_options: AgentOptions, send: Send) -> AgentResult:
        await send(ToolCall(id="a", name="Bash"))
        await trio.sleep(400)
        await send(Progress(content="p"))
        return EXIT

    stage = stage_for(tmp_path, Config(limits=Limits(max_runtime=1000)), implementer=[slow])
    last = await stage.run()
    assert last == LoopLimitReached(iteration=1, limit="maxRuntime", value=1000)
    assert trio.current_time() == stage.session.state.elapsed == 1000
    assert stage.events[-1] is last


# ---- interrupted and resumed ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("start", "commands"),
    [
        ("PlanningStart", ["setup", "check", "check"]),
        ("ImplementingStart", ["setup", "check"]),
        ("ReviewingStart", ["setup"]),
    ],
)
async def test_an_interrupted_session_resumes_with_the_interrupted_step(
    tmp_path: Path, start: str, commands: list[str]
) -> None:
    """What setup had left running ended with the interruption, so a resumed session sets up again."""

    async def interrupt(event: Event) -> None:
        await stage.send(event)
        if stage.names[-1] == start:
            scope.cancel()
            await trio.lowlevel.checkpoint()

    stage = stage_for(tmp_path, FULL)
    with trio.CancelScope() as scope:
        await stage.run(send=interrupt)
    assert scope.cancelled_caught
    assert stage.commands.left_running == 0
    stage.events.clear()
    stage.commands.run_commands.clear()
    assert isinstance(await stage.run(find_session(stage.project)), LoopApproved)
    resumed = start != "PlanningStart"  # no planner had started working
    assert stage.events[0] == LoopStart(iteration=1, focus="the focus", backlog_file=None, resumed=resumed)
    assert stage.names[1] == "IterationStart"
    assert stage.troupe.roles.count(Role.PLANNER) == stage.troupe.roles.count(Role.IMPLEMENTER) == 1
    assert stage.git.commits == ["all of it"]
    assert stage.commands.run_commands == commands


async def test_time_and_cost_add_up_over_an_interruption(tmp_path: Path, clock: MockClock) -> None:
    async def works(_options: AgentOptions, send: Send) -> AgentResult:
        await send(UsageReport(cost_usd=1.0))
        await trio.sleep(100)
        return EXIT

    stage = stage_for(tmp_path, planner=[works])
    for runs in (1, 2):
        with trio.move_on_after(60):
            await stage.run(None if runs == 1 else find_session(stage.project))
        state = find_session(stage.project).state
        assert (state.elapsed, state.cost_usd) == (60 * runs, 1.0 * runs)


def test_a_sessions_state_survives_its_file(tmp_path: Path) -> None:
    stage = stage_for(tmp_path)
    session = Session.create(stage.project, "focus", backlog_file="a.md", backlog_hash="00")
    session.update(cost_usd=0.25, baseline="c0")
    path = stage.project.wip / f"{session.id}.json"
    assert msgspec.json.decode(path.read_bytes(), type=SessionState) == session.state
