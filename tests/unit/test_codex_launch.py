"""How codex is started, what it may do, and whether it would find a login."""

from __future__ import annotations

import json
import tomllib
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from cuggino.agents.codex import CodexBackend
from cuggino.manifest import Bounds, Permits, SandboxManifest
from cuggino.roles import Role
from tests.unit.launching import OPTIONS, changed

BYPASS = "--dangerously-bypass-approvals-and-sandbox"


def launch(**changes: Any) -> tuple[str, ...]:
    return CodexBackend().launch(changed(**changes)).argv


def config(argv: tuple[str, ...]) -> dict[str, Any]:
    """What codex makes of the -c arguments: each is TOML."""
    merged: dict[str, Any] = {}
    for flag, setting in pairwise(argv):
        if flag == "-c":
            key, _, value = setting.partition("=")
            merged[key] = tomllib.loads(f"it = {value}")["it"]
    return merged


def access(argv: tuple[str, ...]) -> dict[str, str]:
    settings = config(argv)
    assert settings["default_permissions"] == "cuggino"
    profile = settings["permissions.cuggino"]
    assert profile["network"] == {"enabled": True}
    found: dict[str, str] = profile["filesystem"]
    return found


def test_half_a_character_in_a_prompt_does_not_stop_the_start() -> None:
    started = CodexBackend().launch(changed(prompt="cut \ud83d", system_prompt="\ud83d"))
    assert started.stdin == b"cut ?"
    assert config(started.argv)["developer_instructions"] == "?"


def test_a_conversation_is_resumed_and_never_started_under_an_id() -> None:
    assert "an-id" not in launch(session_id="an-id")
    resumed = launch(resume_session_id="an-id")
    assert resumed[:3] == ("codex", "exec", "resume")
    assert resumed[-3:] == ("--", "an-id", "-")


def test_only_what_is_asked_for_is_passed() -> None:
    argv = launch()
    assert argv[:4] == ("codex", "exec", "--json", "--skip-git-repo-check")
    assert argv[-2:] == ("--", "-")
    assert set(config(argv)) == {"approval_policy", "allow_login_shell", "features.unbounded_connection_retries"}


@pytest.mark.parametrize("prompt", ["You plan.", "'\"\\ \n\t `$X` {a} = [b]", "“ü” 🙂 \x7f \x01", '"""', "true", "1"])
def test_a_system_prompt_arrives_as_it_is(prompt: str) -> None:
    assert config(launch(system_prompt=prompt))["developer_instructions"] == prompt


def test_a_schema_is_asked_for_behind_the_system_prompt() -> None:
    instructions = config(launch(system_prompt="You judge.", schema={"type": "object"}))["developer_instructions"]
    assert instructions.startswith("You judge.\n\n")
    assert instructions.endswith(json.dumps({"type": "object"}))
    assert config(launch(schema={"type": "object"}))["developer_instructions"].startswith("Your last message is JSON")


def test_an_agent_does_not_take_itself_for_part_of_the_codex_around_it() -> None:
    environment = CodexBackend().launch(OPTIONS).environment
    assert {"CODEX_THREAD_ID", "CODEX_SANDBOX", "CODEX_SANDBOX_NETWORK_DISABLED"} <= set(environment)
    assert set(environment.values()) == {None}
    assert not any("KEY" in name or "TOKEN" in name or name in ("HOME", "CODEX_HOME") for name in environment)


# ---- what it may do ---------------------------------------------------------------------------


def test_permissions_are_skipped_only_when_asked() -> None:
    assert BYPASS in launch()
    assert BYPASS not in launch(skip_permissions=False)
    assert BYPASS not in launch(permits=Permits(manifest=SandboxManifest()))


@pytest.mark.parametrize("role", [role for role in Role if role.read_only])
def test_a_read_only_role_reads_all_and_writes_temporary_files(role: Role) -> None:
    argv = launch(role=role)
    assert BYPASS not in argv
    assert access(argv) == {":root": "read", ":tmpdir": "write", ":slash_tmp": "write", "/project": "read"}
    assert config(argv)["approval_policy"] == "never"


def test_a_read_only_role_writes_its_file_in_a_folder_whose_other_files_stay(tmp_path: Path) -> None:
    wip = tmp_path / "wip"
    (wip / ".git").mkdir(parents=True)
    for name in ("0.md", "0.review.md"):
        (wip / name).touch()
    (wip / "link").symlink_to(tmp_path)
    argv = launch(role=Role.REVIEWER, cwd=tmp_path, writable=(Path("wip/0.review.md"),))
    assert {path: mode for path, mode in access(argv).items() if path.startswith(f"{wip}")} == {
        f"{wip}": "write",
        f"{wip}/.git": "read",
        f"{wip}/0.md": "read",
        **{f"{wip}/{name}": "write" for name in (".codex", ".agents", ".aws")},
    }


def test_a_path_through_a_link_is_the_real_one(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    found = access(launch(role=Role.REVIEWER, cwd=tmp_path / "link", writable=(tmp_path / "link" / "r.md",)))
    assert found[f"{tmp_path}/real"] == "write"
    assert not any(path.startswith(f"{tmp_path}/link") for path in found)


def sandbox(cwd: Path, never_allow: tuple[str, ...] = (), **manifest: Any) -> dict[str, str]:
    """What a worker may do, without what is the same for all."""
    permits = Permits(manifest=SandboxManifest(**manifest), bounds=Bounds.of(never_allow, ".specs"))
    found = access(launch(role=Role.WORKER, cwd=cwd, permits=permits))
    assert (found.pop(":root"), found.pop(":tmpdir"), found.pop(":slash_tmp")) == ("read", "write", "write")
    short = {str(Path(path).relative_to(cwd)): mode for path, mode in found.items()}
    assert short.get(".codex") != "write"
    return {path: mode for path, mode in short.items() if Path(path).name not in (".codex", ".agents", ".aws")}


@pytest.fixture
def worktree(tmp_path: Path) -> Path:
    (tmp_path / ".git").touch()
    for name in ("src/a.py", ".specs/a.md", "docs/b.md"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).touch()
    return tmp_path


BARRED = {".git": "read", ".cuggino.json": "read", ".cuggino": "read", ".specs": "read"}


def test_the_default_manifest_opens_all_but_the_bounds(worktree: Path) -> None:
    assert sandbox(worktree) == {".": "write", **BARRED}


def test_a_manifest_opens_folders_and_what_is_wider_is_for_others_to_check(worktree: Path) -> None:
    opened = {"src": "write", "src/.git": "write", "docs": "write", "docs/.git": "write"}
    barred = {".git": "read", ".specs": "read"}
    assert sandbox(worktree, writable_paths=("src/**", "docs/*.html")) == {".": "read", **opened, **barred}


def test_a_single_file_opens_its_folder_and_no_other_file_in_it(worktree: Path) -> None:
    opened = {".": "write", "src": "read", "docs": "read", **BARRED}
    assert sandbox(worktree, writable_paths=("README.md",)) == opened


def test_bounds_are_barred_also_where_nothing_is_but_not_in_folders_that_are_missing(worktree: Path) -> None:
    found = sandbox(worktree, never_allow=("locked/**", "src/a.py", "no/such/folder/**", "src/*.lock"))
    assert found == {".": "write", **BARRED, "locked": "read", "src/a.py": "read"}


def test_what_must_not_be_read_is_denied_except_for_what_git_needs(worktree: Path) -> None:
    for name in ("key", "docs/key"):
        (worktree / name).touch()
    found = sandbox(worktree, readable_paths=("docs/b.md",), writable_paths=("README.md",))
    assert (found["key"], found["src"]) == ("deny", "deny"), "though the folder of README.md is open"
    assert sandbox(worktree, readable_paths=("docs/b.md",), writable_paths=("src/**",)) == {
        ".": "read",
        "src": "write",
        "src/.git": "write",
        ".git": "read",
        ".specs": "deny",
        "key": "deny",
        "docs/key": "deny",
    }


def test_a_worker_also_writes_where_its_result_is_expected(worktree: Path) -> None:
    permits = Permits(manifest=SandboxManifest(writable_paths=("src/**",)))
    (worktree / "results").mkdir()
    found = access(launch(cwd=worktree, permits=permits, writable=(Path("results/0.md"),)))
    assert (found[f"{worktree}/results"], found[str(worktree)]) == ("write", "read")


@pytest.mark.parametrize("pattern", ["/etc/**", "../other/**", "src/../../x"])
def test_a_manifest_opens_nothing_outside(worktree: Path, pattern: str) -> None:
    assert "write" not in sandbox(worktree, writable_paths=(pattern,)).values()


def test_tools_that_can_be_taken_out() -> None:
    def settings(*tools: str) -> dict[str, Any]:
        return config(launch(permits=Permits(manifest=SandboxManifest(allowed_tools=tools))))

    assert settings("Read", "Bash")["agents.enabled"] is False
    assert "features.shell_tool" not in settings("Read", "Bash")
    assert settings("Read", "Bash")["web_search"] == "disabled"
    assert settings("Read", "WebSearch")["features.shell_tool"] is False
    assert "web_search" not in settings("Read", "WebSearch")
    barred = Permits(manifest=SandboxManifest(), bounds=Bounds(tools=("Bash",)))
    assert config(launch(permits=barred))["features.shell_tool"] is False


def test_nothing_of_a_foreign_project_is_used() -> None:
    settings = config(launch(foreign=True, cwd=Path("/some/project")))
    assert settings["projects"] == {each: {"trust_level": "untrusted"} for each in ("/some/project", "/some", "/")}
    assert settings["project_doc_max_bytes"] == 0
    assert settings["skills.include_instructions"] is False


# ---- with a person ----------------------------------------------------------------------------


def test_interactive_has_the_persons_own_permissions() -> None:
    options = changed(prompt="--p", system_prompt="You plan.", model="gpt-x", session_id="id")
    started = CodexBackend().launch_interactive(options)
    assert started.argv == (
        *("codex", "--model", "gpt-x", "-c", 'developer_instructions="You plan."'),
        *("--", "--p"),
    )
    assert started.stdin == b""


def test_interactive_resumes_a_conversation() -> None:
    argv = CodexBackend().launch_interactive(changed(resume_session_id="an-id")).argv
    assert argv == ("codex", "resume", "--", "an-id", "Do the task.")


def test_interactive_with_directories_asks_about_every_change_outside_of_them(tmp_path: Path) -> None:
    (tmp_path / "specs").mkdir()
    options = changed(cwd=tmp_path, writable=(Path("specs"),))
    argv = CodexBackend().launch_interactive(options).argv
    assert config(argv)["approval_policy"] == "on-request"
    assert access(argv)[str(tmp_path / "specs")] == "write"
    assert access(argv)[str(tmp_path)] == "read"


# ---- its files --------------------------------------------------------------------------------


def test_a_conversation_is_a_recording_in_the_folder_of_a_day(tmp_path: Path) -> None:
    day = tmp_path / ".codex" / "sessions" / "2026" / "11" / "22"
    day.mkdir(parents=True)
    for name in ("rollout-2026-11-22T01-25-01-an-id.jsonl", "rollout-2026-11-22T01-25-01-an-id-2.jsonl", "an-id"):
        (day / name).touch()
    found = CodexBackend().history({"HOME": str(tmp_path)}, Path("/project"), "an-id")
    assert [path.name for path in found] == ["rollout-2026-11-22T01-25-01-an-id.jsonl"]
    assert CodexBackend().history({"CODEX_HOME": str(tmp_path)}, Path("/project"), "an-id") == []


OWN = '[model_providers.own]\nenv_key = "OWN_KEY"\n'


@pytest.mark.parametrize(
    ("environment", "files", "fit", "text"),
    [
        ({}, {}, False, "not logged in"),
        ({"OPENAI_API_KEY": "k"}, {}, False, "not logged in"),
        ({"CODEX_API_KEY": "k"}, {}, True, "CODEX_API_KEY is set"),
        ({"CODEX_API_KEY": ""}, {}, False, "not logged in"),
        ({}, {"auth.json": '{"OPENAI_API_KEY": "k", "tokens": null}'}, True, "a key, in"),
        ({}, {"auth.json": '{"OPENAI_API_KEY": null, "tokens": {"id_token": "t"}}'}, True, "logged in, by"),
        ({}, {"auth.json": "{}"}, False, "not logged in"),
        ({}, {"auth.json": "broken", "config.toml": "broken ="}, False, "not logged in"),
        ({}, {"config.toml": 'cli_auth_credentials_store = "keyring"'}, True, "keyring"),
        ({"OWN_KEY": "k"}, {"config.toml": 'model_provider = "own"\n' + OWN}, True, "OWN_KEY is set"),
        ({"CODEX_API_KEY": "k"}, {"config.toml": 'model_provider = "own"\n' + OWN}, False, "OWN_KEY is not set"),
        ({"CODEX_API_KEY": "k"}, {"config.toml": OWN}, True, "CODEX_API_KEY is set"),
        ({}, {"config.toml": 'model_provider = "own"\n[model_providers.own]\nname = "x"'}, True, "its own login"),
    ],
)
def test_where_codex_would_find_a_login(
    tmp_path: Path, environment: dict[str, str], files: dict[str, str], fit: bool, text: str
) -> None:
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    backend = CodexBackend()
    [found] = backend.prerequisites({"CODEX_HOME": str(tmp_path), **environment}, tmp_path)
    assert (found.name, found.met) == ("login", fit)
    assert text in found.text
    assert bool(found.fix) is not fit
