"""What every agent does, whatever its program: one list of behaviours, tested with each backend."""

from __future__ import annotations

import inspect
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

import msgspec
import pytest
import trio

from cuggino.agents.backends import inspect_program
from cuggino.agents.retry import AskAgain, Attempts, NoMarker, decide_retry
from cuggino.config import BackendName, Limits
from cuggino.errors import LlmSessionErrorKind
from cuggino.events import AgentMessage, Done, Note, ToolCall, ToolResult, UsageReport
from cuggino.roles import Role
from tests.e2e.contract import Case, Ran, Stage, unreachable
from tests.e2e.messages import Fail, Say, Script, Spent, Stall, Use
from tests.e2e.provider import Asked

pytestmark = pytest.mark.e2e

NO_MODEL = "no model is asked; what its script may know of the prompts is tested with its program"

CASES = {
    case.name: case
    for case in (
        Case(name="claude"),
        Case(name="codex"),
        Case(name="gemini", reports_a_failed_command=False),
        Case(
            name="opencode",
            unseen={"test_a_provider_that_is_not_there": "it tries again for a minute, and nothing makes that shorter"},
        ),
        Case(
            name="scripted",
            writes_elsewhere=True,
            unseen={
                "test_prompts_of_any_size_and_with_any_signs_reach_the_model": NO_MODEL,
                "test_a_program_that_is_missing": "its program is the Python that runs cuggino",
            },
        ),
    )
}

LATEST = 5.0 + 3.0
"""Seconds in which a cancelled agent has ended: those that it is given, and those of the sweep behind it."""


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest) -> Case:
    case = CASES[request.param]
    if reason := case.unseen.get(request.function.__name__):
        pytest.skip(reason)
    return case


@pytest.fixture
def stage(case: Case, tmp_path: Path) -> Stage:
    return Stage(case, tmp_path)


def test_what_is_left_out_is_in_the_list() -> None:
    behaviours = {name for name, _ in inspect.getmembers(sys.modules[__name__], inspect.isfunction)}
    assert {name for case in CASES.values() for name in case.unseen} <= behaviours


# ---- a conversation ---------------------------------------------------------------------------


SIGNS = "quotes ' \" ` $HOME %s \\n\n\nlines\n\n\ttabs — “ü” 漢字 🙂 <tags> & {braces}"
PROMPT = f"--dashes {SIGNS} {'many words ' * 18_700}end"
FURTHER = f"/init {SIGNS} end"
"""`/init` is a command of every program that has commands."""
STANDING = f"/standing {SIGNS} {'more words ' * 9_000}end"


class Conversation(msgspec.Struct):
    """A conversation of two runs, the second resumed, and the project that it worked in."""

    backend: BackendName
    first: Ran
    second: Ran
    asked: list[str]
    """What the model was asked, each time."""
    project: Path
    home: Path


@pytest.fixture(scope="session")
def conversations() -> dict[str, Conversation]:
    """One of each backend, looked at from several sides: a run of some programs takes seconds."""
    return {}


def _converse(case: Case, folder: Path) -> Conversation:
    stage = Stage(case, folder)
    made = str(stage.project / "made.txt")
    script: Script = [
        [Say("I look."), Use("shell", {"command": "env > seen.txt; echo looked"}), Spent(input=2000, output=20)],
        [Say("Now <NO", "TE>it is", " half done</NOTE> and on."), Use("write", {"path": made, "content": "“ü”\n"})],
        [Use("shell", {"command": "cat made.txt; exit 3"})],
        [Say("All of it:\n<DO", "NE>the work</DONE>")],
        [Say("I was <NOTE>resumed</NOTE>.")],
    ]

    async def both(url: str) -> tuple[Ran, Ran]:
        conversation = str(uuid4())
        with trio.fail_after(110):
            first = await stage.run(
                url, prompt=PROMPT, system_prompt=STANDING, session_id=conversation, environment={"GIVEN": "yes"}
            )
            second = await stage.run(url, prompt=FURTHER, system_prompt=STANDING, resume_session_id=conversation)
        return first, second

    with pytest.MonkeyPatch.context() as around, stage.serving(script) as served:
        around.setenv("INHERITED", "yes")
        first, second = trio.run(both, served.url)
        asked = [request.text for request in served.requests]
    return Conversation(case.name, first, second, asked, stage.project, stage.home)


@pytest.fixture
def conversation(
    case: Case, conversations: dict[str, Conversation], tmp_path_factory: pytest.TempPathFactory
) -> Conversation:
    if case.name not in conversations:
        conversations[case.name] = _converse(case, tmp_path_factory.mktemp(case.name))
    return conversations[case.name]


def test_text_markers_and_tools_are_reported_in_order(conversation: Conversation) -> None:
    assert [type(event) for event in conversation.first.reported] == [
        *(AgentMessage, ToolCall, ToolResult),
        *(AgentMessage, Note, AgentMessage, ToolCall, ToolResult),
        *(ToolCall, ToolResult),
        *(AgentMessage, Done),
    ]
    texts = [event.text.strip() for event in conversation.first.reported if isinstance(event, AgentMessage)]
    assert texts == ["I look.", "Now", "and on.", "All of it:"]


def test_a_marker_is_found_though_it_came_in_pieces(conversation: Conversation) -> None:
    reported = [event for event in conversation.first.reported if isinstance(event, Note | Done)]
    assert reported == [Note(content="it is half done"), Done(content="the work")]


def test_a_tools_result_belongs_to_its_call(conversation: Conversation) -> None:
    calls, results = conversation.first.calls, conversation.first.results
    assert [result.id for result in results] == [call.id for call in calls]
    assert len({call.id for call in calls}) == 3
    assert "looked" in results[0].output
    assert "“ü”" in results[2].output
    failed = CASES[conversation.backend].reports_a_failed_command
    assert [result.is_error for result in results] == [False, False, failed]
    assert "cat made.txt" in str(calls[2].input)
    assert (conversation.project / "made.txt").read_text() == "“ü”\n"


def test_a_result_says_how_it_ended_what_it_used_and_whose_it_was(conversation: Conversation) -> None:
    result = conversation.first.ended_well
    assert result.exit_status == 0
    assert result.session_id
    assert result.usage is not None
    assert (result.usage.input_tokens, result.usage.output_tokens) == (5000, 50)
    assert [event for event in conversation.first.events if isinstance(event, UsageReport)] == [result.usage]
    resumed = conversation.second.ended_well.usage
    assert resumed is not None
    assert (resumed.input_tokens, resumed.output_tokens) == (1000, 10), "of this run alone"


def test_a_conversation_is_resumed(conversation: Conversation) -> None:
    """The model answers by the number of its turns in the request: it has seen the earlier ones."""
    assert [event for event in conversation.second.reported if isinstance(event, Note)] == [Note(content="resumed")]
    assert conversation.second.ended_well.session_id == conversation.first.ended_well.session_id


def test_the_environment_is_the_given_one_and_nothing_else(conversation: Conversation) -> None:
    seen = (conversation.project / "seen.txt").read_text().splitlines()
    assert "GIVEN=yes" in seen
    assert f"HOME={conversation.home}" in seen
    assert "INHERITED=yes" not in seen


def test_prompts_of_any_size_and_with_any_signs_reach_the_model(conversation: Conversation) -> None:
    """A system prompt is ours, and an argument of some programs: it may be of 100 KB."""
    first, *_, last = conversation.asked
    assert PROMPT in first
    assert STANDING in first
    assert FURTHER in last


async def test_an_agent_that_ends_without_a_word_is_asked_again(stage: Stage) -> None:
    with stage.serving([[]]) as served, trio.fail_after(60):
        ran = await stage.run(served.url)
    assert ran.reported == []
    ending = ran.error or NoMarker(ran.ended_well.exit_status, ran.ended_well.final_text)
    assert isinstance(decide_retry(ending, Attempts(), Limits(), now=datetime.now(UTC), jitter=0), AskAgain)


# ---- a read-only role -------------------------------------------------------------------------


async def test_a_read_only_role_writes_what_it_is_given_to_write_and_nothing_else(stage: Stage) -> None:
    review = stage.project / ".cuggino" / "wip" / "0.review.md"
    review.parent.mkdir(parents=True)
    code = stage.project / "code.py"
    code.write_text("x = 1\n")
    new = stage.project / "new.py"
    script: Script = [
        [Use("read", {"path": str(code)})],
        [Use("write", {"path": str(review), "content": "good\n"})],
        *([Use("write", {"path": str(path), "content": "x\n"})] for path in (code, new)),
        [Use("shell", {"command": "echo a command runs"})],
        [Say("<APPROVED>good</APPROVED>")],
    ]
    with stage.serving(script) as served, trio.fail_after(60):
        ran = await stage.run(served.url, role=Role.REVIEWER, writable=(review,))
    assert ran.ended_well.exit_status == 0
    assert review.read_text() == "good\n"
    known = [result for asked in served.requests for result in asked.tool_results]
    assert not ran.results[0].is_error
    assert [text for text in [*known, ran.results[0].output] if "x = 1" in text]
    assert "a command runs" in ran.results[-1].output
    assert (code.read_text() != "x = 1\n") is new.exists() is stage.case.writes_elsewhere


# ---- failures ---------------------------------------------------------------------------------


async def test_a_refused_key_is_known_in_seconds_with_advice_for_a_person(stage: Stage) -> None:
    asked: list[float] = []

    def refuse(_: Asked) -> Script:
        asked.append(time.monotonic())
        return [[Fail(401)]]

    with stage.serving(refuse) as served, trio.fail_after(60):
        ran = await stage.run(served.url)
        seconds = time.monotonic() - asked[0]
    assert ran.failure.kind is LlmSessionErrorKind.SETUP
    assert ran.failure.advice
    assert seconds < 20
    assert stage.left() == []


async def test_an_overloaded_provider(stage: Stage) -> None:
    with stage.serving([[Fail(529, "overloaded_error", "Overloaded")]]) as served, trio.fail_after(60):
        ran = await stage.run(served.url, few_retries=True)
    assert ran.failure.kind is LlmSessionErrorKind.OVERLOADED
    assert stage.left() == []


async def test_a_provider_that_is_not_there(stage: Stage) -> None:
    with trio.fail_after(60):
        ran = await stage.run(unreachable(), few_retries=True)
    assert ran.failure.kind is LlmSessionErrorKind.NETWORK
    assert stage.left() == []


async def test_a_program_that_is_missing(stage: Stage) -> None:
    with stage.serving([[Say("?")]]) as served, trio.fail_after(10):
        ran = await stage.run(served.url, environment={"PATH": str(stage.home)})
    assert ran.failure.kind is LlmSessionErrorKind.SETUP
    assert f"`{stage.case.name}` was not found in PATH" in ran.failure.message
    assert ran.failure.advice == inspect_program(stage.case.name, {}, stage.project).install_advice


# ---- stopping ---------------------------------------------------------------------------------

TOOL = (
    "setsid sh -c 'touch {1}; exec tail -f {1}' & cd /; env -i PATH=/usr/bin:/bin setsid"
    " sh -c \"trap '' INT TERM HUP QUIT; touch {2}; exec tail -f {2}\" > /dev/null 2>&1 < /dev/null"
)
"""A child in a session of its own; and one that ignores all signals besides, and has an empty environment. They are
known by the files that they have open."""


async def test_cancelled_it_ends_with_every_process_that_its_tool_started(stage: Stage) -> None:
    files = {f"{{{number}}}": str(stage.folder / f"begun-{number}") for number in (1, 2)}
    command = TOOL
    for words, file in files.items():
        command = command.replace(words, file)
    script: Script = [[Say("I wait."), Use("shell", {"command": command})], [Stall()]]
    with stage.serving(script) as served, trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_run_until_cancelled, stage, served.url)
            while not {f"tail -f {file} " for file in files.values()} <= {*stage.left()}:  # noqa: ASYNC110
                await trio.sleep(0.02)
            cancelled = trio.current_time()
            nursery.cancel_scope.cancel()
        assert trio.current_time() - cancelled < LATEST
    assert stage.left() == []


async def _run_until_cancelled(stage: Stage, url: str) -> None:
    ran = await stage.run(url)
    pytest.fail(f"it ended by itself: {ran}")
