"""The real gemini, started as cuggino starts it, without a loop around it: the facts that the backend relies on.

What every agent does is in `test_contract`; this is what is particular to gemini.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from cuggino.agents.gemini import GeminiBackend
from cuggino.errors import LlmSessionErrorKind
from cuggino.manifest import Bounds, Permits, SandboxManifest
from cuggino.roles import Role
from tests.e2e.contract import Case, Stage, shell, write
from tests.e2e.gemini_model import GeminiRequest
from tests.e2e.messages import Drop, Fail, Say, Script, Use

pytestmark = pytest.mark.e2e


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(Case(name="gemini"), tmp_path)


# ---- what arrives -----------------------------------------------------------------------------


async def test_a_conversation_is_resumed_and_its_files_are_found(stage: Stage) -> None:
    session, words = str(uuid4()), "You are a test."
    with stage.serving([[Say("One.")], [Say("Two.")]]) as served:
        first = await stage.run(served.url, session_id=session, prompt="Begin.", system_prompt=words)
        second = await stage.run(served.url, resume_session_id=session, prompt="Go on.", system_prompt=words)
    assert (first.text, second.text) == ("One.", "Two.")
    assert first.ended_well.session_id == second.ended_well.session_id == session
    last = served.requests[-1]
    assert isinstance(last, GeminiRequest)
    assert last.users[-1] == "Go on."
    assert last.text.count("You are a test.") == 1
    history = GeminiBackend().history({"HOME": str(stage.home)}, stage.project, session)
    assert 1 <= len(history) <= 2, "named after the minute: two where another minute began in between"
    assert {path.parent.name for path in history} == {"chats"}
    assert all(session in path.read_text() for path in history)


async def test_an_unknown_conversation_and_a_used_id_are_refused(stage: Stage) -> None:
    session = str(uuid4())
    with stage.serving([[Say("One.")]]) as served:
        await stage.run(served.url, session_id=session)
        unknown = await stage.run(served.url, resume_session_id=str(uuid4()))
        used = await stage.run(served.url, session_id=session)
    assert unknown.failure.kind is used.failure.kind is LlmSessionErrorKind.SETUP
    assert "Invalid session identifier" in unknown.failure.message
    assert "already exists" in used.failure.message


@pytest.mark.parametrize("beginning", ["--prompt -x", "/clear"])
async def test_prompts_arrive_as_they_are(stage: Stage, beginning: str) -> None:
    """A file that is named with an at sign is added behind the prompt, which stays as it is."""
    (stage.project / "f.txt").write_text("what stands in it")
    prompt = f"{beginning} @f.txt @nofile.txt \\@ — 🙂 $HOME {'x' * 200_000} end"
    ran, requests = await stage.ask([Say("Read.")], prompt=prompt, system_prompt=f"{beginning} standing")
    assert ran.text == "Read."
    assert prompt in requests[0].text
    assert f"{beginning} standing" in requests[0].text
    assert "what stands in it" in requests[0].text


async def test_a_model_is_chosen(stage: Stage) -> None:
    _, requests = await stage.ask([Say("Yes.")], model="another-model")
    assert {request.model for request in requests} == {"another-model"}


# ---- what it may do ---------------------------------------------------------------------------


async def test_a_reviewer_reads_runs_commands_and_writes_its_review_only(stage: Stage) -> None:
    """The directory's name has characters that are special in a pattern."""
    cwd = stage.project / "a (odd [1] {x} *) na'me"
    review = cwd / ".cuggino" / "wip" / "0.review.md"
    review.parent.mkdir(parents=True)
    (cwd / "code.py").write_text("x = 1\n")
    elsewhere = [cwd / "new.py", review.with_name("0.md"), review.with_name("0.review.md2")]
    edit = {"file_path": str(cwd / "code.py"), "old_string": "1", "new_string": "2", "instruction": "x"}
    script: Script = [
        [write(review, "good\n")],
        [write(".cuggino/wip/0.review.md", "very good\n")],
        *([write(path, "x")] for path in elsewhere),
        [Use("replace", edit)],
        [Use("read", {"path": "code.py"}), Use("grep_search", {"pattern": "x ="})],
        [shell("for i in a b; do echo $i; done > built.txt 2>&1; cat built.txt; rm -rf built.txt")],
        [shell("mkdir -p sub && (cd sub && pwd) | cat; git --version; python3 - <<'E'\nprint(6)\nE")],
        [Say("<APPROVED>good</APPROVED>")],
    ]
    ran, requests = await stage.ask(*script, role=Role.REVIEWER, cwd=cwd, writable=(review,), skip_permissions=False)
    assert review.read_text() == "very good\n"
    assert (cwd / "code.py").read_text() == "x = 1\n"
    assert not any(path.exists() for path in elsewhere)
    denied = [denial.input["file_path"] for denial in ran.ended_well.denials]
    assert denied == [*(str(path) for path in elsewhere), str(cwd / "code.py")]
    assert [result.is_error for result in ran.results] == [False] * 2 + [True] * 4 + [False] * 4, ran.events
    assert ran.results[-2].output.split() == ["a", "b"]
    assert "6" in ran.results[-1].output
    assert set(requests[0].tools) == {
        *("read_file", "list_directory", "glob", "grep_search", "write_file", "replace"),
        *("run_shell_command", "list_background_processes", "read_background_output"),
    }


async def test_without_a_path_a_read_only_role_has_no_tool_that_writes(stage: Stage) -> None:
    _, requests = await stage.ask([Say("Nothing.")], role=Role.AUDIT, skip_permissions=False)
    assert not {"write_file", "replace", "invoke_agent", "web_fetch"} & set(requests[0].tools)


async def test_a_policy_that_is_not_found_allows_nothing(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cuggino.agents.gemini.policy", lambda _: None)  # nothing is written
    script: Script = [[write("new.py", "x")], [Say("Nothing.")]]
    _, requests = await stage.ask(*script, role=Role.REVIEWER, writable=(Path("new.py"),))
    assert not (stage.project / "new.py").exists()
    assert not {"write_file", "run_shell_command"} & set(requests[0].tools)


async def test_a_manifest_is_enforced(stage: Stage) -> None:
    manifest = SandboxManifest(
        writable_paths=("src/**",),
        allowed_tools=("Read", "Write", "Bash", "Task"),
        allowed_commands=("echo *", "git *", "echo x | sort > sorted.txt"),
    )
    permits = Permits(manifest=manifest, bounds=Bounds(commands=("git push",)))
    uses = [
        (write("src/a/b.py", "x"), True),
        (write(stage.project / "src" / "c.py", "x"), True),
        (write("a.py", "x"), False),
        (write("src/../b.py", "x"), False),
        (write(".git/x", "x"), False),
        (shell("echo a; echo b 2>&1"), True),
        (shell("git init -q && git status"), True),
        (shell("echo 'git push -> x'"), True),
        (shell("echo x | sort > sorted.txt"), True),
        (shell("echo a && ls"), False),
        (shell("git push"), False),
        (shell("git init; git -C . push"), False),
        (shell("echo x > leak.txt"), False),
    ]
    ran, requests = await stage.ask(*([use] for use, _ in uses), [Say("Done.")], permits=permits)
    assert [not result.is_error for result in ran.results] == [well for _, well in uses], ran.events
    assert {denial.tool for denial in ran.ended_well.denials} == {"write_file", "run_shell_command"}
    assert sorted(path.name for path in stage.project.iterdir()) == [".git", "sorted.txt", "src"]
    assert set(requests[0].tools) == {
        *("read_file", "list_directory", "write_file"),
        *("run_shell_command", "list_background_processes", "read_background_output"),
    }


@pytest.mark.parametrize("foreign", [True, False])
async def test_a_foreign_projects_settings_and_addresses_are_not_used(stage: Stage, foreign: bool) -> None:
    """Those of the person's own project are, if the person trusts it."""
    folder = stage.project / ".gemini"
    folder.mkdir()
    hook = {"type": "command", "command": "touch hooked"}
    settings = {
        "hooks": {"SessionStart": [{"hooks": [hook]}]},
        "mcpServers": {"x": {"command": "touch", "args": ["mcp"]}},
    }
    (folder / "settings.json").write_text(json.dumps(settings))
    (folder / ".env").write_text("GEMINI_MODEL=from-the-project\n")
    trusted = stage.home / ".gemini" / "trustedFolders.json"
    trusted.parent.mkdir()
    trusted.write_text(json.dumps({str(stage.project): "TRUST_FOLDER"}))
    _, requests = await stage.ask([Say("Yes.")], foreign=foreign)
    assert (stage.project / "mcp").exists() is not foreign
    assert {request.model for request in requests} == {"scripted" if foreign else "from-the-project"}


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
async def test_what_a_provider_refuses_has_a_kind(stage: Stage, fail: Fail, kind: LlmSessionErrorKind) -> None:
    ran, requests = await stage.ask([fail])
    assert ran.failure.kind is kind, ran.failure
    assert fail.message in ran.failure.message
    assert (ran.failure.resets_at is not None) is (kind is LlmSessionErrorKind.USAGE_LIMIT)
    assert len(requests) == 1


async def test_no_login_at_all(stage: Stage) -> None:
    ran, requests = await stage.ask([Say("No.")], environment={"GEMINI_API_KEY": ""})
    assert ran.failure.kind is LlmSessionErrorKind.SETUP
    assert not requests


@pytest.mark.parametrize("turn", [[Say("I begin"), Drop()], []], ids=["broken off", "empty"])
async def test_an_answer_without_an_end_is_asked_for_again(stage: Stage, turn: list[Any]) -> None:
    ran, _ = await stage.ask(turn)
    assert ran.failure.kind is LlmSessionErrorKind.CRASHED
    assert ran.failure.exit_status == 0
