"""The whole loop with the real claude: files, commits, logs, events; which text counts and which does not."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import trio

from cuggino.events import (
    AgentMessage,
    AgentRetry,
    CommitPerformed,
    LoopFailed,
    LoopLimitReached,
    LoopSpecIssue,
    SpecIssue,
    SystemMessage,
    ToolCall,
    ToolResult,
    UsageReport,
)
from tests.e2e.house import APPROVE, PLAN, bash, claude_house, issue, read, write
from tests.e2e.loopback import Say, Script, Spent, Stall, Use

pytestmark = pytest.mark.e2e

RUN = ("run", "--focus", "the work")


# ---- to the end -------------------------------------------------------------------------------

PLANNER: list[Script] = [
    [[bash("ls"), write("{plan}", "# Plan\n1. One\n2. Two\n")], [Say("<PLAN_COMPLETE>Two tasks</PLAN_COMPLETE>")]],
    [
        [read("{review}")],
        [write("{plan}", "# Plan\n1. Three\n")],
        [Say("<PLAN_COMPLETE>One task</PLAN_COMPLETE>")],
    ],
]
IMPLEMENTER: list[Script] = [
    [
        [read("{session}"), read("{check}"), read("{project}/README.md")],
        [Say("<NOTE>Number one is chosen.</NOTE>\nI write."), write("{project}/src/one.txt", "one\n")],
        [Use("Edit", {"file_path": "{project}/README.md", "old_string": "old", "new_string": "new"})],
        [bash("rm gone.txt && echo changed >> .specs/app.md && echo agent > .specs/agent.md")],
        [Say("<PROGRESS>-- Add one\n\nIt was missing: “ü”.</PROGRESS>")],
    ],
    [[read("{session}")], [bash("echo two > two.txt")], [Say("<DONE>Add two</DONE>")]],
    [[bash("echo three > three.txt")], [Say("<DONE>Add three</DONE>")]],
]
REVIEWER: list[Script] = [
    [
        [bash("git diff --stat HEAD~2..HEAD")],
        [write("{review}", "# Review\nThe third file is missing.\n")],
        [Say("<REQUEST_CHANGES>Not yet</REQUEST_CHANGES>")],
    ],
    APPROVE,
]


async def test_a_focus_is_planned_implemented_sent_back_planned_again_and_approved(
    tmp_path: Path, claude_path: Path
) -> None:
    with claude_house(
        tmp_path,
        claude_path,
        planner=PLANNER,
        implementer=IMPLEMENTER,
        reviewer=REVIEWER,
        commit=True,
        setupCommand="echo set up",
        checkCommand="echo from the check; echo aside >&2; exit 3",
        gate=False,
    ) as house:
        (house.root / "README.md").write_text("old words\n")
        (house.root / "gone.txt").write_text("x\n")
        house.git("add", ".")
        house.git("commit", "-qm", "more")
        baseline = house.git("rev-parse", "HEAD").strip()
        (house.root / ".specs" / "staged.md").write_text("staged by a person\n")
        house.git("add", ".specs/staged.md")
        with trio.fail_after(90):
            finished = await house.run(*RUN, "--json")
        assert finished.code == 0, finished.err

        # the files and commits are there, and nothing of the specs or of cuggino's in them
        assert {path: (house.root / path).read_text() for path in ("README.md", "src/one.txt", "two.txt")} == {
            "README.md": "new words\n",
            "src/one.txt": "one\n",
            "two.txt": "two\n",
        }
        assert house.commits[1:] == ["-- Add one\n\nIt was missing: “ü”.\n", "Add two\n", "Add three\n"]
        changed = house.git("log", "--reverse", "--format=%s", "--name-status", f"{baseline}..HEAD").split()
        assert " ".join(changed) == (
            "-- Add one M README.md D gone.txt A src/one.txt Add two A two.txt Add three A three.txt"
        )
        status = house.git("status", "--porcelain").splitlines()
        assert status == [" M .specs/app.md", "A  .specs/staged.md", "?? .specs/agent.md"]
        assert house.wip == []
        assert house.left() == []

        # every event was sent, in order, and the log has the same
        assert [name for name in finished.names if name not in ("ToolCall", "ToolResult", "UsageReport")] == [
            *("LoopStart", "IterationStart", "PlanningStart", "SystemMessage", "PlanComplete"),
            *("SetupCommandOutput", "CheckCommandOutput"),
            *("ImplementingStart", "SystemMessage", "Note", "AgentMessage", "Progress", "CommitPerformed"),
            *("CheckCommandOutput", "ImplementingStart", "SystemMessage", "Done", "CommitPerformed"),
            *("CheckCommandOutput", "ReviewingStart", "SystemMessage", "RequestChanges"),
            *("IterationStart", "PlanningStart", "SystemMessage", "PlanComplete"),
            *("SetupCommandOutput", "CheckCommandOutput"),
            *("ImplementingStart", "SystemMessage", "Done", "CommitPerformed"),
            *("CheckCommandOutput", "ReviewingStart", "SystemMessage", "Approved"),
            "LoopApproved",
        ]
        assert [line.event for line in house.logged()] == finished.events
        assert len({line.session for line in house.logged()}) == 1
        hashes = [event.commit_hash for event in finished.events if isinstance(event, CommitPerformed)]
        assert hashes == house.git("rev-list", "--reverse", f"{baseline}..HEAD").split()
        words = finished.names.index("Note")
        assert finished.names[words : words + 4] == ["Note", "AgentMessage", "ToolCall", "ToolResult"]
        calls = [event.id for event in finished.events if isinstance(event, ToolCall)]
        results = [event for event in finished.events if isinstance(event, ToolResult)]
        assert sorted(calls) == sorted(result.id for result in results)
        assert not any(result.is_error for result in results)
        assert all(event.cost_usd for event in finished.events if isinstance(event, UsageReport))

        # each agent was given what it needs, and no text of other origin
        assert house.agents == [
            *("planner", "implementer", "implementer", "reviewer"),
            *("planner", "implementer", "reviewer"),
        ]
        first, second = (request for request in house.requests("planner") if request.turn == 0)
        assert first.first_user.endswith("The focus:\n\nthe work")
        assert "review" not in first.first_user
        assert ".review.md" in second.first_user
        assert "The third file is missing." in house.requests("planner")[-1].tool_results[0]
        read_by_one, read_by_two = (house.requests("implementer")[n].tool_results for n in (1, 6))
        assert "2. Two" in "".join(read_by_one)
        assert re.search(r"from the check\n.*aside", "".join(read_by_one))
        assert "Number one" not in "".join(read_by_one)
        assert "<NOTE>Number one is chosen.</NOTE>" in read_by_two[0]
        assert "<PROGRESS>-- Add one" in read_by_two[0]
        for request in house.server.requests:
            assert "from the check" not in request.system + "".join(request.users)
            assert "The third file is missing." not in request.system + "".join(request.users)
        review = house.requests("reviewer")[0].first_user
        assert f"git diff {baseline}..HEAD" in review
        assert "exited with 3" in review


async def test_changes_without_a_review_and_the_last_iteration(tmp_path: Path, claude_path: Path) -> None:
    """The marker's content becomes the review. The end after maxIterations has its own exit code."""
    changes: Script = [[Say("<REQUEST_CHANGES>The marker's own words.</REQUEST_CHANGES>")]]
    planner: list[Script] = [PLAN, [[read("{review}")], [Say("<PLAN_COMPLETE>2. Again.</PLAN_COMPLETE>")]]]
    with claude_house(tmp_path, claude_path, planner=planner, reviewer=[changes], maxIterations=2) as house:
        with trio.fail_after(60):
            finished = await house.run(*RUN, "--json")
        assert finished.code == 5, finished.err
        assert finished.names[-1] == "LoopMaxIterations"
        assert finished.names.count("IterationStart") == 2
        assert "The marker's own words." in house.requests("planner")[-1].tool_results[0]
        assert house.wip == []


@pytest.mark.parametrize("role", ["planner", "implementer", "reviewer"])
async def test_a_spec_issue_of_any_role_ends_the_loop_and_is_kept(tmp_path: Path, claude_path: Path, role: str) -> None:
    text = "app.md says A in line 1\n\nand not A in line 2."
    scripts: Any = {role: [[[Say("Hm."), issue(f"\n{text}\n")]]]}
    with claude_house(tmp_path, claude_path, **scripts) as house:
        with trio.fail_after(60):
            finished = await house.run(*RUN, "--json")
        assert finished.code == 4, finished.err
        last = finished.events[-1]
        assert isinstance(last, LoopSpecIssue)
        [file] = (house.state / "spec-issues").iterdir()
        assert (last.content, last.filename) == (text, file.name)
        assert file.read_text() == f"{text}\n"
        assert house.agents[-1] == role
        assert house.wip == []


# ---- which words count ------------------------------------------------------------------------


async def test_an_agent_that_ended_without_a_marker_is_asked_again_in_the_same_conversation(
    tmp_path: Path, claude_path: Path
) -> None:
    fenced = "An example:\n\n```\n<SPEC_ISSUE>in a fence</SPEC_ISSUE>\n```\n"
    script: Script = [[Say(fenced)], [Say("Like `<SPEC_ISSUE>in a span</SPEC_ISSUE>`.")], [issue("real")]]
    with claude_house(tmp_path, claude_path, planner=[script]) as house:
        with trio.fail_after(60):
            finished = await house.run(*RUN, "--json")
        assert finished.code == 4, finished.err
        assert [event.content for event in finished.events if isinstance(event, SpecIssue)] == ["real"]
        retries = [event for event in finished.events if isinstance(event, AgentRetry)]
        assert [(event.attempt, event.delay) for event in retries] == [(1, 0), (2, 0)]
        assert "in a span" in retries[1].reason
        assert [len(request.users) for request in house.server.requests] == [1, 2, 3]
        first, again, _ = house.server.requests[-1].users
        assert first.endswith("the work")
        assert "<PLAN_COMPLETE>…</PLAN_COMPLETE>, <SPEC_ISSUE>…</SPEC_ISSUE>" in again
        assert len(house.agents) == 1
        answers = [m["content"] for m in house.server.requests[-1].body["messages"] if m["role"] == "assistant"]
        assert "in a fence" in json.dumps(answers[0])


async def test_an_agent_that_never_emits_a_marker_fails_the_loop_with_its_last_words(
    tmp_path: Path, claude_path: Path
) -> None:
    script: Script = [[Say("I begin.")], [Say("I think <SPEC_ISSUE> that")], [Say("I would rather not.")]]
    with claude_house(tmp_path, claude_path, planner=[script]) as house:
        with trio.fail_after(60):
            finished = await house.run(*RUN)
        assert finished.code == 1
        assert "Failed in planner: The agent did not finish, asked again 2 times" in finished.out
        assert "without a marker; its last words: I would rather not." in finished.out
        last = house.logged()[-1].event
        assert isinstance(last, LoopFailed)
        assert last.phase == "planner"
        assert len(house.server.requests) == 3
        assert len(house.wip) > 1, "it can be resumed"


async def test_a_silent_agent_is_stopped_and_asked_again_and_a_long_tool_is_not_silence(
    tmp_path: Path, claude_path: Path
) -> None:
    script: Script = [[bash("sleep 3.5")], [Say("Hm."), Stall()], [issue()]]  # claude counts what was cut off as a turn
    with claude_house(tmp_path, claude_path, planner=[script], limits={"idleTimeout": 3}) as house:
        with trio.fail_after(60):
            finished = await house.run(*RUN, "--json")
        assert finished.code == 4, finished.err
        reasons = [event.reason for event in finished.events if isinstance(event, AgentRetry)]
        assert reasons == ["it was silent for 3 s (limits.idleTimeout)"]
        assert "You stopped before" in house.server.requests[-1].users[-1]
        assert len(house.agents) == 1


async def test_only_the_agents_own_text_counts(tmp_path: Path, claude_path: Path) -> None:
    """Not the prompt, a tool's input and result, or a sub-agent's text, thinking, or result."""
    agent = {"description": "look", "prompt": "Look around, sub-agent.", "subagent_type": "general-purpose"}
    script: Script = [
        [bash("echo '<SPEC_ISSUE>printed</SPEC_ISSUE>'")],
        [Use("Agent", agent)],
        [Say("<SPEC", "_ISSUE>cut in", " three</SPEC_ISSUE>")],
    ]
    sub: Script = [
        [Say("I look."), bash("echo '<SPEC_ISSUE>by its tool</SPEC_ISSUE>'")],
        [Say("<SPEC_ISSUE>of a sub-agent</SPEC_ISSUE>")],
    ]
    with claude_house(tmp_path, claude_path, planner=[script], others={"sub-agent": sub}) as house:
        with trio.fail_after(60):
            finished = await house.run("run", "--json", "--focus", "<SPEC_ISSUE>in the focus</SPEC_ISSUE>")
        assert finished.code == 4, finished.err
        assert [event.content for event in finished.events if isinstance(event, SpecIssue)] == ["cut in three"]
        printed, subs = house.server.requests[-1].tool_results
        assert "printed" in printed
        assert "of a sub-agent" in subs
        assert [event.name for event in finished.events if isinstance(event, ToolCall)] == ["Bash", "Agent"]
        assert not [event for event in finished.events if isinstance(event, AgentMessage)]


async def test_ten_megabytes_in_a_line(tmp_path: Path, claude_path: Path) -> None:
    text = "0123456789" * 1_000_000
    with claude_house(tmp_path, claude_path, planner=[[[Say(f"{text}<SPEC_ISSUE>", "far in</SPEC_ISSUE>")]]]) as house:
        with trio.fail_after(60):
            finished = await house.run(*RUN, "--json")
        assert finished.code == 4, finished.err
        assert "".join(event.text for event in finished.events if isinstance(event, AgentMessage)) == text
        assert finished.events[-1] == LoopSpecIssue(
            iteration=1, content="far in", filename=next((house.state / "spec-issues").iterdir()).name
        )


async def test_a_focus_may_begin_with_a_slash_and_name_a_file(tmp_path: Path, claude_path: Path) -> None:
    with claude_house(tmp_path, claude_path, planner=[[[issue()]]]) as house:
        (house.root / "wish.md").write_text("A wish from a file.\n")
        with trio.fail_after(60):
            finished = await house.run("run", "--json", "--focus", "/clear and do @wish.md")
        assert finished.code == 4, finished.err
        [request] = house.server.requests
        assert request.first_user.endswith("/clear and do @wish.md")
        assert "A wish from a file." in json.dumps(request.body["messages"])


async def test_a_persons_review_is_for_the_first_planner(tmp_path: Path, claude_path: Path) -> None:
    with claude_house(tmp_path, claude_path, planner=[[[read("{review}")], [issue()]]]) as house:
        (house.root / "mine.md").write_text("The parser is slow.\n")
        with trio.fail_after(60):
            finished = await house.run(*RUN, "--review", "mine.md", "--json")
        assert finished.code == 4, finished.err
        assert "The parser is slow." in house.server.requests[-1].tool_results[0]
        assert "The parser is slow." not in house.server.requests[0].first_user


async def test_a_projects_hooks_do_not_disturb(tmp_path: Path, claude_path: Path) -> None:
    """They run, like for the person; their output is not the agent's text."""
    command = "echo '<SPEC_ISSUE>of a hook</SPEC_ISSUE>'; echo '{\"type\": \"result\"}' >&2; touch hooked"
    hook = [{"hooks": [{"type": "command", "command": command}]}]
    settings = {"hooks": {"SessionStart": hook, "Stop": hook}}
    with claude_house(tmp_path, claude_path, planner=[[[Say("I plan.")], [issue("real")]]]) as house:
        (house.root / ".claude").mkdir()
        (house.root / ".claude" / "settings.json").write_text(json.dumps(settings))
        with trio.fail_after(60):
            finished = await house.run(*RUN, "--json")
        assert finished.code == 4, finished.err
        assert (house.root / "hooked").exists()
        assert "of a hook" in json.dumps(house.server.requests[0].body)
        assert [event.content for event in finished.events if isinstance(event, SpecIssue)] == ["real"]
        assert len([event for event in finished.events if isinstance(event, SystemMessage)]) == 2, "two starts"


# ---- what is held back ------------------------------------------------------------------------


async def test_a_reviewer_cannot_write_to_the_project(tmp_path: Path, claude_path: Path) -> None:
    reviewer: Script = [
        [read("{project}/README.md")],
        [Use("Edit", {"file_path": "{project}/README.md", "old_string": "old", "new_string": "new"})],
        [write("{project}/new.py", "x = 1\n"), write("{session}", "all is well\n")],
        *APPROVE,
    ]
    with claude_house(tmp_path, claude_path, reviewer=[reviewer]) as house:
        (house.root / "README.md").write_text("old words\n")
        with trio.fail_after(60):
            finished = await house.run(*RUN, "--json")
        assert finished.code == 0, finished.err
        assert (house.root / "README.md").read_text() == "old words\n"
        assert not (house.root / "new.py").exists()
        after = finished.events[finished.names.index("ReviewingStart") :]
        assert [event.is_error for event in after if isinstance(event, ToolResult)] == [False, True, True, True]
        assert not [event for event in after if isinstance(event, SystemMessage) and "tree" in event.text]


async def test_a_tree_that_changed_under_the_reviewer_is_reported(tmp_path: Path, claude_path: Path) -> None:
    with claude_house(tmp_path, claude_path, reviewer=[[[bash("echo x > sneaked.txt")], *APPROVE]]) as house:
        with trio.fail_after(60):
            finished = await house.run(*RUN, "--json")
        assert finished.code == 0, finished.err
        messages = [event.text for event in finished.events if isinstance(event, SystemMessage)]
        assert [text for text in messages if "working tree changed while the read-only reviewer ran" in text]


async def test_a_spent_budget_ends_the_loop(tmp_path: Path, claude_path: Path) -> None:
    """At once if claude itself notices, otherwise before the next agent is started."""
    in_the_middle: Script = [[Spent(output=40_000), bash("true")], [issue("never said")]]
    at_the_end: Script = [[Spent(output=40_000), Say("<PLAN_COMPLETE>1. The task.</PLAN_COMPLETE>")]]
    limits = {"maxCostUsd": 0.5}
    with claude_house(tmp_path, claude_path, planner=[in_the_middle, at_the_end], limits=limits) as house:
        with trio.fail_after(60):
            runs = [await house.run(*RUN, "--json") for _ in range(2)]
        for finished in runs:
            assert finished.code == 5, finished.err
            last = finished.events[-1]
            assert isinstance(last, LoopLimitReached)
            assert last.limit == "maxCostUsd"
            assert last.value > 0.5
        assert house.agents == ["planner", "planner"]
        assert len(house.server.requests) == 2
        assert ["PlanComplete" in finished.names for finished in runs] == [False, True]
        assert house.wip != []
