"""The real opencode, started as cuggino starts it, without a loop around it: the facts that the backend relies on.

What every agent does is in `test_contract`; this is what is particular to opencode.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from uuid import uuid4

import pytest
import trio

from cuggino.agents.agent import Denial
from cuggino.errors import LlmSessionErrorKind
from cuggino.manifest import Bounds, Permits, SandboxManifest
from cuggino.roles import Role
from tests.e2e.contract import Case, Stage, shell, unreachable, write
from tests.e2e.messages import Fail, Say, Spent, Turn
from tests.e2e.opencode_model import OpencodeAsked, nothing_to_install

pytestmark = pytest.mark.e2e

_PLUGIN = 'import { writeFileSync } from "fs"; export const P = async () => { writeFileSync("%s", ""); return {} }\n'


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(Case(name="opencode"), tmp_path)


def repository(folder: Path, *, worktree: Path | None = None) -> None:
    """A repository of one commit, and another working tree of it."""
    git = ("git", "-c", "user.name=t", "-c", "user.email=t@localhost")
    commands = [[*git, "init", "--quiet"], [*git, "commit", "--quiet", "--allow-empty", "-m", "first"]]
    if worktree is not None:
        commands.append([*git, "worktree", "add", "--quiet", str(worktree)])
    for command in commands:
        subprocess.run(command, cwd=folder, check=True)


# ---- what arrives -----------------------------------------------------------------------------


async def test_what_it_is_given_arrives_and_nothing_else_is_asked(stage: Stage) -> None:
    """The system prompt stands where opencode has its general one, before what it adds about the project. PWD is
    ignored, and the model is not asked for a title."""
    (stage.project / "AGENTS.md").write_text("Mind the gap.\n")
    with stage.serving([[Say("One."), Spent(input=7, output=3)]]) as served:
        ran = await stage.run(
            served.url,
            prompt="/Go\n",
            system_prompt="You plan. {env:HOME}",
            model="loopback/other",
            environment={
                "PWD": "/",
                "OPENCODE_CONFIG_CONTENT": '{"instructions": ["more.md"], "username": "somebody"}',
            },
        )
        [request] = served.requests
        assert served.background == []  # type: ignore[attr-defined]
    assert isinstance(request, OpencodeAsked)
    assert request.system.startswith("You plan. {env:HOME}")
    assert "Mind the gap." in request.system
    assert str(stage.project) in request.system
    assert request.body["model"] == "other"
    assert request.body["messages"][-1]["content"] == "/Go\n"
    assert ran.ended_well.usage is not None
    assert (ran.ended_well.usage.input_tokens, ran.ended_well.usage.cost_usd) == (7, None)


async def test_only_the_model_is_contacted(stage: Stage) -> None:
    """In the environment of these tests: no list of models, no package, no update."""
    if shutil.which("strace") is None:
        pytest.skip("strace is not here")
    calls = stage.folder / "calls"
    launcher = ("strace", "-f", "-qq", "-e", "trace=connect", "-o", str(calls))
    ran, _ = await stage.ask([shell("true")], [Say("Done.")], launcher=launcher)
    assert ran.text == "Done."
    asked = [line for line in calls.read_text().splitlines() if "sin_addr" in line or "sin6_addr" in line]
    assert asked
    assert [line for line in asked if '"127.0.0.1"' not in line] == []


# ---- failures ---------------------------------------------------------------------------------


async def test_a_model_that_nobody_knows_is_named(stage: Stage) -> None:
    """The line says only under which number the error stands in the log."""
    ran, requests = await stage.ask([Say("?")], model="loopback/no-such")
    assert ran.failure.kind is LlmSessionErrorKind.SETUP
    assert "Model not found: loopback/no-such" in ran.failure.message
    assert "opencode models" in ran.failure.advice
    assert requests == []


async def test_a_conversation_that_is_not_there(stage: Stage) -> None:
    ran, _ = await stage.ask([Say("?")], resume_session_id=f"ses_{uuid4().hex}")
    assert ran.failure.kind is LlmSessionErrorKind.SETUP
    assert "Session not found" in ran.failure.message


async def test_opencode_itself_retries(stage: Stage) -> None:
    ran, requests = await stage.ask([Fail(503, times=2), Say("Recovered.")])
    assert ran.text == "Recovered."
    assert len(requests) == 3


async def test_a_request_that_is_refused(stage: Stage) -> None:
    ran, requests = await stage.ask([Fail(400, "invalid_request_error", "no such parameter")])
    assert ran.failure.kind is LlmSessionErrorKind.REFUSED
    assert "no such parameter" in ran.failure.message
    assert len(requests) == 1


async def test_a_provider_that_is_not_there(stage: Stage) -> None:
    """It tries for more than a minute, and says nothing until then."""
    with trio.fail_after(180):
        ran = await stage.run(unreachable())
    assert ran.failure.kind is LlmSessionErrorKind.NETWORK
    assert stage.left() == []


# ---- a sandbox --------------------------------------------------------------------------------


async def test_opencode_itself_enforces_a_sandboxs_manifest(stage: Stage) -> None:
    """In a git worktree, as a sandbox is. A denial does not end the run."""
    sandbox = stage.folder / "sandbox"
    repository(stage.project, worktree=sandbox)
    stage.project = sandbox
    outside = stage.folder / "outside.txt"
    uses = {
        "made": write(sandbox / "src" / "deep" / "made.txt"),
        "elsewhere": write(sandbox / "elsewhere.txt"),
        "bound": write(sandbox / "src" / "kept" / "a.txt"),
        "outside": write(outside),
        "status": shell("git status --short"),
        "touch": shell("git status && touch touched"),
        "push": shell("git push"),
    }
    permits = Permits(
        manifest=SandboxManifest(writable_paths=("src/**",), allowed_commands=("git *",)),
        bounds=Bounds(commands=("git push",), paths=("src/kept/**",)),
    )
    script: list[Turn] = [*([use] for use in uses.values()), [Say("The end.")]]
    ran, requests = await stage.ask(*script, role=Role.WORKER, permits=permits, skip_permissions=False)
    assert ran.text == "The end."
    assert sorted(str(path.relative_to(sandbox)) for path in sandbox.rglob("*.txt")) == ["src/deep/made.txt"]
    assert not outside.exists()
    assert not (sandbox / "touched").exists()
    failed = {name for name, result in zip(uses, ran.results, strict=True) if result.is_error}
    assert failed == {"elsewhere", "bound", "outside", "touch", "push"}
    assert len(ran.ended_well.denials) == len(failed)
    assert Denial(tool="bash", input={"command": "git push", "description": "A command of the script."}) in (
        ran.ended_well.denials
    )
    assert sorted(requests[0].tools) == ["bash", "edit", "glob", "grep", "read", "write"]


async def test_a_sandbox_cannot_write_itself_other_rules_and_still_has_its_instructions(stage: Stage) -> None:
    repository(stage.project)
    (stage.project / "AGENTS.md").write_text("Mind the gap.\n")
    loose = {"permission": {"*": "allow"}, "agent": {"cuggino": {"permission": {"bash": {"touch *": "allow"}}}}}
    (stage.project / "opencode.json").write_text(json.dumps(loose))
    permits = Permits(manifest=SandboxManifest(allowed_commands=("true",)))
    ran, requests = await stage.ask([shell("touch touched")], [Say("No.")], role=Role.WORKER, permits=permits)
    assert ran.text == "No."
    assert not (stage.project / "touched").exists()
    assert "Mind the gap." in requests[0].system


@pytest.mark.parametrize("foreign", [True, False])
async def test_what_lies_in_a_foreign_project_is_not_used(stage: Stage, foreign: bool) -> None:
    repository(stage.project)
    (stage.project / "AGENTS.md").write_text("Mind the gap.\n")
    (stage.project / "opencode.json").write_text('{"instructions": ["more.md"]}')
    (stage.project / "more.md").write_text("Even more.\n")
    ran_plugin = stage.folder / "plugin-ran"
    folder = stage.project / ".opencode" / "plugins"
    folder.mkdir(parents=True)
    nothing_to_install(folder.parent)
    (folder / "p.js").write_text(_PLUGIN % ran_plugin)
    _, [request] = await stage.ask([Say("Done.")], foreign=foreign)
    assert ran_plugin.exists() is not foreign
    for words in ("Mind the gap.", "Even more."):
        assert (words in request.text) is not foreign, words
