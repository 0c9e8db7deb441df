"""The real codex, started as cuggino starts it, without a loop around it: the facts that the backend relies on.

What every agent does is in `test_contract`; this is what is particular to codex.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from cuggino.agents.codex import CodexBackend
from cuggino.errors import LlmSessionErrorKind
from cuggino.events import SystemMessage
from cuggino.manifest import Bounds, Permits, SandboxManifest
from cuggino.roles import Role
from tests.e2e.codex_model import CodexAsked, UsageLimit
from tests.e2e.contract import Case, Stage, shell, write
from tests.e2e.messages import Drop, Fail, Say, Turn

pytestmark = pytest.mark.e2e

PLACEHOLDERS = (".agents", ".aws", ".codex")
"""codex's sandbox puts these into directories, and removes them again."""


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(Case(name="codex"), tmp_path)


def files(folder: Path) -> list[str]:
    """All files and directories, except for those in .git."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if ".git" not in path.parts)


def configured(stage: Stage, url: str, *, before: str = "", behind: str = "") -> dict[str, str]:
    """Write a person's own settings around the provider's; return the environment that uses them."""
    home = stage.home / "configured"
    home.mkdir(exist_ok=True)
    stage.environment(url)
    (home / "config.toml").write_text(before + (stage.home / ".codex" / "config.toml").read_text() + behind)
    return {"CODEX_HOME": str(home)}


# ---- what arrives -----------------------------------------------------------------------------


async def test_the_system_prompt_is_a_developer_message_and_stays_when_a_conversation_is_resumed(
    stage: Stage,
) -> None:
    conversation = str(uuid4())
    first, [request] = await stage.ask([Say("One.")], system_prompt="You plan.", session_id=conversation)
    developer = [item for item in request.body["input"] if item.get("role") == "developer"]
    assert any("You plan." in str(item) for item in developer)
    second, [request] = await stage.ask(
        [], [Say("Two.")], system_prompt="You plan.", resume_session_id=conversation, prompt="Go on."
    )
    assert (first.text, second.text) == ("One.", "Two.")
    assert "You plan." in request.text
    assert request.text.index("Begin.") < request.text.index("Go on.")


async def test_the_model_is_the_given_one(stage: Stage) -> None:
    _, [request] = await stage.ask([Say("Hello.")], model="gpt-of-the-tests")
    assert request.body["model"] == "gpt-of-the-tests"


async def test_a_schema_is_asked_for_and_the_answer_decoded(stage: Stage) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    ran, [request] = await stage.ask([Say('```json\n{"n": 3}\n```')], schema=schema)
    assert ran.ended_well.structured == {"n": 3}
    assert json.dumps(schema) in request.text


async def test_a_patch_is_a_tools_use(stage: Stage) -> None:
    ran, _ = await stage.ask([write(stage.project / "made.txt")], [Say("Done.")])
    assert [call.name for call in ran.calls] == ["apply_patch"]
    assert ran.calls[0].input == {"changes": [{"path": str(stage.project / "made.txt"), "kind": "add"}]}
    assert not ran.results[0].is_error


async def test_commands_look_for_programs_where_codex_does(stage: Stage) -> None:
    folder = stage.folder / "programs"
    ran, _ = await stage.ask(
        *([shell("echo $PATH")], [Say("Done.")]),
        environment={"PATH": f"{folder}:{stage.environment('')['PATH']}"},
    )
    assert str(folder) in ran.results[0].output.split(":")


async def test_its_history_is_found_by_the_id_of_the_conversation(stage: Stage) -> None:
    ran, _ = await stage.ask([Say("Hello.")])
    session = ran.ended_well.session_id
    assert session is not None
    [recorded] = CodexBackend().history({"HOME": str(stage.home)}, stage.project, session)
    assert recorded.is_relative_to(stage.home / ".codex" / "sessions")
    assert b"Hello." in recorded.read_bytes()
    assert CodexBackend().history({"CODEX_HOME": f"{stage.home}/.codex"}, stage.project, str(uuid4())) == []


# ---- failures ---------------------------------------------------------------------------------


async def test_codex_tries_again_by_itself(stage: Stage) -> None:
    ran, _ = await stage.ask([Fail(429, headers={"retry-after": "0"}, times=2), Say("Recovered.")])
    assert ran.text == "Recovered."
    retries = [event.text for event in ran.events if isinstance(event, SystemMessage)]
    assert [text.partition(":")[0] for text in retries] == [
        "API not reached, or it rejected the request, attempt 1 of 5",
        "API not reached, or it rejected the request, attempt 2 of 5",
    ]


async def test_a_connection_that_breaks_is_tried_again(stage: Stage) -> None:
    answers = iter([[[Drop()]]])
    with stage.serving(lambda _: next(answers, [[Say("Once more.")]])) as served:
        ran = await stage.run(served.url)
    assert ran.text == "Once more."


async def test_a_usage_limit_says_when_it_resets(stage: Stage) -> None:
    resets_at = datetime.now(UTC).replace(second=0, microsecond=0) + timedelta(hours=30)
    ran, requests = await stage.ask([UsageLimit(resets_at=resets_at)])
    assert ran.failure.kind is LlmSessionErrorKind.USAGE_LIMIT
    assert ran.failure.resets_at == resets_at + timedelta(minutes=1)
    assert len(requests) == 1


@pytest.mark.parametrize(
    ("fail", "kind"),
    [
        (Fail(400, "context_length_exceeded", "too long"), LlmSessionErrorKind.REFUSED),
        (Fail(400, "invalid_request_error", "no"), LlmSessionErrorKind.REFUSED),
        (Fail(404, "model_not_found", "The model `x` does not exist"), LlmSessionErrorKind.SETUP),
        (Fail(413), LlmSessionErrorKind.REFUSED),
        (Fail(429, "insufficient_quota", "no credit"), LlmSessionErrorKind.SETUP),
    ],
    ids=["too long", "invalid", "model", "too large", "credit"],
)
async def test_what_no_further_attempt_changes_is_known_soon(
    stage: Stage, fail: Fail, kind: LlmSessionErrorKind
) -> None:
    ran, requests = await stage.ask([fail])
    assert ran.failure.kind is kind
    assert len(requests) <= 3, "of the six that codex would make"


async def test_no_key(stage: Stage) -> None:
    ran, requests = await stage.ask([Say("No.")], environment={"OPENAI_API_KEY": ""})
    assert ran.failure.kind is LlmSessionErrorKind.SETUP
    assert requests == []


async def test_an_unknown_conversation_is_refused(stage: Stage) -> None:
    ran, _ = await stage.ask([Say("No.")], resume_session_id=str(uuid4()))
    assert ran.failure.kind is LlmSessionErrorKind.SETUP
    assert "no rollout found" in ran.failure.message


# ---- a read-only role -------------------------------------------------------------------------


async def test_a_reviewers_commands_write_where_it_may_and_to_temporary_files(stage: Stage) -> None:
    """Not to existing files beside its own. The path to the project contains a link."""
    wip = stage.project / ".cuggino" / "wip"
    wip.mkdir(parents=True)
    (wip / "0.md").write_text("the plan\n")
    link = stage.folder / "link"
    link.symlink_to(stage.project)
    command = (
        f"echo good > {link}/.cuggino/wip/0.review.md; mktemp; for f in {wip}/0.md new {stage.folder}/new .git/new; do"
        " echo x > $f && echo wrote $f; done; rm code .cuggino/wip/0.md; mv .cuggino x; echo end"
    )
    (stage.project / "code").write_text("")
    project, stage.project = stage.project, link
    ran, _ = await stage.ask(
        *([shell(command)], [write(project / "new.py")], [Say("Reviewed.")]),
        role=Role.REVIEWER,
        writable=(link / ".cuggino" / "wip" / "0.review.md",),
    )
    assert ran.text == "Reviewed."
    assert (wip / "0.review.md").read_text() == "good\n"
    assert (wip / "0.md").read_text() == "the plan\n"
    assert files(project) == [".cuggino", ".cuggino/wip", ".cuggino/wip/0.md", ".cuggino/wip/0.review.md", "code"]
    assert "wrote" not in ran.results[0].output.replace(f"wrote {stage.folder}/new", "")
    assert str(stage.home / "tmp") in ran.results[0].output, "mktemp gave a name"


async def test_a_persons_own_settings_do_not_open_a_read_only_role(stage: Stage) -> None:
    settings = 'approval_policy = "on-request"\nsandbox_mode = "danger-full-access"\n'
    script: list[Turn] = [[shell("echo x > new")], [write(stage.project / "new.py")], [Say("Reviewed.")]]
    with stage.serving(script) as served:
        ran = await stage.run(
            served.url, role=Role.REVIEWER, environment=configured(stage, served.url, before=settings)
        )
    assert ran.text == "Reviewed."
    assert files(stage.project) == []


async def test_what_the_sandbox_denied_is_reported_only_to_the_model(stage: Stage) -> None:
    """A stopped command or patch leaves no line, or only that the command started, if it takes long. So cuggino
    learns of no denials."""
    ran, [*_, last] = await stage.ask(
        [shell("echo x > new")], [write(stage.project / "new")], [Say("No.")], role=Role.REVIEWER
    )
    assert "Read-only file system" in last.tool_results[0]
    assert "patch rejected" in last.tool_results[1]
    assert [call.input for call in ran.calls] in ([], [{"command": "/bin/bash -c 'echo x > new'"}])
    assert ran.ended_well.denials == ()


# ---- a sandbox --------------------------------------------------------------------------------


@pytest.fixture
def sandbox(stage: Stage) -> Iterator[Path]:
    """A git worktree, with specs."""
    repository = stage.folder / "repository"
    git = ("git", "-C", str(repository), "-c", "user.name=t", "-c", "user.email=t@t")
    subprocess.run(["git", "init", "-q", str(repository)], check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "first"], check=True)
    stage.project.rmdir()
    subprocess.run([*git, "worktree", "add", "-q", str(stage.project)], check=True)
    for name in (".specs/a.md", "src/code.py", "docs/guide.md", "secrets/key"):
        (stage.project / name).parent.mkdir(exist_ok=True)
        (stage.project / name).write_text("old\n")
    yield stage.project
    assert not any(
        (folder / name).exists() for folder in (stage.project, stage.project / "src") for name in PLACEHOLDERS
    )


def permits(**manifest: Any) -> Permits:
    return Permits(manifest=SandboxManifest(**manifest), bounds=Bounds.of(["sudo", "locked/**"], ".specs"))


async def test_a_sandbox_lets_an_agent_write_where_its_manifest_says(stage: Stage, sandbox: Path) -> None:
    places = ".specs/a.md .cuggino.json .git src/new docs/new docs/guide.md README.md other/new new"
    ran, [request, answered, *_] = await stage.ask(
        [shell(f'mkdir other .cuggino; for f in {places}; do echo x > $f && echo "[$f]"; done; rm .specs/a.md')],
        *([write(sandbox / name)] for name in (".specs/a.md", ".cuggino.json", "docs/guide.md", "src/patched.py")),
        [Say("Done.")],
        permits=permits(writable_paths=("src/**", "docs/*.html", "README.md")),
        skip_permissions=False,
    )
    assert ran.text == "Done."
    # Wider than the manifest, for others to check: beside README.md there can be new files, and all of docs is open.
    assert re.findall(r"\[[\w./]+\]", answered.tool_results[0]) == [
        *("[src/new]", "[docs/new]", "[docs/guide.md]", "[README.md]", "[other/new]", "[new]")
    ]
    assert (sandbox / ".specs" / "a.md").read_text() == "old\n"
    assert (sandbox / ".git").is_file()
    assert not (sandbox / ".cuggino.json").exists()
    assert (sandbox / "src" / "patched.py").read_text() == "written\n"
    assert "spawn_agent" not in request.tools


async def test_the_default_manifest_leaves_all_but_the_bounds_open(stage: Stage, sandbox: Path) -> None:
    command = "echo x > new; mkdir -p a/b; echo x > a/b/c; echo x > .specs/b.md; mkdir .cuggino; git status --short"
    ran, _ = await stage.ask([shell(command)], [Say("Done.")], permits=permits(), skip_permissions=False)
    assert "?? a/" in ran.results[0].output
    assert {"new", "a/b/c"} <= set(files(sandbox))
    assert files(sandbox / ".specs") == ["a.md"]
    assert not (sandbox / ".cuggino").exists()


async def test_what_a_manifest_does_not_let_read_is_not_read(stage: Stage, sandbox: Path) -> None:
    ran, _ = await stage.ask(
        [shell("cat src/code.py; cat secrets/key; cat docs/guide.md; ls")],
        [Say("Done.")],
        permits=permits(readable_paths=("src/**",), writable_paths=("src/**",)),
        skip_permissions=False,
    )
    assert ran.results[0].output.count("old") == 1


async def test_tools_that_a_manifest_does_not_have_are_not_there(stage: Stage, sandbox: Path) -> None:
    manifest = permits(allowed_tools=("Read", "Write", "Edit"))
    _, [request, *_] = await stage.ask([Say("Done.")], permits=manifest, skip_permissions=False)
    assert "apply_patch" in request.tools
    assert not {"exec_command", "spawn_agent", "web_search"} & set(request.tools)


# ---- instructions and settings that lie in a project ------------------------------------------


def furnish(folder: Path, hooked: Path) -> None:
    """Add everything that codex would use of a project."""
    skill = folder / ".agents" / "skills" / "odd" / "SKILL.md"
    for path in (folder / ".codex", skill.parent):
        path.mkdir(parents=True)
    (folder / "AGENTS.md").write_text("INSTRUCTED\n")
    skill.write_text("---\nname: odd\ndescription: SKILLED\n---\n")
    (folder / ".codex" / "config.toml").write_text('model = "configured"\n')
    hook = {"hooks": [{"type": "command", "command": f"touch {hooked}"}]}
    (folder / ".codex" / "hooks.json").write_text(json.dumps({"hooks": {"SessionStart": [hook]}}))


async def furnished(stage: Stage, *, trusted: Path, **options: Any) -> CodexAsked:
    """The request of a run in which the person has trusted a directory."""
    trust = f'\n[projects."{trusted}"]\ntrust_level = "trusted"\n'
    with stage.serving([[Say("Hello.")]]) as served:
        ran = await stage.run(served.url, environment=configured(stage, served.url, behind=trust), **options)
        assert ran.text == "Hello."
        [request] = served.requests
        assert isinstance(request, CodexAsked)
        return request


async def test_nothing_of_a_foreign_project_is_used(stage: Stage) -> None:
    furnish(stage.project, stage.folder / "hooked")
    request = await furnished(stage, trusted=stage.project)
    assert "INSTRUCTED" in request.text
    assert "SKILLED" in request.text
    assert request.body["model"] == "configured"
    sub = stage.project / "sub"
    sub.mkdir()
    (stage.project / ".git").mkdir()  # what codex takes for the root of a project
    project = stage.project
    for stage.project in (project, sub):
        request = await furnished(stage, trusted=project, foreign=True)
        assert "INSTRUCTED" not in request.text
        assert "SKILLED" not in request.text
        assert request.body["model"] != "configured"
    assert not (stage.folder / "hooked").exists()


async def test_an_agent_in_a_sandbox_sets_nothing_up_for_the_next_one(stage: Stage, sandbox: Path) -> None:
    """Its instructions, which are part of the project, are used, and its settings if a person trusts them."""
    (sandbox / "AGENTS.md").write_text("INSTRUCTED\n")
    command = "for f in .codex .agents; do mkdir -p $f/skills; echo x > $f/config.toml; done; ls -A"
    _, [request, *_] = await stage.ask(
        [shell(command)], [write(sandbox / ".codex" / "hooks.json")], [Say("Done.")], permits=permits()
    )
    assert "INSTRUCTED" in request.text
    assert not {".codex", ".agents"} & set(files(sandbox))
