"""The real claude, started as cuggino starts it, without cuggino around it: the facts that the backend relies on."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeAlias
from uuid import uuid4

import msgspec
import pytest

from cuggino.agents.agent import MESSAGE_END, AgentOptions, AgentResult, Decoded, Launch, SignOfLife, Text
from cuggino.agents.claude import ClaudeBackend
from cuggino.errors import LlmSessionError, LlmSessionErrorKind
from cuggino.events import SystemMessage, ToolCall, ToolResult
from cuggino.roles import Role
from tests.e2e.loopback import (
    Fail,
    Loopback,
    Say,
    Spent,
    Stall,
    Turn,
    Use,
    always,
    bad_key,
    by_role,
    claude_environment,
    loopback,
    overloaded,
    usage_limit,
)

pytestmark = pytest.mark.e2e


class Ran(msgspec.Struct):
    """A run of claude, decoded."""

    told: list[Decoded]
    lost_early: bool
    """The decoder knew that the run was lost before the end."""
    result: AgentResult | None = None
    error: LlmSessionError | None = None

    @property
    def text(self) -> str:
        """The agent's own text; a message's end is a line feed."""
        own = (item for item in self.told if isinstance(item, Text) or item == MESSAGE_END)
        return "".join(item.text if isinstance(item, Text) else "\n" for item in own)

    @property
    def results(self) -> list[ToolResult]:
        return [item for item in self.told if isinstance(item, ToolResult)]

    @property
    def ended_well(self) -> AgentResult:
        assert self.result is not None, self.error
        return self.result

    @property
    def failure(self) -> LlmSessionError:
        assert self.error is not None, self.result
        return self.error


Run: TypeAlias = Callable[..., Ran]


@pytest.fixture
def run(claude: Path, home: Path, project: Path, tmp_path: Path) -> Run:
    """`run(server, prompt=…, **options)`; `environment` is added to the built one, an empty value takes a name out.

    `interrupt`: SIGINT as soon as the first request is there.
    """

    def run(
        server: Loopback, environment: Mapping[str, str] | None = None, *, interrupt: bool = False, **changes: Any
    ) -> Ran:
        given = {"role": Role.IMPLEMENTER, "prompt": "Go.", "cwd": project, "skip_permissions": True, **changes}
        options = AgentOptions(output=tmp_path / f"{uuid4()}.out", **given)
        launch = ClaudeBackend().launch(options)
        whole = _laid_over(launch, claude_environment(home, server.url, **(environment or {})))
        errors = options.output.with_suffix(".err")
        with (
            options.output.open("wb") as output,
            errors.open("wb") as stderr,
            subprocess.Popen(
                [claude, *launch.argv[1:]],
                cwd=options.cwd,
                env=whole,
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=stderr,
            ) as process,
        ):
            try:
                assert process.stdin is not None
                process.stdin.write(launch.stdin)
                process.stdin.close()
                if interrupt:
                    server.wait_for_request()
                    process.send_signal(signal.SIGINT)
                exit_status = process.wait(timeout=60)
            finally:
                process.kill()
        return _decode(options, exit_status, errors.read_text())

    return run


def _laid_over(launch: Launch, environment: dict[str, str]) -> dict[str, str]:
    whole = {**environment, **launch.environment}
    return {name: value for name, value in whole.items() if value is not None}


def _decode(options: AgentOptions, exit_status: int, stderr: str) -> Ran:
    decoder = ClaudeBackend().decoder(options)
    told: list[Decoded] = []
    for line in options.output.read_bytes().split(b"\n"):
        told += [item for item in decoder.feed(line) if not isinstance(item, SignOfLife)]
    ran = Ran(told, lost_early=decoder.failure is not None)
    try:
        ran.result = decoder.finish(exit_status, stderr)
    except LlmSessionError as error:
        ran.error = error
    return ran


# ---- what arrives -----------------------------------------------------------------------------


def test_prompt_and_system_prompt_arrive_and_the_answer_comes_back(run: Run) -> None:
    with loopback(always([Say("Hello.")])) as server:
        ran = run(server, prompt="Say hello.", system_prompt="You are a test worker.")
    assert ran.text == "Hello.\n"
    assert ran.ended_well.final_text == "Hello."
    assert ran.ended_well.usage is not None
    assert (ran.ended_well.usage.input_tokens, ran.ended_well.usage.output_tokens) == (1000, 10)
    assert ran.ended_well.usage.cost_usd
    [request] = server.requests
    assert request.first_user == "Say hello."
    assert "You are a test worker." in request.system


def test_tools_do_their_work(run: Run, project: Path) -> None:
    script: list[Turn] = [
        [Say("First."), Use("Write", {"file_path": str(project / "made.txt"), "content": "line\n"})],
        [Use("Bash", {"command": "cat made.txt; exit 3"})],
        [Say("Both done.")],
    ]
    with loopback(always(*script)) as server:
        ran = run(server)
    assert (project / "made.txt").read_text() == "line\n"
    assert ran.text == "First.\nBoth done.\n"
    assert [call.name for call in ran.told if isinstance(call, ToolCall)] == ["Write", "Bash"]
    assert [result.is_error for result in ran.results] == [False, True]
    assert "line" in ran.results[1].output
    assert "line" in server.requests[-1].tool_results[-1]


def test_the_blocks_of_a_message_are_one_text(run: Run) -> None:
    with loopback(always([Say("all <DO", "NE>it is</DO", "NE>")])) as server:
        assert run(server).text == "all <DONE>it is</DONE>\n"


def test_a_line_of_ten_megabytes_is_whole_in_a_file(run: Run) -> None:
    text = "0123456789" * 1_000_000
    with loopback(always([Say(text)])) as server:
        ran = run(server)
    assert ran.text == text + "\n"
    assert ran.result is not None


def test_a_prompt_of_ten_megabytes_arrives(run: Run) -> None:
    prompt = "0123456789" * 1_000_000
    with loopback(always([Say("Read.")])) as server:
        assert run(server, prompt=prompt).text == "Read.\n"
    assert server.requests[0].first_user == prompt


def test_a_prompt_that_begins_with_a_slash_is_a_prompt(run: Run) -> None:
    with loopback(always([Say("Done.")])) as server:
        assert run(server, prompt="/nosuchcommand please").text == "Done.\n"
    assert server.requests[0].first_user.endswith("/nosuchcommand please")


def test_a_schema_gives_structured_output(run: Run) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    with loopback(always([Use("StructuredOutput", {"n": 3})], [Say("Given.")])) as server:
        assert run(server, schema=schema).ended_well.structured == {"n": 3}


# ---- conversations ----------------------------------------------------------------------------


def test_a_conversation_is_gone_on_with(run: Run) -> None:
    """Also when cuggino was itself started by a claude, which leaves traces in the environment."""
    session = str(uuid4())
    around = {"CLAUDECODE": "1", "CLAUDE_CODE_CHILD_SESSION": "1", "CLAUDE_CODE_SESSION_ID": str(uuid4())}
    with loopback(always([Say("One.")], [Say("Two.")])) as server:
        first = run(server, around, session_id=session, prompt="Begin.")
        second = run(server, around, resume_session_id=session, prompt="Go on.")
    assert (first.text, second.text) == ("One.\n", "Two.\n")
    assert first.ended_well.session_id == second.ended_well.session_id == session
    assert server.requests[-1].users == ["Begin.", "Go on."]


def test_an_unknown_conversation_and_a_used_id_are_refused(run: Run) -> None:
    session = str(uuid4())
    with loopback(always([Say("One.")])) as server:
        unknown = run(server, resume_session_id=session)
        run(server, session_id=session)
        used = run(server, session_id=session)
    assert unknown.failure.kind is used.failure.kind is LlmSessionErrorKind.SETUP
    assert f"No conversation found with session ID: {session}" in unknown.failure.message
    assert f"Session ID {session} is already in use" in used.failure.message


def test_each_role_plays_its_own_scripts(run: Run) -> None:
    route = by_role(
        {
            "You plan.": [[[Say("The plan.")]]],
            "You review.": [[[Say("No.")]], [[Say("Yes.")], [Say("Yes, again.")]]],
        }
    )
    session = str(uuid4())
    with loopback(route) as server:
        said = [
            run(server, system_prompt="You plan.").text,
            run(server, system_prompt="You review.").text,
            run(server, system_prompt="You review.", session_id=session).text,
            run(server, system_prompt="You review.", resume_session_id=session).text,
        ]
    assert said == ["The plan.\n", "No.\n", "Yes.\n", "Yes, again.\n"]


# ---- failures ---------------------------------------------------------------------------------


def test_an_overloaded_provider_is_tried_again_by_claude_itself(run: Run) -> None:
    with loopback(always([overloaded(times=2), Say("Recovered.")])) as server:
        ran = run(server, {"CLAUDE_CODE_MAX_RETRIES": "3"})
    assert ran.text == "Recovered.\n"
    retries = [item.text for item in ran.told if isinstance(item, SystemMessage)][1:]
    assert [text.partition(", next")[0] for text in retries] == [
        "API error 529 (overloaded), attempt 1 of 3",
        "API error 529 (overloaded), attempt 2 of 3",
    ]


def test_a_provider_that_stays_overloaded(run: Run) -> None:
    with loopback(always([overloaded()])) as server:
        ran = run(server, {"CLAUDE_CODE_MAX_RETRIES": "1"})
    assert ran.failure.kind is LlmSessionErrorKind.OVERLOADED
    assert not ran.lost_early


def test_a_refused_key_is_known_while_claude_still_tries(run: Run) -> None:
    with loopback(always([bad_key()])) as server:
        ran = run(server, {"CLAUDE_CODE_MAX_RETRIES": "2"})
    assert ran.lost_early
    assert ran.failure.kind is LlmSessionErrorKind.SETUP
    assert "Invalid API key" in ran.failure.message


def test_no_login_at_all(run: Run) -> None:
    with loopback(always([Say("No.")])) as server:
        ran = run(server, {"ANTHROPIC_API_KEY": ""})
    assert ran.failure.kind is LlmSessionErrorKind.SETUP
    assert "Not logged in" in ran.failure.message
    assert not server.requests


def test_a_usage_limit_says_when_it_resets(run: Run) -> None:
    resets_at = datetime.now(UTC).replace(microsecond=0) + timedelta(hours=2)
    subscription = {"ANTHROPIC_API_KEY": "", "CLAUDE_CODE_OAUTH_TOKEN": "dummy-token"}
    with loopback(always([usage_limit(resets_at)])) as server:
        ran = run(server, subscription)
    assert ran.failure.kind is LlmSessionErrorKind.USAGE_LIMIT
    assert ran.failure.resets_at == resets_at
    assert len(server.requests) == 1


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
def test_other_refusals_come_at_once(run: Run, fail: Fail, kind: LlmSessionErrorKind) -> None:
    with loopback(always([fail])) as server:
        ran = run(server)
    assert ran.failure.kind is kind
    assert len([item for item in ran.told if isinstance(item, SystemMessage)]) == 1, "claude announces no attempts"


def test_a_server_that_is_not_there(run: Run) -> None:
    with loopback(always()) as server:
        pass
    ran = run(server, {"CLAUDE_CODE_MAX_RETRIES": "1"})
    assert ran.failure.kind is LlmSessionErrorKind.NETWORK


def test_an_interrupted_run_has_no_good_end(run: Run) -> None:
    with loopback(always([Say("I begin…"), Stall()])) as server:
        ran = run(server, interrupt=True)
    assert ran.failure.kind is LlmSessionErrorKind.CRASHED


@pytest.mark.skipif(os.geteuid() != 0, reason="only root is refused")
def test_root_is_refused_outside_of_a_sandbox(run: Run) -> None:
    with loopback(always([Say("No.")])) as server:
        ran = run(server, {"IS_SANDBOX": ""})
    assert ran.failure.kind is LlmSessionErrorKind.SETUP
    assert "cannot be used with root/sudo privileges" in ran.failure.message
    assert "IS_SANDBOX=1" in ran.failure.advice
    assert not server.requests


def test_a_spent_budget_ends_the_run_and_is_no_failure(run: Run) -> None:
    script: list[Turn] = [[Spent(output=40_000), Use("Bash", {"command": "echo on"})], [Say("Never said.")]]
    with loopback(always(*script)) as server:
        ran = run(server, budget_usd=0.5)
        nothing_left = run(server, budget_usd=0)
    assert ran.text == nothing_left.text == ""
    assert ran.ended_well.usage is not None
    assert (ran.ended_well.usage.cost_usd or 0) > 0.5
    assert nothing_left.result is not None


# ---- permissions ------------------------------------------------------------------------------


def test_what_needs_a_person_does_not_exist(run: Run) -> None:
    with loopback(always([Say("Done.")])) as server:
        run(server)
    tools = server.requests[0].tools
    assert {"Bash", "Read", "Write", "Edit", "Agent"} <= set(tools)
    assert not {"AskUserQuestion", "ExitPlanMode", "EnterWorktree", "CronCreate", "ScheduleWakeup"} & set(tools)


def test_a_reviewer_writes_its_review_and_nothing_else(run: Run, project: Path, tmp_path: Path) -> None:
    """The folder's name has what means something in a permission's pattern."""
    cwd = project / "a (odd [1] {x,y} *) na(me"
    review = cwd / ".cuggino" / "wip" / "0.review.md"
    outside = tmp_path / "outside"
    review.parent.mkdir(parents=True)
    outside.mkdir()
    (cwd / "code.py").write_text("x = 1\n")
    elsewhere = [review.with_name("0.md"), review.with_name("0.review.md2"), cwd / "new.py", outside / "new.txt"]
    script: list[Turn] = [
        [Use("Write", {"file_path": str(review), "content": "good\n"})],
        [Use("Edit", {"file_path": str(review), "old_string": "good", "new_string": "very good"})],
        *([Use("Write", {"file_path": str(path), "content": "x"})] for path in elsewhere),
        [Use("Read", {"file_path": str(cwd / "code.py")})],
        [Use("Edit", {"file_path": str(cwd / "code.py"), "old_string": "1", "new_string": "2"})],
        [Say("Reviewed.")],
    ]
    with loopback(always(*script)) as server:
        ran = run(server, role=Role.REVIEWER, cwd=cwd, writable=(review,))
    assert review.read_text() == "very good\n"
    assert (cwd / "code.py").read_text() == "x = 1\n"
    assert not any(path.exists() for path in elsewhere)
    denied = [denial.input["file_path"] for denial in ran.ended_well.denials]
    assert denied == [str(path) for path in (*elsewhere, cwd / "code.py")]
    assert set(server.requests[0].tools) == {"Bash", "Edit", "Glob", "Grep", "Read", "TaskOutput", "TaskStop", "Write"}


def test_a_reviewer_reads_everything_and_runs_commands_unasked(run: Run, project: Path, tmp_path: Path) -> None:
    (tmp_path / "far.txt").write_text("far away\n")
    (project / "sub").mkdir()
    commands = [
        "for i in 1 2; do echo $((i * 2)); done | tail -1",
        "(cd sub && pwd) && X=$(echo inner) && echo $X",
        "python3 - <<'E'\nprint('from python')\nE",
        f"cat {tmp_path / 'far.txt'} > built.txt; rm -rf built.txt sub; ls",
    ]
    script: list[Turn] = [
        [Use("Read", {"file_path": str(tmp_path / "far.txt")})],
        [Use("Grep", {"pattern": "away", "path": str(tmp_path)})],
        [Use("Glob", {"pattern": "**/*.txt"})],
        *([Use("Bash", {"command": command})] for command in commands),
        [Say("Reviewed.")],
    ]
    with loopback(always(*script)) as server:
        ran = run(server, role=Role.REVIEWER)
    assert not ran.ended_well.denials
    assert not any(result.is_error for result in ran.results), ran.results
    assert "far away" in ran.results[0].output
    assert not {"Write", "Edit"} & set(server.requests[0].tools)


def test_a_reviewers_path_may_lead_through_a_link(run: Run, project: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(project)
    script: list[Turn] = [
        [Use("Write", {"file_path": str(link / "review.md"), "content": "good\n"})],
        [Say("Reviewed.")],
    ]
    with loopback(always(*script)) as server:
        run(server, role=Role.REVIEWER, cwd=link, writable=(link / "review.md",))
    assert (project / "review.md").read_text() == "good\n"


def test_a_project_cannot_ask_its_way_out_of_a_reviewers_mode(run: Run, project: Path) -> None:
    """The mode given on the command line holds over the one in the project's settings."""
    (project / ".claude").mkdir()
    (project / ".claude" / "settings.json").write_text('{"permissions": {"defaultMode": "bypassPermissions"}}')
    script: list[Turn] = [[Use("Write", {"file_path": str(project / "new.py"), "content": "x"})], [Say("Reviewed.")]]
    with loopback(always(*script)) as server:
        ran = run(server, role=Role.REVIEWER, writable=(project / "review.md",))
    assert [denial.tool for denial in ran.ended_well.denials] == ["Write"]
    assert not (project / "new.py").exists()
