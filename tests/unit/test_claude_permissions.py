"""A manifest within bounds → claude's settings. What claude makes of them is in tests/e2e/test_permissions.py."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cuggino.agents.agent import AgentOptions, Launch
from cuggino.agents.claude import ClaudeBackend
from cuggino.agents.claude.login_settings import LOGIN_ENVIRONMENT, login_patterns, login_settings
from cuggino.commands import exactly
from cuggino.config import Config
from cuggino.manifest import Bounds, Permits, SandboxManifest
from cuggino.roles import Role

BOUNDS = Bounds.of(Config().spawn.never_allow, ".specs")
NO_HOME = {"HOME": "/nonexistent"}


def start(folder: Path = Path("/box"), *, bounds: Bounds = BOUNDS, options: Any = None, **manifest: Any) -> Launch:
    permits = Permits(manifest=SandboxManifest(**manifest), bounds=bounds)
    given = {"role": Role.WORKER, "environment": NO_HOME, "permits": permits, **(options or {})}
    return ClaudeBackend().launch(AgentOptions(cwd=folder, prompt="Go.", output=folder / "out", **given))


def flag(started: Launch, name: str) -> str:
    return started.argv[started.argv.index(name) + 1]


def rules(started: Launch) -> tuple[list[str], list[str]]:
    permissions = json.loads(flag(started, "--settings"))["permissions"]
    return permissions["allow"], permissions["deny"]


def allowed(started: Launch) -> list[str]:
    return rules(started)[0]


def denied(started: Launch) -> list[str]:
    return rules(started)[1]


def test_a_sandbox_denies_what_it_does_not_allow_and_believes_no_settings_of_others() -> None:
    started = start(options={"skip_permissions": True})
    assert flag(started, "--permission-mode") == "dontAsk"
    assert flag(started, "--setting-sources") == ""
    assert "--strict-mcp-config" in started.argv
    assert "--dangerously-skip-permissions" not in started.argv


def test_the_rules_are_the_same_for_a_role_that_only_reads() -> None:
    started = start(options={"role": Role.EVALUATOR}, writable_paths=(), allowed_tools=("Read", "Bash"))
    assert flag(started, "--tools") == "Read,Bash,TaskOutput,TaskStop"
    assert not any(rule.startswith(("Edit", "Write", "Bash")) for rule in allowed(started))


def test_what_exists_is_what_the_manifest_names() -> None:
    assert flag(start(), "--tools") == "Read,Write,Edit,Glob,Grep,Bash,TaskOutput,TaskStop"
    assert flag(start(allowed_tools=("Read", "WebFetch")), "--tools") == "Read,WebFetch"
    assert flag(start(allowed_tools=()), "--tools") == ""
    assert "WebFetch" in allowed(start(allowed_tools=("Read", "WebFetch")))


def test_agents_that_start_agents_exist_in_no_manifest() -> None:
    tools = ("Read", "Task", "Agent", "Workflow", "Skill", "SendMessage", "AskUserQuestion", "CronCreate", "Task(x)")
    started = start(allowed_tools=tools)
    assert flag(started, "--tools") == "Read"
    assert {"Task", "Agent", "Workflow", "TeamCreate", "SendMessage", "Skill"} <= set(denied(started))


def test_tools_with_rules_are_never_allowed_by_name() -> None:
    """A bare one would allow it everywhere."""
    assert not {"Bash", "Read", "Write", "Edit", "Glob", "Grep", "NotebookEdit"} & set(allowed(start()))


def test_paths_are_below_the_sandbox_by_both_its_names(tmp_path: Path) -> None:
    (tmp_path / "real [1]").mkdir()
    (tmp_path / "link").symlink_to("real [1]")
    started = start(tmp_path / "link", writable_paths=("src/**", "./a.md", "docs/"), readable_paths=("**",))
    names = (f"/{tmp_path}/link", rf"/{tmp_path}/real \\[1\\]")
    assert [rule for rule in allowed(started) if rule.startswith("Edit")] == [
        f"Edit({name}/{path})" for path in ("src/**", "a.md", "docs/**") for name in names
    ]
    assert {f"Edit({name}/.git/**)" for name in names} <= set(denied(started))


@pytest.mark.parametrize("path", ["/etc/**", "../x", "a/../../x", "~/x", "!a", "#a", ""])
def test_a_path_that_leads_elsewhere_gives_nothing(path: str) -> None:
    assert not any(rule.startswith("Edit") for rule in allowed(start(writable_paths=(path,))))


def test_all_but_the_named_paths_are_denied() -> None:
    everything = start()
    assert not any("(!" in rule or "(./" in rule for rule in denied(everything))
    some = denied(start(readable_paths=("src/**", "*.md", "[id].py"), writable_paths=("**",)))
    assert [rule for rule in some if rule.startswith("Read") and "memory" not in rule] == [
        *("Read(./**)", "Read(!*/)", "Read(!/src/**/*)", "Read(!/*.md)", r"Read(!/\\[id\\].py)")
    ]
    none = denied(start(writable_paths=()))
    assert {"Edit(./**)", "Edit(!*/)"} <= set(none)
    result = denied(start(writable_paths=(), options={"writable": (Path("/box/r.md"), Path("/else/r.md"))}))
    assert "Edit(!/r.md)" in result


def test_what_claude_remembers_for_others_is_out_of_reach(tmp_path: Path) -> None:
    assert {"Edit(~/.claude/**)", "Read(~/.claude/projects/*/memory/**)"} <= set(denied(start()))
    elsewhere = start(options={"environment": {**NO_HOME, "CLAUDE_CONFIG_DIR": str(tmp_path)}})
    assert {f"Edit(/{tmp_path}/**)", f"Read(/{tmp_path}/projects/*/memory/**)"} <= set(denied(elsewhere))
    assert elsewhere.environment["CLAUDE_CODE_DISABLE_AUTO_MEMORY"] == "1"


def test_the_bounds_are_denied() -> None:
    rules_ = set(denied(start()))
    assert {"Bash(sudo *)", "Bash(git push *)", "Bash(gh *)", "Bash(claude *)", "Bash(cuggino *)"} <= rules_
    assert {"Bash(git -* push)", "Bash(git -* push *)", "Bash(/usr/bin/sudo *)", "Bash(env * sudo *)"} <= rules_
    assert {
        f"Edit(//box/{path})" for path in (".git", ".git/**", ".cuggino.json", ".cuggino/**", ".specs/**")
    } <= rules_


@pytest.mark.parametrize(
    ("pattern", "rule"),
    [
        ("uv run *", "Bash(uv run *)"),
        ("make", "Bash(make)"),
        ("npm run x:*", "Bash(npm run x:**)"),
        ("python -c 'print(1)'", r"Bash(python -c 'print\(1\)')"),
        ("a \\( *", r"Bash(a \\\\\( *)"),
        (exactly("echo \\d (x)"), r"Bash(echo \\d \(x\))"),
        (exactly("a * b") + " *", r"Bash(a \\* b *)"),
    ],
)
def test_a_command(pattern: str, rule: str) -> None:
    assert allowed(start(allowed_commands=(pattern,)))[-1] == rule


def test_an_exact_command_with_a_star_is_a_beginning_of_which_all_that_is_longer_is_denied() -> None:
    started = start(allowed_commands=(exactly("./run *.md"),))
    assert allowed(started)[-1] == "Bash(./run *.md:*)"
    assert denied(started)[-2:] == [r"Bash(./run \\*.md **)", "Bash(xargs ./run *.md:*)"]


def test_the_parts_of_a_pipe_are_allowed_and_those_of_others_are_not() -> None:
    """Across a pipe claude does not take a rule for the whole."""
    assert allowed(start(allowed_commands=("a 'x|y' | b",)))[-3:] == ["Bash(a 'x|y' | b)", "Bash(a 'x|y')", "Bash(b)"]
    assert "Bash(a)" not in allowed(start(allowed_commands=("a && b",)))


def test_a_rule_is_there_once() -> None:
    for rules_ in rules(start(allowed_commands=("make", "make"), writable_paths=("a", "./a"))):
        assert len(set(rules_)) == len(rules_)


def test_a_command_begins_in_the_sandboxs_folder() -> None:
    assert start().environment["CLAUDE_BASH_MAINTAIN_PROJECT_WORKING_DIR"] == "1"
    free = ClaudeBackend().launch(AgentOptions(role=Role.IMPLEMENTER, cwd=Path("/p"), prompt="x", output=Path("/p/o")))
    assert "CLAUDE_BASH_MAINTAIN_PROJECT_WORKING_DIR" not in free.environment


@pytest.mark.parametrize("role", [Role.WORKER, Role.TRIAGE])
def test_a_foreign_project_has_no_say_outside_of_a_sandbox_either(role: Role) -> None:
    options = AgentOptions(role=role, cwd=Path("/p"), prompt="x", output=Path("/p/o"), foreign=True)
    started = ClaudeBackend().launch(options)
    assert flag(started, "--setting-sources") == "user"
    assert "--strict-mcp-config" in started.argv


# ---- the login, where the person's settings are not used --------------------------------------


def settings_of(home: Path, **settings: Any) -> dict[str, str]:
    (home / ".claude").mkdir()
    (home / ".claude" / "settings.json").write_text(json.dumps(settings))
    return {"HOME": str(home)}


def test_only_the_login_and_the_model_are_kept(tmp_path: Path) -> None:
    environment = settings_of(
        tmp_path,
        permissions={"allow": ["Bash(*)"]},
        hooks={"Stop": []},
        apiKeyHelper="/bin/key",
        model="opus",
        env={"ANTHROPIC_API_KEY": "the-key", "OTHER": "x", "ANTHROPIC_MODEL": 7},
    )
    found = login_settings(environment)
    assert found.settings == {"apiKeyHelper": "/bin/key", "model": "opus"}
    assert found.environment == {"ANTHROPIC_API_KEY": "the-key"}
    started = start(options={"environment": environment})
    assert not any("the-key" in argument for argument in started.argv)
    assert json.loads(flag(started, "--settings"))["apiKeyHelper"] == "/bin/key"
    assert started.environment["ANTHROPIC_API_KEY"] == "the-key"


def test_a_providers_own_login_is_kept_where_it_is_chosen(tmp_path: Path) -> None:
    assert "AWS_*" not in login_patterns({"CLAUDE_CODE_USE_BEDROCK": "0"})
    assert {*LOGIN_ENVIRONMENT, "AWS_*"} == set(login_patterns({"CLAUDE_CODE_USE_BEDROCK": "1"}))
    environment = settings_of(tmp_path, env={"CLAUDE_CODE_USE_BEDROCK": "true", "AWS_REGION": "eu", "GH_TOKEN": "x"})
    assert login_settings(environment).environment == {"CLAUDE_CODE_USE_BEDROCK": "true", "AWS_REGION": "eu"}


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b'{"env": []}', b'{"env": null}', b"\xff"])
def test_unreadable_settings_are_ignored(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "settings.json").write_bytes(content)
    found = login_settings({"CLAUDE_CONFIG_DIR": str(tmp_path)})
    assert (found.settings, found.environment) == ({}, {})


# ---- what claude keeps of a conversation ------------------------------------------------------


def test_a_conversations_files_are_found_by_its_name_and_nothing_else_of_the_persons(tmp_path: Path) -> None:
    name, other = "11111111-2222-4333-8444-555555555555", "11111111-2222-4333-8444-555555555556"
    own = [
        f"projects/alone/{name}.jsonl",
        f"projects/shared/{name}.jsonl",
        f"projects/shared/{name}/tool-results/x.txt",
        f"todos/{name}-agent-{name}.json",
        f"session-env/{name}/x",
    ]
    others = [
        f"projects/shared/{other}.jsonl",
        f"todos/{other}.json",
        f"projects/shared/{name}0.jsonl",
        "settings.json",
    ]
    (tmp_path / "projects" / "alone" / "memory").mkdir(parents=True)
    for path in (*own, *others):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("{}")
    environment = {"CLAUDE_CONFIG_DIR": str(tmp_path), "TMPDIR": str(tmp_path / "none")}
    found = ClaudeBackend().history(environment, Path("/anywhere"), name)
    assert {path.relative_to(tmp_path).as_posix() for path in found} == {
        "projects/alone",
        f"projects/shared/{name}.jsonl",
        f"projects/shared/{name}",
        f"todos/{name}-agent-{name}.json",
        f"session-env/{name}",
    }
    assert ClaudeBackend().history({"HOME": str(tmp_path / "none")}, Path("/anywhere"), name) == []
