"""The real gemini, started as cuggino starts it: the facts that the backend relies on."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec
import pytest
import trio

from cuggino.agents.agent import AgentOptions, AgentResult
from cuggino.agents.gemini import GeminiBackend
from cuggino.agents.headless import HeadlessAgent
from cuggino.errors import LlmSessionError, LlmSessionErrorKind
from cuggino.events import AgentMessage, Done, Event, Note, ToolCall, ToolResult, UsageReport
from cuggino.manifest import Bounds, Permits, SandboxManifest
from cuggino.process.children import Children
from cuggino.roles import Role
from tests.e2e.gemini_model import GEMINI
from tests.e2e.leftovers import left
from tests.e2e.messages import Drop, Fail, Say, Script, Spent, Stall, Use
from tests.e2e.programs import programs_folder
from tests.e2e.provider import Served

pytestmark = pytest.mark.e2e


class Ran(msgspec.Struct):
    events: list[Event]
    result: AgentResult | None = None
    error: LlmSessionError | None = None

    @property
    def ended_well(self) -> AgentResult:
        assert self.result is not None, self.error
        return self.result

    @property
    def failure(self) -> LlmSessionError:
        assert self.error is not None, self.result
        return self.error

    def of(self, kind: type[Any]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def text(self) -> str:
        return "".join(event.text for event in self.of(AgentMessage))


class House:
    """A home, a project, and gemini in it."""

    def __init__(self, folder: Path, home: Path, project: Path) -> None:
        self.folder, self.home, self.project = folder, home, project
        self.canary = f"canary-{uuid4().hex}"
        self.add: dict[str, str] = {}
        self._programs = programs_folder(folder / "bin", "gemini")
        self._agent = HeadlessAgent(GeminiBackend(), Children(marker=uuid4().hex))

    def options(self, url: str, **changes: Any) -> AgentOptions:
        environment = GEMINI.environment(self.home, url)
        environment["PATH"] = os.pathsep.join((str(self._programs), environment["PATH"]))
        given = {"role": Role.IMPLEMENTER, "cwd": self.project, "prompt": "Go.", "skip_permissions": True, **changes}
        return AgentOptions(
            output=self.folder / f"{uuid4()}.out",
            environment={**environment, "CANARY": self.canary, **self.add},
            **given,
        )

    async def run(self, server: Served | str, **changes: Any) -> Ran:
        ran = Ran([])

        async def take(event: Event) -> None:
            ran.events.append(event)

        url = server if isinstance(server, str) else server.url
        with trio.fail_after(120):
            try:
                ran.result = await self._agent.spawn(self.options(url, **changes), take)
            except LlmSessionError as error:
                ran.error = error
        return ran

    def left(self) -> list[str]:
        return left(self.canary, self.folder)


@pytest.fixture
def house(tmp_path: Path, home: Path, project: Path) -> House:
    return House(tmp_path, home, project)


def serve(*script: Sequence[Any]) -> Any:
    return GEMINI.serve(lambda _: script)


# ---- what arrives -----------------------------------------------------------------------------


async def test_tools_do_their_work_and_markers_are_found(house: House) -> None:
    script: Script = [
        [Say("First <NO", "TE>half</NOTE>."), Use("shell", {"command": "echo hello"}), Spent(2000, 20)],
        [Use("write", {"path": str(house.project / "made.txt"), "content": "line\n"})],
        [Use("read", {"path": "made.txt"})],
        [Say("<DO", "NE>all</DONE>")],
    ]
    with serve(*script) as server:
        ran = await house.run(server)
    told = [event for event in ran.events if isinstance(event, Note | Done | ToolCall | ToolResult)]
    pairs: list[type[Event]] = [ToolCall, ToolResult] * 3
    assert [type(event) for event in told] == [Note, *pairs, Done]
    assert [call.name for call in ran.of(ToolCall)] == ["run_shell_command", "write_file", "read_file"]
    assert "hello" in ran.of(ToolResult)[0].output
    assert (house.project / "made.txt").read_text() == "line\n"
    assert ran.ended_well.usage == UsageReport(input_tokens=5000, output_tokens=50)
    assert "line" in server.requests[-1].tool_results[-1]
    assert house.left() == []


async def test_a_conversation_is_gone_on_with_and_forgotten(house: House) -> None:
    session = str(uuid4())
    with serve([Say("One.")], [Say("Two.")]) as server:
        first = await house.run(server, session_id=session, prompt="Begin.", system_prompt="You are a test.")
        second = await house.run(server, resume_session_id=session, prompt="Go on.", system_prompt="You are a test.")
    assert (first.text, second.text) == ("One.", "Two.")
    assert first.ended_well.session_id == second.ended_well.session_id == session
    assert server.requests[-1].users[-1] == "Go on."
    assert server.requests[-1].text.count("You are a test.") == 1
    history = GeminiBackend().history({"HOME": str(house.home)}, house.project, session)
    assert 1 <= len(history) <= 2, "named after the minute: two where another minute began in between"
    assert {path.parent.name for path in history} == {"chats"}
    assert all(session in path.read_text() for path in history)


async def test_an_unknown_conversation_and_a_used_id_are_refused(house: House) -> None:
    session = str(uuid4())
    with serve([Say("One.")]) as server:
        await house.run(server, session_id=session)
        unknown = await house.run(server, resume_session_id=str(uuid4()))
        used = await house.run(server, session_id=session)
    assert unknown.failure.kind is used.failure.kind is LlmSessionErrorKind.SETUP
    assert "Invalid session identifier" in unknown.failure.message
    assert "already exists" in used.failure.message


@pytest.mark.parametrize("beginning", ["--prompt -x", "/clear"])
async def test_prompts_arrive_as_they_are(house: House, beginning: str) -> None:
    """A file that is named with an at sign is added behind the prompt, which stays as it is."""
    (house.project / "f.txt").write_text("what stands in it")
    prompt = f"{beginning} @f.txt @nofile.txt \\@ — 🙂 $HOME {'x' * 200_000} end"
    with serve([Say("Read.")]) as server:
        ran = await house.run(server, prompt=prompt, system_prompt=f"{beginning} standing")
    assert ran.text == "Read."
    assert prompt in server.requests[0].text
    assert f"{beginning} standing" in server.requests[0].text
    assert "what stands in it" in server.requests[0].text


async def test_a_model_is_chosen(house: House) -> None:
    with serve([Say("Yes.")]) as server:
        await house.run(server, model="another-model")
    assert {request.model for request in server.requests} == {"another-model"}


# ---- what it may do ---------------------------------------------------------------------------


async def test_a_reviewer_reads_runs_commands_and_writes_its_review_only(house: House) -> None:
    """The folder's name has what means something in a pattern."""
    cwd = house.project / "a (odd [1] {x} *) na'me"
    review = cwd / ".cuggino" / "wip" / "0.review.md"
    review.parent.mkdir(parents=True)
    (cwd / "code.py").write_text("x = 1\n")
    elsewhere = [cwd / "new.py", review.with_name("0.md"), review.with_name("0.review.md2")]
    edit = {"file_path": str(cwd / "code.py"), "old_string": "1", "new_string": "2", "instruction": "x"}
    script: Script = [
        [Use("write", {"path": str(review), "content": "good\n"})],
        [Use("write", {"path": ".cuggino/wip/0.review.md", "content": "very good\n"})],
        *([Use("write", {"path": str(path), "content": "x"})] for path in elsewhere),
        [Use("replace", edit)],
        [Use("read", {"path": "code.py"}), Use("grep_search", {"pattern": "x ="})],
        [Use("shell", {"command": "for i in a b; do echo $i; done > built.txt 2>&1; cat built.txt; rm -rf built.txt"})],
        [
            Use(
                "shell",
                {"command": "mkdir -p sub && (cd sub && pwd) | cat; git --version; python3 - <<'E'\nprint(6)\nE"},
            )
        ],
        [Say("<APPROVED>good</APPROVED>")],
    ]
    with serve(*script) as server:
        ran = await house.run(server, role=Role.REVIEWER, cwd=cwd, writable=(review,), skip_permissions=False)
    assert review.read_text() == "very good\n"
    assert (cwd / "code.py").read_text() == "x = 1\n"
    assert not any(path.exists() for path in elsewhere)
    denied = [denial.input["file_path"] for denial in ran.ended_well.denials]
    assert denied == [*(str(path) for path in elsewhere), str(cwd / "code.py")]
    assert [result.is_error for result in ran.of(ToolResult)] == [False] * 2 + [True] * 4 + [False] * 4, ran.events
    assert ran.of(ToolResult)[-2].output.split() == ["a", "b"]
    assert "6" in ran.of(ToolResult)[-1].output
    assert set(server.requests[0].tools) == {
        *("read_file", "list_directory", "glob", "grep_search", "write_file", "replace"),
        *("run_shell_command", "list_background_processes", "read_background_output"),
    }


async def test_without_a_path_a_read_only_role_has_no_tool_that_writes(house: House) -> None:
    with serve([Say("Nothing.")]) as server:
        await house.run(server, role=Role.AUDIT, skip_permissions=False)
    assert not {"write_file", "replace", "invoke_agent", "web_fetch"} & set(server.requests[0].tools)


async def test_a_policy_that_is_not_found_allows_nothing(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cuggino.agents.gemini.policy", lambda _: None)  # nothing is written
    with serve([Use("write", {"path": "new.py", "content": "x"})], [Say("Nothing.")]) as server:
        await house.run(server, role=Role.REVIEWER, writable=(Path("new.py"),))
    assert not (house.project / "new.py").exists()
    assert not {"write_file", "run_shell_command"} & set(server.requests[0].tools)


async def test_a_manifest_is_held_to(house: House) -> None:
    manifest = SandboxManifest(
        writable_paths=("src/**",),
        allowed_tools=("Read", "Write", "Bash", "Task"),
        allowed_commands=("echo *", "git *", "echo x | sort > sorted.txt"),
    )
    permits = Permits(manifest=manifest, bounds=Bounds(commands=("git push",)))
    uses = [
        (Use("write", {"path": "src/a/b.py", "content": "x"}), True),
        (Use("write", {"path": str(house.project / "src" / "c.py"), "content": "x"}), True),
        (Use("write", {"path": "a.py", "content": "x"}), False),
        (Use("write", {"path": "src/../b.py", "content": "x"}), False),
        (Use("write", {"path": ".git/x", "content": "x"}), False),
        (Use("shell", {"command": "echo a; echo b 2>&1"}), True),
        (Use("shell", {"command": "git init -q && git status"}), True),
        (Use("shell", {"command": "echo 'git push -> x'"}), True),
        (Use("shell", {"command": "echo x | sort > sorted.txt"}), True),
        (Use("shell", {"command": "echo a && ls"}), False),
        (Use("shell", {"command": "git push"}), False),
        (Use("shell", {"command": "git init; git -C . push"}), False),
        (Use("shell", {"command": "echo x > leak.txt"}), False),
    ]
    with serve(*([use] for use, _ in uses), [Say("Done.")]) as server:
        ran = await house.run(server, permits=permits)
    assert [not result.is_error for result in ran.of(ToolResult)] == [well for _, well in uses], ran.events
    assert {denial.tool for denial in ran.ended_well.denials} == {"write_file", "run_shell_command"}
    assert sorted(path.name for path in house.project.iterdir()) == [".git", "sorted.txt", "src"]
    assert set(server.requests[0].tools) == {
        *("read_file", "list_directory", "write_file"),
        *("run_shell_command", "list_background_processes", "read_background_output"),
    }


@pytest.mark.parametrize("foreign", [True, False])
async def test_a_foreign_projects_settings_and_addresses_are_not_used(house: House, foreign: bool) -> None:
    """Of a project of one's own they are, where the person trusts it."""
    folder = house.project / ".gemini"
    folder.mkdir()
    hook = {"type": "command", "command": "touch hooked"}
    settings = {
        "hooks": {"SessionStart": [{"hooks": [hook]}]},
        "mcpServers": {"x": {"command": "touch", "args": ["mcp"]}},
    }
    (folder / "settings.json").write_text(json.dumps(settings))
    (folder / ".env").write_text("GEMINI_MODEL=from-the-project\n")
    trusted = house.home / ".gemini" / "trustedFolders.json"
    trusted.parent.mkdir()
    trusted.write_text(json.dumps({str(house.project): "TRUST_FOLDER"}))
    with serve([Say("Yes.")]) as server:
        await house.run(server, foreign=foreign)
    assert (house.project / "mcp").exists() is not foreign
    assert {request.model for request in server.requests} == {"scripted" if foreign else "from-the-project"}


# ---- failures ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fail", "kind"),
    [
        (Fail(401, "UNAUTHENTICATED", "invalid key"), LlmSessionErrorKind.SETUP),
        (Fail(400, "INVALID_ARGUMENT", "API key not valid. Please pass a valid API key."), LlmSessionErrorKind.SETUP),
        (Fail(404, "NOT_FOUND", "models/x is not found for API version v1beta"), LlmSessionErrorKind.SETUP),
        (Fail(400, "INVALID_ARGUMENT", "no such field"), LlmSessionErrorKind.REFUSED),
        (Fail(429, "RESOURCE_EXHAUSTED", "Slower."), LlmSessionErrorKind.OVERLOADED),
        (Fail(429, "RESOURCE_EXHAUSTED", "Quota. Please retry in 7200s"), LlmSessionErrorKind.USAGE_LIMIT),
        (Fail(503, "UNAVAILABLE", "The model is overloaded."), LlmSessionErrorKind.OVERLOADED),
        (Fail(529, "overloaded_error", "Overloaded"), LlmSessionErrorKind.OVERLOADED),
    ],
    ids=["401", "key", "404", "400", "429", "quota", "503", "529"],
)
async def test_what_a_provider_refuses_has_a_kind(house: House, fail: Fail, kind: LlmSessionErrorKind) -> None:
    with serve([fail]) as server:
        ran = await house.run(server)
    assert ran.failure.kind is kind, ran.failure
    assert fail.message in ran.failure.message
    assert (ran.failure.resets_at is not None) is (kind is LlmSessionErrorKind.USAGE_LIMIT)
    assert len(server.requests) == 1


async def test_no_login_at_all(house: House) -> None:
    house.add = {"GEMINI_API_KEY": ""}
    with serve([Say("No.")]) as server:
        ran = await house.run(server)
    assert ran.failure.kind is LlmSessionErrorKind.SETUP
    assert not server.requests


async def test_a_server_that_is_not_there(house: House) -> None:
    with socket.create_server(("127.0.0.1", 0)) as bound:
        url = f"http://127.0.0.1:{bound.getsockname()[1]}"
    assert (await house.run(url)).failure.kind is LlmSessionErrorKind.NETWORK


@pytest.mark.parametrize("turn", [[Say("I begin"), Drop()], []], ids=["broken off", "empty"])
async def test_an_answer_without_an_end_is_asked_for_again(house: House, turn: list[Any]) -> None:
    with serve(turn) as server:
        ran = await house.run(server)
    assert ran.failure.kind is LlmSessionErrorKind.CRASHED
    assert ran.failure.exit_status == 0


# ---- stopping ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "command", ["touch begun; sleep 300", "setsid sh -c 'trap \"\" INT TERM; touch begun; sleep 300'"]
)
async def test_cancelled_in_a_tool_it_leaves_nothing(house: House, command: str) -> None:
    with serve([Use("shell", {"command": command})], [Stall()]) as server, trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(house.run, server)
            while not (house.project / "begun").exists():  # noqa: ASYNC110 - a file of another process
                await trio.sleep(0.02)
            assert any("sleep 300" in words for words in house.left())
            nursery.cancel_scope.cancel()
    assert house.left() == []
