"""How findings are shown, and the checks that only read files and the environment."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from cuggino.agents.claude.login import login, permissions
from cuggino.config import CiSettings, Config, NotifySettings, SpawnSettings
from cuggino.doctor import github, settings
from cuggino.doctor.finding import Finding, Level, diagnose, failure, ok, render, warning
from cuggino.doctor.machine import permission_fix
from cuggino.output.page import Page
from cuggino.project import Project

NOT_LOGGED_IN = (ok("git", "2.39"), failure("claude login", "not logged in", "claude auth login"))


def shown(findings: Sequence[Finding], *, colour: bool = False) -> list[str]:
    return render(diagnose(tuple(findings)), Page(width=120, colour=colour))


# ---- showing ----------------------------------------------------------------------------------


def test_a_finding_is_a_line_with_its_fix_below() -> None:
    assert shown(NOT_LOGGED_IN) == [
        "ok       git           2.39",
        "failure  claude login  not logged in",
        "                       → claude auth login",
        "",
        "1 failure, 0 warnings.",
    ]


@pytest.mark.parametrize(
    ("findings", "healthy", "verdict"),
    [
        ((ok("a", ""),), True, "cuggino can work here."),
        ((ok("a", ""), warning("b", "")), True, "cuggino can work here, with 1 warning."),
        ((failure("a", ""), failure("b", ""), warning("c", "")), False, "2 failures, 1 warning."),
    ],
)
def test_only_a_failure_is_unhealthy(findings: tuple[Finding, ...], healthy: bool, verdict: str) -> None:
    assert diagnose(findings).healthy is healthy
    assert shown(findings)[-1] == verdict


def test_foreign_text_is_shown_line_by_line_and_escaped() -> None:
    lines = shown((failure("git", "fatal: \x1b[2Jno\nhint: \x07really"),))
    assert lines[:2] == ["failure  git  fatal: ␛[2Jno", "              hint: ␇really"]


def test_colours_do_not_move_the_columns() -> None:
    assert shown(NOT_LOGGED_IN, colour=True)[:2] == [
        "\x1b[1;32mok\x1b[0m       git           2.39",
        "\x1b[1;31mfailure\x1b[0m  claude login  not logged in",
    ]


def test_the_json_is_as_documented() -> None:
    encoded = msgspec.json.encode(diagnose((warning("specs", "there is none", "mkdir .specs"),)))
    finding = {"name": "specs", "level": "warning", "text": "there is none", "fix": "mkdir .specs"}
    assert json.loads(encoded) == {"healthy": True, "findings": [finding]}


# ---- claude -----------------------------------------------------------------------------------

TOKENS = {"accessToken": "hush-hush", "refreshToken": "r", "expiresAt": 1000, "scopes": ["user:inference"]}
NOT_RENEWABLE = {**TOKENS, "refreshToken": None}
CREDENTIALS = ".claude/.credentials.json"
KEYS = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN")
ACCOUNT = {".claude.json": {"oauthAccount": {"emailAddress": "ada@example.com"}}}


@pytest.mark.parametrize(
    ("fit", "environment", "files", "platform"),
    [
        (False, {}, {}, "linux"),
        *((True, {name: "hush-hush"}, {}, "linux") for name in KEYS),
        *((False, {name: ""}, {}, "linux") for name in KEYS),
        (True, {"CLAUDE_CODE_USE_BEDROCK": "1"}, {}, "linux"),
        (True, {"CLAUDE_CODE_USE_VERTEX": "TRUE"}, {}, "linux"),
        (False, {"CLAUDE_CODE_USE_BEDROCK": "0"}, {}, "linux"),
        (True, {}, {CREDENTIALS: {"claudeAiOauth": TOKENS, "mcpOAuth": {}}}, "linux"),
        (False, {}, {CREDENTIALS: {"claudeAiOauth": NOT_RENEWABLE}}, "linux"),
        (True, {}, {CREDENTIALS: {"claudeAiOauth": {**NOT_RENEWABLE, "expiresAt": 3000}}}, "linux"),
        (True, {}, {".claude.json": {"primaryApiKey": "hush-hush", "numStartups": 3}}, "linux"),
        (True, {}, ACCOUNT, "darwin"),  # its tokens are in the keychain
        (False, {}, ACCOUNT, "linux"),
        (True, {}, {".claude/settings.json": {"apiKeyHelper": "./key"}}, "linux"),
        (True, {}, {".claude/settings.json": {"env": {"ANTHROPIC_API_KEY": "hush-hush"}}}, "linux"),
        (False, {}, {"elsewhere/.credentials.json": {"claudeAiOauth": TOKENS}}, "linux"),
        (
            True,
            {"CLAUDE_CONFIG_DIR": "{home}/elsewhere"},
            {"elsewhere/.credentials.json": {"claudeAiOauth": TOKENS}},
            "linux",
        ),
        *(
            (False, {}, {CREDENTIALS: content}, "linux")
            for content in ("", "{", "[]", '{"claudeAiOauth": null}', '{"claudeAiOauth": {}}', "\udcff")
        ),
    ],
)
def test_claude_s_login_is_found_in_the_environment_and_in_files_and_no_secret_is_shown(
    tmp_path: Path, fit: bool, environment: dict[str, str], files: dict[str, object], platform: str
) -> None:
    for path, content in files.items():
        text = content if isinstance(content, str) else json.dumps(content)
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(text.encode(errors="surrogateescape"))
    variables = {"HOME": str(tmp_path), **environment}
    variables = {name: value.format(home=tmp_path) for name, value in variables.items()}
    symptom = login(variables, tmp_path / "project", platform=platform, now=2.0)
    assert symptom.name == "login"
    assert symptom.met is fit
    assert bool(symptom.fix) is not fit
    assert "hush-hush" not in symptom.text


def test_root_must_declare_a_sandbox() -> None:
    assert permissions({}, 1000) is None
    refused = permissions({"IS_SANDBOX": "yes"}, 0)
    assert refused is not None
    assert not refused.met
    assert "IS_SANDBOX=1" in refused.fix
    allowed = permissions({"IS_SANDBOX": "1"}, 0)
    assert allowed is not None
    assert allowed.met


# ---- gh ---------------------------------------------------------------------------------------


def test_gh_is_needed_only_for_pull_requests_and_ci() -> None:
    assert not github.is_needed(Config())
    assert not github.is_needed(Config(spawn=SpawnSettings(integrate="merge")))
    assert github.is_needed(Config(spawn=SpawnSettings(integrate="pr")))
    assert github.is_needed(Config(ci=CiSettings(threads="bots")))


@pytest.mark.parametrize(
    ("hosts", "level"),
    [
        ("github.com:\n    oauth_token: secret\n    user: ada\n", Level.OK),
        ("github.com:\n    git_protocol: https\n    users:\n        ada:\n    user: ada\n", Level.OK),
        ("github.com:\n    git_protocol: https\n", Level.FAILURE),
        ("{}\n", Level.FAILURE),
        (None, Level.FAILURE),
    ],
)
def test_gh_s_login_is_found_in_its_file_or_the_environment(tmp_path: Path, hosts: str | None, level: Level) -> None:
    directory = tmp_path / ".config" / "gh"
    directory.mkdir(parents=True)
    if hosts is not None:
        (directory / "hosts.yml").write_text(hosts)
    found = github.login({"HOME": str(tmp_path)})
    assert found.level is level
    assert "secret" not in found.text
    assert github.login({"HOME": str(tmp_path), "GH_TOKEN": "secret"}).level is Level.OK


# ---- the project ------------------------------------------------------------------------------


def test_specs_must_be_a_directory_with_files(tmp_path: Path) -> None:
    project = Project(tmp_path / "a b")
    (project.root / ".specs").mkdir(parents=True)
    assert settings.specs(project, Config()).level is Level.WARNING
    (project.root / ".specs" / "a.md").touch()
    assert settings.specs(project, Config()).level is Level.OK
    missing = settings.specs(project, Config(specs_path="docs"))
    assert missing.level is Level.WARNING
    assert missing.fix == f"mkdir -p '{project.root}/docs'"


@pytest.mark.parametrize(
    ("notify", "level"),
    [
        (NotifySettings(), None),
        (NotifySettings(command=("sh",)), Level.WARNING),
        (NotifySettings(events=("Note",)), Level.WARNING),
        (NotifySettings(command=("no-such-bell",), events=("Note",)), Level.WARNING),
        (NotifySettings(command=("./no-such-bell",), events=("Note",)), Level.WARNING),
        (NotifySettings(command=("./bell",), events=("Note",)), Level.OK),
    ],
)
def test_the_program_for_notifications_must_exist(tmp_path: Path, notify: Any, level: Level | None) -> None:
    (tmp_path / "bell").touch(0o755)
    found = settings.notify(Project(tmp_path), Config(notify=notify))
    assert (found and found.level) is level


def test_a_directory_without_the_right_to_write_is_given_it_by_its_owner(tmp_path: Path) -> None:
    tmp_path.chmod(0o555)
    try:
        assert permission_fix(Project(tmp_path), tmp_path) == f"chmod u+w {tmp_path}"
    finally:
        tmp_path.chmod(0o755)
    assert permission_fix(Project(tmp_path), tmp_path).startswith("sudo chown -R ")
