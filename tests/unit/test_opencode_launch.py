"""How opencode is started, and what it may do."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cuggino.agents.agent import Launch
from cuggino.agents.opencode import OpencodeBackend
from cuggino.errors import LlmSessionError, LlmSessionErrorKind
from cuggino.manifest import Bounds, Permits, SandboxManifest
from cuggino.roles import Role
from tests.unit.launching import changed, flag


def launch(**changes: object) -> Launch:
    return OpencodeBackend().launch(changed(**changes))


def settings(started: Launch) -> dict[str, Any]:
    content = started.environment["OPENCODE_CONFIG_CONTENT"]
    assert content is not None
    decoded: dict[str, Any] = json.loads(content)
    return decoded


def agent(started: Launch) -> dict[str, Any]:
    found: dict[str, Any] = settings(started)["agent"]["cuggino"]
    return found


def rules(started: Launch) -> dict[str, Any]:
    found: dict[str, Any] = agent(started)["permission"]
    return found


def action(started: Launch, permission: str, pattern: str = "*") -> str:
    """What opencode would do: the last rule counts, and in a pattern a star stands for anything."""
    found = "allow"
    for name, rule in rules(started).items():
        for each, said in ({"*": rule} if isinstance(rule, str) else rule).items():
            if _match(name, permission) and _match(each, pattern):
                found = said
    return found


def _match(pattern: str, text: str) -> bool:
    escaped = re.sub(r"[.+^${}()|\[\]\\]", r"\\\g<0>", pattern).replace("*", ".*").replace("?", ".")
    if escaped.endswith(" .*"):
        escaped = escaped[:-3] + "( .*)?"
    return re.fullmatch(escaped, text, re.DOTALL) is not None


# ---- what is passed ---------------------------------------------------------------------------


def test_a_conversation_starts_with_a_title_or_is_resumed() -> None:
    assert launch().argv[:4] == ("opencode", "run", "--format", "json")
    assert flag(launch().argv, "--title") == "cuggino implementer"
    assert "--session" not in launch(session_id="an-id").argv, "opencode chooses it"
    assert flag(launch(resume_session_id="ses_1").argv, "--session") == "ses_1"


def test_the_model_and_the_system_prompt() -> None:
    started = launch(model="loopback/other", system_prompt="You implement.")
    assert flag(started.argv, "--model") == "loopback/other"
    assert flag(started.argv, "--agent") == "cuggino"
    assert agent(started)["prompt"] == "You implement."
    assert "--model" not in launch().argv
    assert "prompt" not in agent(launch())


def test_nothing_in_a_system_prompt_is_replaced() -> None:
    prompt = "“ü” {env:HOME} {file:/etc/passwd} {braces} \\u007b"
    started = launch(system_prompt=prompt, environment={"OPENCODE_CONFIG_CONTENT": '{"username": "{env:USER}"}'})
    content = started.environment["OPENCODE_CONFIG_CONTENT"]
    assert content is not None
    assert re.findall(r"\{(?:env|file):\w*", content) == ["{env:USER"], "the person's own still is"
    assert agent(started)["prompt"] == prompt


def test_the_persons_own_configuration_stays() -> None:
    persons = {
        "provider": {"mine": {"npm": "x"}},
        "agent": {"build": {"model": "mine/m"}, "cuggino": {"permission": {"edit": {"src/*": "allow"}}}},
        "experimental": {"mcp_timeout": 5},
        "share": "auto",
    }
    started = launch(environment={"OPENCODE_CONFIG_CONTENT": json.dumps(persons)}, role=Role.AUDIT)
    merged = settings(started)
    assert merged["provider"] == persons["provider"]
    assert merged["agent"]["build"] == {"model": "mine/m"}
    assert merged["experimental"] == {"mcp_timeout": 5, "continue_loop_on_deny": True}
    assert merged["share"] == "disabled"
    assert action(started, "edit", "src/a") == "deny", "an agent of the same name adds nothing to ours"


@pytest.mark.parametrize("content", ["{ // a comment\n}", "[]", "nonsense"])
def test_a_configuration_that_cannot_be_kept_stops_the_start(content: str) -> None:
    with pytest.raises(LlmSessionError, match="OPENCODE_CONFIG_CONTENT") as caught:
        launch(environment={"OPENCODE_CONFIG_CONTENT": content})
    assert caught.value.kind is LlmSessionErrorKind.SETUP


def test_opencode_works_where_it_was_started_and_not_where_the_environment_says() -> None:
    environment = launch().environment
    assert environment["PWD"] is None
    assert environment["OPENCODE_PID"] is None
    assert not any("KEY" in name or name in ("HOME", "OPENCODE_CONFIG") for name in environment), "the login stays"


def test_of_a_foreign_project_nothing_is_used() -> None:
    assert launch(foreign=True).environment["OPENCODE_DISABLE_PROJECT_CONFIG"] == "1"
    assert launch(foreign=True).environment["OPENCODE_DISABLE_CLAUDE_CODE"] == "1"
    assert "OPENCODE_DISABLE_PROJECT_CONFIG" not in launch().environment


def test_interactive_has_the_persons_own_permissions() -> None:
    options = changed(prompt="-p", system_prompt="You plan.", model="m/x")
    started = OpencodeBackend().launch_interactive(options)
    assert started.argv == ("opencode", "--agent", "cuggino", "--model", "m/x", "--prompt=-p")
    assert agent(started)["prompt"] == "You plan."
    assert "permission" not in agent(started)
    assert OpencodeBackend().launch_interactive(changed(prompt="")).argv[-1] == "cuggino"


def test_interactive_with_directories_asks_about_every_change_outside_of_them(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    options = changed(cwd=tmp_path, prompt="", writable=(Path("specs"),))
    started = OpencodeBackend().launch_interactive(options)
    assert [action(started, "edit", path) for path in ("specs/a.md", "specs/a/b.md", "src/a.py")] == [
        *("allow", "allow", "ask")
    ]
    assert action(started, "bash", "rm -rf x") == "ask"


# ---- read-only roles --------------------------------------------------------------------------


@pytest.mark.parametrize("role", [role for role in Role if role.read_only])
def test_a_read_only_role_has_a_list_of_tools_and_no_writing_one(role: Role) -> None:
    started = launch(role=role)
    assert "--auto" not in started.argv
    assert [action(started, tool) for tool in ("bash", "read", "glob", "grep")] == ["allow"] * 4
    others = ("edit", "task", "webfetch", "skill", "a_tool_of_tomorrow", "mcp_anything")
    assert {action(started, tool) for tool in others} == {"deny"}
    assert rules(started)["edit"] == "deny", "with no path to write to the tool does not exist"


def test_a_read_only_role_may_write_exactly_what_it_is_given(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    started = launch(role=Role.REVIEWER, cwd=tmp_path, writable=(tmp_path / "wip" / "u [*].md",))
    assert action(started, "edit", "wip/u [*].md") == "allow"
    assert action(started, "edit", f"{tmp_path}/wip/u [*].md".lstrip("/")) == "allow", "its name without git"
    assert action(started, "edit", "wip/other.md") == "deny"
    assert action(started, "edit", "src/wip/u [*].md") == "deny"


def test_a_path_is_named_from_the_root_of_the_working_tree(tmp_path: Path) -> None:
    (tmp_path / ".git").write_text("gitdir: elsewhere\n")
    (tmp_path / "part").mkdir()
    started = launch(role=Role.REVIEWER, cwd=tmp_path / "part", writable=(Path("r.md"),))
    assert action(started, "edit", "part/r.md") == "allow"
    assert action(started, "edit", "r.md") == "deny"


def test_a_path_through_a_link_is_allowed_by_both_its_names(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    started = launch(role=Role.REVIEWER, cwd=tmp_path, writable=(Path("link/r.md"),))
    assert action(started, "edit", "link/r.md") == action(started, "edit", "real/r.md") == "allow"


# ---- sandboxes --------------------------------------------------------------------------------


def sandbox(folder: Path, bounds: Bounds | None = None, **manifest: Any) -> Launch:
    (folder / ".git").mkdir(exist_ok=True)
    permits = Permits(manifest=SandboxManifest(**manifest), bounds=bounds or Bounds())
    return launch(role=Role.WORKER, cwd=folder, permits=permits)


def test_a_sandbox_has_the_tools_of_its_manifest_and_never_one_that_starts_agents(tmp_path: Path) -> None:
    started = sandbox(tmp_path, allowed_tools=("Read", "Write", "Bash", "WebFetch", "Task"))
    assert "--auto" not in started.argv
    assert [action(started, tool) for tool in ("read", "webfetch")] == ["allow", "allow"]
    assert [action(started, tool) for tool in ("task", "glob", "grep", "skill", "mcp_x")] == ["deny"] * 5
    assert action(started, "external_directory", "/etc/*") == "deny"


def test_a_sandbox_may_run_the_commands_of_its_manifest_within_its_bounds(tmp_path: Path) -> None:
    bounds = Bounds(commands=("sudo", "git push"))
    started = sandbox(tmp_path, bounds, allowed_commands=("git *", "make check", "sudo ls"))
    commands = {
        "git status": "allow",
        "git log -1": "allow",
        "make check": "allow",
        "make check all": "deny",
        "make": "deny",
        "rm -rf x": "deny",
        "git push": "deny",
        "git push -f": "deny",
        "sudo ls": "deny",
        "sudo": "deny",
    }
    assert {command: action(started, "bash", command) for command in commands} == commands


def test_a_sandbox_may_write_where_its_manifest_says_within_its_bounds(tmp_path: Path) -> None:
    started = sandbox(tmp_path, Bounds.of(("vendor/**",), "specs"), writable_paths=("**",))
    paths = {
        "a.py": "allow",
        "src/deep/a.py": "allow",
        ".github/w.yml": "allow",
        ".git/config": "deny",
        ".cuggino.json": "deny",
        "specs/a.md": "deny",
        "vendor/a/b": "deny",
        "../outside.py": "deny",
        "../../etc/x": "deny",
    }
    assert {path: action(started, "edit", path) for path in paths} == paths


def test_what_is_denied_stays_denied_though_the_manifest_names_it_too(tmp_path: Path) -> None:
    bounds = Bounds(commands=("git push",), paths=("specs/**",))
    manifest = {"writable_paths": ("specs/**", "**"), "allowed_commands": ("git push *", "git *")}
    started = sandbox(tmp_path, bounds, **manifest)
    assert action(started, "edit", "specs/a.md") == action(started, "bash", "git push -f") == "deny"
    assert action(started, "edit", "src/a.md") == action(started, "bash", "git log") == "allow"


def test_what_is_not_to_be_read_is_not_searched_either(tmp_path: Path) -> None:
    started = sandbox(tmp_path, readable_paths=("src/**",))
    assert [action(started, "read", path) for path in ("src/a/b", "secret")] == ["allow", "deny"]
    assert action(started, "grep", "anything") == "deny"


_NAME = st.sampled_from(["a", "b", "src", "x.py", "y.md"])
_PATTERN = st.lists(st.sampled_from(["a", "src", "*", "*.py", "**", "x?py"]), min_size=1, max_size=3).map("/".join)


@example(patterns=("*", "**"), path="a/a")
@given(patterns=st.lists(_PATTERN, max_size=3).map(tuple), path=st.lists(_NAME, min_size=1, max_size=4).map("/".join))
def test_whatever_a_manifest_lets_write_opencode_lets_write(patterns: tuple[str, ...], path: str) -> None:
    permits = Permits(manifest=SandboxManifest(writable_paths=patterns))
    started = launch(role=Role.WORKER, cwd=Path("/"), permits=permits)
    if permits.may_write(path):
        assert action(started, "edit", path) == "allow"


@given(
    patterns=st.lists(_PATTERN.filter(lambda it: "**" not in it and "?" not in it), max_size=3).map(tuple),
    path=st.lists(_NAME, min_size=1, max_size=4).map("/".join),
)
def test_and_without_folders_of_any_depth_nothing_else(patterns: tuple[str, ...], path: str) -> None:
    permits = Permits(manifest=SandboxManifest(writable_paths=patterns))
    started = launch(role=Role.WORKER, cwd=Path("/"), permits=permits)
    assert (action(started, "edit", path) == "allow") is permits.may_write(path)


def test_a_sandbox_cannot_write_itself_other_rules(tmp_path: Path) -> None:
    started = sandbox(tmp_path)
    assert started.environment["OPENCODE_DISABLE_PROJECT_CONFIG"] == "1"
    assert settings(started)["instructions"] == [str(tmp_path / "AGENTS.md")], "these are still read"


def test_a_read_only_role_in_a_sandbox_has_no_more_than_both_allow(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    permits = Permits(manifest=SandboxManifest(allowed_commands=("ls",), allowed_tools=("Read", "Bash", "WebFetch")))
    started = launch(role=Role.TRIAGE, cwd=tmp_path, permits=permits)
    assert [action(started, "bash", command) for command in ("ls", "rm x")] == ["allow", "deny"]
    assert [action(started, tool) for tool in ("webfetch", "edit", "grep")] == ["deny"] * 3
