"""The loop on the virtual clock, with agents that play a part."""

from __future__ import annotations

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
from cuggino.loop.loop import run_loop
from cuggino.loop.session import Session, SessionState, find_session
from cuggino.roles import Role
from tests.unit.stage import START, Stage, Troupe, plans, says

PLAN = plans(PlanComplete(content="planned"))
PROGRESS = says(Note(content="seen"), Progress(content="first task"))
DONE = says(Done(content="all of it"))
APPROVE = says(Approved(content="good"))
REFUSE = says(RequestChanges(content="the tests are missing"))

FULL = Config(setup_command="setup", check_command="check", commit=True)


def session_of(stage: Stage, focus: str = "the focus") -> Session:
    return Session.create(stage.project, focus)


async def test_the_whole_loop_in_order(tmp_path: Path, autojump_clock: MockClock) -> None:
    stage = Stage(
        tmp_path,
        Troupe(planner=[PLAN], implementer=[PROGRESS, DONE, DONE], reviewer=[REFUSE, APPROVE]),
        FULL,
    )
    session = session_of(stage)
    last = await run_loop(stage.context, session, stage.send)
    assert last == LoopApproved(iteration=2)
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
    session.delete()
    assert stage.wip == []


async def test_without_commands_and_commits_there_are_no_such_phases(tmp_path: Path, autojump_clock: MockClock) -> None:
    stage = Stage(tmp_path, Troupe(planner=[PLAN], implementer=[DONE], reviewer=[APPROVE]))
    await run_loop(stage.context, session_of(stage), stage.send)
    assert stage.names == [
        *["LoopStart", "IterationStart", "PlanningStart", "PlanComplete", "ImplementingStart", "Done"],
        *["ReviewingStart", "Approved", "LoopApproved"],
    ]
    assert stage.commands.run_commands == []
    assert stage.git.commits == []


async def test_a_loop_says_first_what_it_is_about(tmp_path: Path, autojump_clock: MockClock) -> None:
    stage = Stage(tmp_path, Troupe(planner=[PLAN], implementer=[DONE], reviewer=[APPROVE]))
    session = Session.create(stage.project, "@the/item.md", backlog_file="item.md", backlog_hash="1")
    await run_loop(stage.context, session, stage.send)
    assert stage.events[0] == LoopStart(iteration=1, focus="@the/item.md", backlog_file="item.md", resumed=False)


async def test_the_session_file_is_the_plan_and_every_marker_as_it_is_emitted(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    seen: list[str] = []

    async def implement(_options: AgentOptions, send: Send) -> AgentResult:
        await send(Note(content="a choice"))
        seen.append(session.file.read_text())
        await send(Done(content="done"))
        return AgentResult(exit_status=0)

    stage = Stage(tmp_path, Troupe(planner=[PLAN], implementer=[implement], reviewer=[APPROVE]))
    session = session_of(stage)
    await run_loop(stage.context, session, stage.send)
    head = "# Plan\n1. the task\n\n# Progress Log\n\n"
    assert seen == [f"{head}<NOTE>a choice</NOTE>\n\n"]
    assert session.file.read_text() == (
        f"{head}<NOTE>a choice</NOTE>\n\n<DONE>done</DONE>\n\n<APPROVED>good</APPROVED>\n\n"
    )


async def test_the_review_that_a_reviewer_wrote_reaches_the_planner_and_a_stale_one_never(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async def write_review(options: AgentOptions, send: Send) -> AgentResult:
        assert not options.writable[0].exists()
        options.writable[0].write_text("finding 1")
        await send(RequestChanges(content="summary"))
        return AgentResult(exit_status=0)

    async def plan(options: AgentOptions, send: Send) -> AgentResult:
        reviews.append(session.review.read_text() if session.review.name in options.prompt else None)
        return await PLAN(options, send) or AgentResult(exit_status=0)

    reviews: list[str | None] = []
    stage = Stage(tmp_path, Troupe(planner=[plan], implementer=[DONE], reviewer=[write_review, REFUSE, APPROVE]))
    session = session_of(stage)
    await run_loop(stage.context, session, stage.send)
    assert reviews == [None, "finding 1", "the tests are missing\n"]


async def test_a_persons_review_is_the_first_planners_input(tmp_path: Path, autojump_clock: MockClock) -> None:
    stage = Stage(tmp_path, Troupe(planner=[PLAN], implementer=[DONE], reviewer=[APPROVE]))
    session = Session.create(stage.project, "focus", review="look at line 3")
    await run_loop(stage.context, session, stage.send)
    assert str(session.review) in stage.troupe.played[0].options.prompt
    assert "look at line 3" not in stage.troupe.played[0].options.prompt


@pytest.mark.parametrize("role", ["planner", "implementer", "reviewer"])
async def test_a_spec_issue_stops_the_loop_at_once(tmp_path: Path, autojump_clock: MockClock, role: str) -> None:
    parts = {"planner": [PLAN], "implementer": [DONE], "reviewer": [APPROVE]}
    stage = Stage(tmp_path, Troupe(**parts | {role: [says(SpecIssue(content="a and b exclude each other"))]}), FULL)
    session = session_of(stage)
    last = await run_loop(stage.context, session, stage.send)
    assert isinstance(last, LoopSpecIssue)
    assert stage.troupe.roles[-1] == role
    assert (stage.project.spec_issues / last.filename).read_text() == "a and b exclude each other\n"
    assert stage.events[-1] is last


async def test_max_iterations(tmp_path: Path, autojump_clock: MockClock) -> None:
    config = Config(max_iterations=2)
    stage = Stage(tmp_path, Troupe(planner=[PLAN], implementer=[DONE], reviewer=[REFUSE]), config)
    last = await run_loop(stage.context, session_of(stage), stage.send)
    assert last == LoopMaxIterations(iteration=2, max_iterations=2)
    assert stage.troupe.roles.count(Role.REVIEWER) == 2


async def test_a_commit_that_fails_is_told_and_the_loop_goes_on(tmp_path: Path, autojump_clock: MockClock) -> None:
    stage = Stage(tmp_path, Troupe(planner=[PLAN], implementer=[DONE], reviewer=[APPROVE]), FULL)
    stage.git.fails = "fatal: a hook said no"
    last = await run_loop(stage.context, session_of(stage), stage.send)
    assert isinstance(last, LoopApproved)
    assert CommitFailed(iteration=1, message="fatal: a hook said no") in stage.events


async def test_check_output_reaches_the_next_agent_as_a_file_not_as_text(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    stage = Stage(tmp_path, Troupe(planner=[PLAN], implementer=[DONE], reviewer=[APPROVE]), FULL)
    stage.commands.exit_code = 3
    session = session_of(stage)
    await run_loop(stage.context, session, stage.send)
    for played in stage.troupe.played[1:]:
        assert str(session.check) in played.options.prompt
        assert "exited with 3" in played.options.prompt
        assert "output of check" not in played.options.prompt


async def test_the_first_terminal_marker_counts_and_later_ones_are_ignored(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    both = says(Progress(content="one"), Note(content="late"), Done(content="two"))
    stage = Stage(tmp_path, Troupe(planner=[PLAN], implementer=[both, DONE], reviewer=[APPROVE]), FULL)
    await run_loop(stage.context, session_of(stage), stage.send)
    assert stage.git.commits == ["one", "all of it"]
    assert [event for event in stage.events if isinstance(event, Done)] == [Done(content="all of it")]


async def test_an_error_after_the_terminal_marker_does_not_matter(tmp_path: Path, autojump_clock: MockClock) -> None:
    late = says(Done(content="d"), then=LlmSessionError("boom", LlmSessionErrorKind.OVERLOADED))
    stage = Stage(tmp_path, Troupe(planner=[PLAN], implementer=[late], reviewer=[APPROVE]))
    assert isinstance(await run_loop(stage.context, session_of(stage), stage.send), LoopApproved)


# ---- agents that do not behave ----------------------------------------------------------------


async def test_an_agent_that_goes_on_after_its_marker_has_ten_seconds(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async def never_ends(_options: AgentOptions, send: Send) -> AgentResult:
        await send(Done(content="d"))
        while True:
            await send(ToolCall(id="1", name="Bash"))
            await trio.sleep(1)

    stage = Stage(tmp_path, Troupe(planner=[PLAN], implementer=[never_ends], reviewer=[APPROVE]))
    assert isinstance(await run_loop(stage.context, session_of(stage), stage.send), LoopApproved)
    assert stage.troupe.played[1].stopped
    assert trio.current_time() == 10.0


async def test_without_a_marker_it_is_asked_again_in_the_same_conversation(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    stage = Stage(
        tmp_path,
        Troupe(planner=[PLAN], implementer=[says(AgentMessage(text="hm")), DONE], reviewer=[APPROVE]),
    )
    await run_loop(stage.context, session_of(stage), stage.send)
    first, second = (played.options for played in stage.troupe.played[1:3])
    assert first.session_id is not None
    assert first.resume_session_id is None
    assert (second.session_id, second.resume_session_id) == (None, first.session_id)
    assert "<PROGRESS>…</PROGRESS>, <DONE>…</DONE>" in second.prompt
    retry = next(event for event in stage.events if isinstance(event, AgentRetry))
    assert (retry.attempt, retry.delay) == (1, 0.0)
    assert "without a marker" in retry.reason


async def test_an_agent_that_never_spoke_starts_afresh_with_the_whole_prompt(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    stage = Stage(tmp_path, Troupe(planner=[PLAN], implementer=[says(), DONE], reviewer=[APPROVE]))
    await run_loop(stage.context, session_of(stage), stage.send)
    first, second = (played.options for played in stage.troupe.played[1:3])
    assert second.resume_session_id is None
    assert second.session_id not in (None, first.session_id)
    assert second.prompt == first.prompt


async def test_nudges_come_to_an_end(tmp_path: Path, autojump_clock: MockClock) -> None:
    config = Config(limits=Limits(nudges=2))
    stage = Stage(
        tmp_path, Troupe(planner=[PLAN], implementer=[says(AgentMessage(text="I am lost"))], reviewer=[APPROVE]), config
    )
    session = session_of(stage)
    with pytest.raises(LoopError, match="I am lost") as caught:
        await run_loop(stage.context, session, stage.send)
    assert caught.value.phase == "implementer"
    assert stage.troupe.roles.count(Role.IMPLEMENTER) == 3
    last = stage.events[-1]
    assert isinstance(last, LoopFailed)
    assert "I am lost" in last.message
    assert f"{session.id}.json" in stage.wip


async def test_silence_is_noticed_on_time_and_a_running_tool_is_not_silence(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
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
    stage = Stage(tmp_path, Troupe(planner=[PLAN], implementer=[build_then_silent, DONE], reviewer=[APPROVE]), config)
    await run_loop(stage.context, session_of(stage), stage.send)
    assert trio.current_time() == 5000 + 17_000 + 1800
    retry = next(event for event in stage.events if isinstance(event, AgentRetry))
    assert "silent for 1800 s" in retry.reason


async def test_an_agent_that_runs_too_long_is_stopped_even_while_a_tool_runs(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async def busy(_options: AgentOptions, send: Send) -> AgentResult:
        await send(ToolCall(id="a", name="Bash"))
        await trio.sleep_forever()
        raise AssertionError

    stage = Stage(tmp_path, Troupe(planner=[PLAN], implementer=[busy, DONE], reviewer=[APPROVE]))
    await run_loop(stage.context, session_of(stage), stage.send)
    assert trio.current_time() == 7200
    retry = next(event for event in stage.events if isinstance(event, AgentRetry))
    assert "longer than 7200 s" in retry.reason


async def test_a_slow_display_is_not_an_agents_silence(tmp_path: Path, autojump_clock: MockClock) -> None:
    async def slow_send(event: Event) -> None:
        if isinstance(event, AgentMessage):
            await trio.sleep(3000)
        await stage.send(event)

    words = says(AgentMessage(text="a"), Done(content="d"))
    stage = Stage(tmp_path, Troupe(planner=[PLAN], implementer=[words], reviewer=[APPROVE]))
    await run_loop(stage.context, session_of(stage), slow_send)
    assert not any(isinstance(event, AgentRetry) for event in stage.events)


async def test_an_overload_is_retried_in_the_same_conversation_and_uses_no_iteration(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    overloaded = says(AgentMessage(text="half"), then=LlmSessionError("529 Overloaded", LlmSessionErrorKind.OVERLOADED))
    config = Config(max_iterations=1)
    stage = Stage(
        tmp_path, Troupe(planner=[PLAN], implementer=[overloaded, overloaded, DONE], reviewer=[APPROVE]), config
    )
    await run_loop(stage.context, session_of(stage), stage.send)
    retries = [event for event in stage.events if isinstance(event, AgentRetry)]
    assert [retry.attempt for retry in retries] == [1, 2]
    assert 5 <= retries[0].delay <= 6.25
    assert 10 <= retries[1].delay <= 12.5
    assert trio.current_time() == pytest.approx(sum(retry.delay for retry in retries))
    assert stage.troupe.played[3].options.resume_session_id == stage.troupe.played[1].options.session_id


async def test_retries_come_to_an_end_with_the_reason(tmp_path: Path, autojump_clock: MockClock) -> None:
    down = says(then=LlmSessionError("529 Overloaded", LlmSessionErrorKind.OVERLOADED, advice="Try later."))
    stage = Stage(tmp_path, Troupe(planner=[down]), Config(limits=Limits(retries=2)))
    with pytest.raises(LoopError, match="529 Overloaded") as caught:
        await run_loop(stage.context, session_of(stage), stage.send)
    assert caught.value.kind is LlmSessionErrorKind.OVERLOADED
    assert len(stage.troupe.played) == 3


async def test_a_usage_limit_is_waited_for_until_shortly_after_its_reset(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    resets = START + timedelta(hours=4)
    limited = says(then=LlmSessionError("session limit", LlmSessionErrorKind.USAGE_LIMIT, resets_at=resets))
    stage = Stage(tmp_path, Troupe(planner=[limited, PLAN], implementer=[DONE], reviewer=[APPROVE]))
    await run_loop(stage.context, session_of(stage), stage.send)
    waiting = next(event for event in stage.events if isinstance(event, AgentWaiting))
    assert waiting == AgentWaiting(iteration=1, until=resets + timedelta(seconds=30), reason="session limit")
    assert stage.troupe.played[1].at == 4 * 3600 + 30


async def test_a_setup_error_is_not_retried_and_its_advice_is_shown(tmp_path: Path, autojump_clock: MockClock) -> None:
    no_key = says(then=LlmSessionError("Not logged in", LlmSessionErrorKind.SETUP, advice="Run `claude` and /login."))
    stage = Stage(tmp_path, Troupe(planner=[no_key]))
    with pytest.raises(LoopError, match="Not logged in"):
        await run_loop(stage.context, session_of(stage), stage.send)
    assert len(stage.troupe.played) == 1
    assert stage.events[-1] == LoopFailed(
        iteration=1, phase="planner", message="Not logged in\nRun `claude` and /login."
    )


async def test_a_planner_that_wrote_no_plan_is_asked_again(tmp_path: Path, autojump_clock: MockClock) -> None:
    empty = says(AgentMessage(text="…"), PlanComplete(content=""))
    stage = Stage(tmp_path, Troupe(planner=[empty, PLAN], implementer=[DONE], reviewer=[APPROVE]))
    await run_loop(stage.context, session_of(stage), stage.send)
    assert stage.troupe.roles.count(Role.PLANNER) == 2


async def test_a_plan_that_was_only_said_is_the_plan(tmp_path: Path, autojump_clock: MockClock) -> None:
    said = says(PlanComplete(content="1. do it"))
    stage = Stage(tmp_path, Troupe(planner=[said], implementer=[DONE], reviewer=[APPROVE]))
    session = session_of(stage)
    await run_loop(stage.context, session, stage.send)
    assert session.file.read_text().startswith("1. do it\n\n# Progress Log\n\n")


async def test_progress_without_any_change_of_the_tree_fails_after_three(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    stage = Stage(tmp_path, Troupe(planner=[PLAN], implementer=[PROGRESS], reviewer=[APPROVE]))
    stage.git.implementers_work = False
    session = session_of(stage)
    with pytest.raises(LoopError, match="did not change"):
        await run_loop(stage.context, session, stage.send)
    assert stage.troupe.roles.count(Role.IMPLEMENTER) == 3
    assert session.state.course.unchanged == 0  # who goes on with it has looked at it


async def test_a_reviewer_that_changed_the_tree_is_reported(tmp_path: Path, autojump_clock: MockClock) -> None:
    async def meddle(_options: AgentOptions, send: Send) -> AgentResult:
        stage.git.tree += 1
        await send(Approved(content="good"))
        return AgentResult(exit_status=0)

    stage = Stage(tmp_path, Troupe(planner=[PLAN], implementer=[DONE], reviewer=[meddle]))
    await run_loop(stage.context, session_of(stage), stage.send)
    assert stage.names.count("SystemMessage") == 1
    assert stage.names[-1] == "LoopApproved"


# ---- limits of the whole loop -----------------------------------------------------------------


async def test_the_cost_of_all_agents_together_ends_the_loop_before_the_next_starts(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    costly = says(UsageReport(cost_usd=1.5), Progress(content="p"))
    config = Config(limits=Limits(max_cost_usd=4.0))
    stage = Stage(tmp_path, Troupe(planner=[PLAN], implementer=[costly], reviewer=[APPROVE]), config)
    session = session_of(stage)
    last = await run_loop(stage.context, session, stage.send)
    assert last == LoopLimitReached(iteration=1, limit="maxCostUsd", value=4.5)
    assert [played.options.budget_usd for played in stage.troupe.played] == [4.0, 4.0, 2.5, 1.0]
    assert f"{session.id}.json" in stage.wip


async def test_the_time_of_the_whole_loop_ends_it(tmp_path: Path, autojump_clock: MockClock) -> None:
    async def slow(_options: AgentOptions, send: Send) -> AgentResult:
        await send(ToolCall(id="a", name="Bash"))
        await trio.sleep(400)
        await send(Progress(content="p"))
        return AgentResult(exit_status=0)

    config = Config(limits=Limits(max_runtime=1000))
    stage = Stage(tmp_path, Troupe(planner=[PLAN], implementer=[slow], reviewer=[APPROVE]), config)
    session = session_of(stage)
    last = await run_loop(stage.context, session, stage.send)
    assert last == LoopLimitReached(iteration=1, limit="maxRuntime", value=1000)
    assert trio.current_time() == 1000
    assert session.state.elapsed == 1000
    assert stage.events[-1] is last


# ---- interrupted and gone on with -------------------------------------------------------------


async def interrupt_in(stage: Stage, session: Session, role: Role) -> None:
    """Cancel the loop as soon as an agent of this role runs."""

    async def send(event: Event) -> None:
        await stage.send(event)
        if stage.names[-1] == {"planner": "PlanningStart", "implementer": "ImplementingStart"}.get(
            role, "ReviewingStart"
        ):
            scope.cancel()
            await trio.lowlevel.checkpoint()

    with trio.CancelScope() as scope:
        await run_loop(stage.context, session, send)
    assert scope.cancelled_caught


@pytest.mark.parametrize(
    ("role", "planners", "implementers"),
    [(Role.PLANNER, 1, 1), (Role.IMPLEMENTER, 1, 1), (Role.REVIEWER, 1, 1)],
)
async def test_an_interrupted_session_goes_on_with_the_step_that_was_interrupted(
    tmp_path: Path, role: Role, planners: int, implementers: int
) -> None:
    stage = Stage(tmp_path, Troupe(planner=[PLAN], implementer=[DONE], reviewer=[APPROVE]), FULL)
    await interrupt_in(stage, session_of(stage, "go on"), role)
    assert stage.commands.left_running == 0
    again = find_session(stage.project)
    assert again.state.focus == "go on"
    stage.events.clear()
    assert isinstance(await run_loop(stage.context, again, stage.send), LoopApproved)
    resumed = role is not Role.PLANNER  # no planner had begun to work
    assert stage.events[0] == LoopStart(iteration=1, focus="go on", backlog_file=None, resumed=resumed)
    assert stage.names[1] == "IterationStart"
    assert stage.troupe.roles.count(Role.PLANNER) == planners
    assert stage.troupe.roles.count(Role.IMPLEMENTER) == implementers
    assert stage.git.commits == ["all of it"]


async def test_going_on_sets_up_again_since_what_setup_left_running_is_gone(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    stage = Stage(tmp_path, Troupe(planner=[PLAN], implementer=[DONE], reviewer=[APPROVE]), FULL)
    await interrupt_in(stage, session_of(stage), Role.IMPLEMENTER)
    stage.commands.run_commands.clear()
    await run_loop(stage.context, find_session(stage.project), stage.send)
    assert stage.commands.run_commands == ["setup", "check"]


async def test_time_and_cost_go_on_counting_over_an_interruption(tmp_path: Path, autojump_clock: MockClock) -> None:
    async def works(_options: AgentOptions, send: Send) -> AgentResult:
        await send(UsageReport(cost_usd=1.0))
        await trio.sleep(100)
        return AgentResult(exit_status=0)

    stage = Stage(tmp_path, Troupe(planner=[works]))
    session = session_of(stage)
    with trio.move_on_after(60):
        await run_loop(stage.context, session, stage.send)
    again = find_session(stage.project)
    assert (again.state.elapsed, again.state.cost_usd) == (60, 1.0)


async def test_a_spec_issue_whose_file_was_not_written_before_a_crash_is_written_by_doing_it_again(
    tmp_path: Path,
) -> None:
    stage = Stage(tmp_path, Troupe(planner=[says(SpecIssue(content="why"))]))
    session = session_of(stage)
    last = await run_loop(stage.context, session, stage.send)
    assert isinstance(last, LoopSpecIssue)
    path = stage.project.spec_issues / last.filename
    path.unlink()
    session.persist_issue()
    session.persist_issue()
    assert [found.name for found in stage.project.spec_issues.iterdir()] == [last.filename]


def test_a_sessions_state_survives_its_file(tmp_path: Path) -> None:
    stage = Stage(tmp_path, Troupe())
    session = Session.create(stage.project, "focus", backlog_file="a.md", backlog_hash="00")
    session.update(cost_usd=0.25, baseline="c0")
    path = stage.project.wip / f"{session.id}.json"
    assert msgspec.json.decode(path.read_bytes(), type=SessionState) == session.state
