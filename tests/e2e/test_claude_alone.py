"""The real claude, started as cuggino starts it, without a loop around it: the facts that the backend relies on.

What every agent does is in `test_contract`; this is what is particular to claude.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import pytest

from cuggino.errors import LlmSessionErrorKind
from cuggino.events import SystemMessage
from cuggino.roles import Role
from tests.e2e.contract import Case, Stage, write
from tests.e2e.messages import Fail, Say, Script, Spent, Use, overloaded, usage_limit

pytestmark = pytest.mark.e2e


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(Case(name="claude"), tmp_path)


# ---- what arrives -----------------------------------------------------------------------------


async def test_a_line_of_ten_megabytes_is_whole_in_a_file(stage: Stage) -> None:
    text = "0123456789" * 1_000_000
    ran, _ = await stage.ask([Say(text)])
    assert ran.text == text
    assert ran.result is not None


async def test_a_prompt_of_ten_megabytes_arrives(stage: Stage) -> None:
    prompt = "0123456789" * 1_000_000
    ran, requests = await stage.ask([Say("Read.")], prompt=prompt)
    assert ran.text == "Read."
    assert requests[0].first_user == prompt


async def test_a_schema_gives_structured_output(stage: Stage) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    ran, _ = await stage.ask([Use("StructuredOutput", {"n": 3})], [Say("Given.")], schema=schema)
    assert ran.ended_well.structured == {"n": 3}


# ---- conversations ----------------------------------------------------------------------------


async def test_a_conversation_is_resumed(stage: Stage) -> None:
    """Also if a claude has started cuggino, which leaves traces in the environment."""
    session = str(uuid4())
    around = {"CLAUDECODE": "1", "CLAUDE_CODE_CHILD_SESSION": "1", "CLAUDE_CODE_SESSION_ID": str(uuid4())}
    with stage.serving([[Say("One.")], [Say("Two.")]]) as served:
        first = await stage.run(served.url, environment=around, session_id=session, prompt="Begin.")
        second = await stage.run(served.url, environment=around, resume_session_id=session, prompt="Go on.")
    assert (first.text, second.text) == ("One.", "Two.")
    assert first.ended_well.session_id == second.ended_well.session_id == session
    assert "Begin." in served.requests[-1].text


async def test_an_unknown_conversation_and_a_used_id_are_refused(stage: Stage) -> None:
    session = str(uuid4())
    with stage.serving([[Say("One.")]]) as served:
        unknown = await stage.run(served.url, resume_session_id=session)
        await stage.run(served.url, session_id=session)
        used = await stage.run(served.url, session_id=session)
    assert unknown.failure.kind is used.failure.kind is LlmSessionErrorKind.SETUP
    assert f"No conversation found with session ID: {session}" in unknown.failure.message
    assert f"Session ID {session} is already in use" in used.failure.message


# ---- failures ---------------------------------------------------------------------------------


async def test_an_overloaded_provider_is_tried_again_by_claude_itself(stage: Stage) -> None:
    ran, _ = await stage.ask([overloaded(times=2), Say("Recovered.")], environment={"CLAUDE_CODE_MAX_RETRIES": "3"})
    assert ran.text == "Recovered."
    retries = [item.text for item in ran.events if isinstance(item, SystemMessage)][1:]
    assert [text.partition(", next")[0] for text in retries] == [
        "API error 529 (overloaded), attempt 1 of 3",
        "API error 529 (overloaded), attempt 2 of 3",
    ]


async def test_no_login_at_all(stage: Stage) -> None:
    ran, requests = await stage.ask([Say("No.")], environment={"ANTHROPIC_API_KEY": ""})
    assert ran.failure.kind is LlmSessionErrorKind.SETUP
    assert "Not logged in" in ran.failure.message
    assert not requests


async def test_a_usage_limit_says_when_it_resets(stage: Stage) -> None:
    resets_at = datetime.now(UTC).replace(microsecond=0) + timedelta(hours=2)
    subscription = {"ANTHROPIC_API_KEY": "", "CLAUDE_CODE_OAUTH_TOKEN": "dummy-token"}
    ran, requests = await stage.ask([usage_limit(resets_at)], environment=subscription)
    assert ran.failure.kind is LlmSessionErrorKind.USAGE_LIMIT
    assert ran.failure.resets_at == resets_at
    assert len(requests) == 1


@pytest.mark.parametrize(
    ("fail", "kind"),
    [
        (Fail(400, "invalid_request_error", "prompt is too long: 9 tokens > 8 maximum"), LlmSessionErrorKind.REFUSED),
        (Fail(403, "permission_error", "no"), LlmSessionErrorKind.SETUP),
        (Fail(404, "not_found_error", "model: x"), LlmSessionErrorKind.SETUP),
        (Fail(429, "rate_limit_error", "slower", {"retry-after": "900"}), LlmSessionErrorKind.OVERLOADED),
    ],
    ids=["400", "403", "404", "429"],
)
async def test_other_refusals_come_at_once(stage: Stage, fail: Fail, kind: LlmSessionErrorKind) -> None:
    ran, _ = await stage.ask([fail])
    assert ran.failure.kind is kind
    assert len([item for item in ran.events if isinstance(item, SystemMessage)]) == 1, "claude announces no attempts"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root is refused")
async def test_root_is_refused_outside_of_a_sandbox(stage: Stage) -> None:
    ran, requests = await stage.ask([Say("No.")], environment={"IS_SANDBOX": ""})
    assert ran.failure.kind is LlmSessionErrorKind.SETUP
    assert "cannot be used with root/sudo privileges" in ran.failure.message
    assert "IS_SANDBOX=1" in ran.failure.advice
    assert not requests


async def test_a_spent_budget_ends_the_run_and_is_not_a_failure(stage: Stage) -> None:
    script: Script = [[Spent(output=40_000), Use("Bash", {"command": "echo on"})], [Say("Never said.")]]
    with stage.serving(script) as served:
        ran = await stage.run(served.url, budget_usd=0.5)
        nothing_left = await stage.run(served.url, budget_usd=0)
    assert ran.text == nothing_left.text == ""
    assert ran.ended_well.usage is not None
    assert (ran.ended_well.usage.cost_usd or 0) > 0.5
    assert nothing_left.result is not None


# ---- permissions ------------------------------------------------------------------------------


async def test_what_needs_a_person_does_not_exist(stage: Stage) -> None:
    _, requests = await stage.ask([Say("Done.")])
    tools = requests[0].tools
    assert {"Bash", "Read", "Write", "Edit", "Agent"} <= set(tools)
    assert not {"AskUserQuestion", "ExitPlanMode", "EnterWorktree", "CronCreate", "ScheduleWakeup"} & set(tools)


async def test_a_reviewer_writes_its_review_and_nothing_else(stage: Stage) -> None:
    """The folder's name has what means something in a permission's pattern."""
    cwd = stage.project / "a (odd [1] {x,y} *) na(me"
    review = cwd / ".cuggino" / "wip" / "0.review.md"
    outside = stage.folder / "outside"
    review.parent.mkdir(parents=True)
    outside.mkdir()
    (cwd / "code.py").write_text("x = 1\n")
    elsewhere = [review.with_name("0.md"), review.with_name("0.review.md2"), cwd / "new.py", outside / "new.txt"]
    script: Script = [
        [write(review, "good\n")],
        [Use("Edit", {"file_path": str(review), "old_string": "good", "new_string": "very good"})],
        *([write(path, "x")] for path in elsewhere),
        [Use("Read", {"file_path": str(cwd / "code.py")})],
        [Use("Edit", {"file_path": str(cwd / "code.py"), "old_string": "1", "new_string": "2"})],
        [Say("Reviewed.")],
    ]
    ran, requests = await stage.ask(*script, role=Role.REVIEWER, cwd=cwd, writable=(review,))
    assert review.read_text() == "very good\n"
    assert (cwd / "code.py").read_text() == "x = 1\n"
    assert not any(path.exists() for path in elsewhere)
    denied = [denial.input["file_path"] for denial in ran.ended_well.denials]
    assert denied == [str(path) for path in (*elsewhere, cwd / "code.py")]
    assert set(requests[0].tools) == {"Bash", "Edit", "Glob", "Grep", "Read", "TaskOutput", "TaskStop", "Write"}


async def test_a_reviewer_reads_everything_and_runs_commands_unasked(stage: Stage) -> None:
    (stage.folder / "far.txt").write_text("far away\n")
    (stage.project / "sub").mkdir()
    commands = [
        "for i in 1 2; do echo $((i * 2)); done | tail -1",
        "(cd sub && pwd) && X=$(echo inner) && echo $X",
        "python3 - <<'E'\nprint('from python')\nE",
        f"cat {stage.folder / 'far.txt'} > built.txt; rm -rf built.txt sub; ls",
    ]
    script: Script = [
        [Use("Read", {"file_path": str(stage.folder / "far.txt")})],
        [Use("Grep", {"pattern": "away", "path": str(stage.folder)})],
        [Use("Glob", {"pattern": "**/*.txt"})],
        *([Use("Bash", {"command": command})] for command in commands),
        [Say("Reviewed.")],
    ]
    ran, requests = await stage.ask(*script, role=Role.REVIEWER)
    assert not ran.ended_well.denials
    assert not any(result.is_error for result in ran.results), ran.results
    assert "far away" in ran.results[0].output
    assert not {"Write", "Edit"} & set(requests[0].tools)


async def test_a_reviewers_path_may_lead_through_a_link(stage: Stage) -> None:
    link = stage.folder / "link"
    link.symlink_to(stage.project)
    script: Script = [
        [write(link / "review.md", "good\n")],
        [Say("Reviewed.")],
    ]
    await stage.ask(*script, role=Role.REVIEWER, cwd=link, writable=(link / "review.md",))
    assert (stage.project / "review.md").read_text() == "good\n"


async def test_a_project_cannot_ask_its_way_out_of_a_reviewers_mode(stage: Stage) -> None:
    """The mode given on the command line holds over the one in the project's settings."""
    (stage.project / ".claude").mkdir()
    (stage.project / ".claude" / "settings.json").write_text('{"permissions": {"defaultMode": "bypassPermissions"}}')
    script: Script = [[write(stage.project / "new.py", "x")], [Say("Reviewed.")]]
    ran, _ = await stage.ask(*script, role=Role.REVIEWER, writable=(stage.project / "review.md",))
    assert [denial.tool for denial in ran.ended_well.denials] == ["Write"]
    assert not (stage.project / "new.py").exists()
