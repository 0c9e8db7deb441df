"""What is told of findings, and what is concluded from files and the environment."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from cuggino.agents.claude.login import login, permissions
from cuggino.config import Ci, Config, Notify, Spawn
from cuggino.doctor import github, settings
from cuggino.doctor.finding import Level, failure, ok, render, report, warning
from cuggino.output.page import Page
from cuggino.project import Project

PLAIN = Page(width=120, colour=False)


# ---- showing ----------------------------------------------------------------------------------


def test_a_finding_is_a_line_and_what_mends_it_stands_below() -> None:
    found = report((ok("git", "2.39"), failure("claude login", "not logged in", "claude auth login")))
    assert render(found, PLAIN) == [
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
def test_only_a_failure_is_unhealthy(findings: Sequence[Any], healthy: bool, verdict: str) -> None:
    found = report(tuple(findings))
    assert found.healthy is healthy
    assert render(found, PLAIN)[-1] == verdict


def test_words_of_others_are_shown_line_by_line_and_cannot_play_tricks() -> None:
    lines = render(report((failure("git", "fatal: \x1b[2Jno\nhint: \x07really"),)), PLAIN)
    assert lines[:2] == ["failure  git  fatal: ␛[2Jno", "              hint: ␇really"]


def test_colours_do_not_move_the_columns() -> None:
    found = report((ok("git", "2.39"), failure("claude login", "not logged in", "claude auth login")))
    coloured = render(found, Page(width=120, colour=True))
    assert coloured[0] == "\x1b[1;32mok\x1b[0m       git           2.39"
    assert coloured[1] == "\x1b[1;31mfailure\x1b[0m  claude login  not logged in"


def test_the_json_is_what_the_documents_say() -> None:
    encoded = msgspec.json.encode(report((warning("specs", "there is none", "mkdir .specs"),)))
    finding = {"name": "specs", "level": "warning", "text": "there is none", "mend": "mkdir .specs"}
    assert json.loads(encoded) == {"healthy": True, "findings": [finding]}


# ---- claude -----------------------------------------------------------------------------------


TOKENS = {"accessToken": "a", "refreshToken": "r", "expiresAt": 1000, "scopes": ["user:inference"]}


class Person:
    """A home and a project to log in from."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.root = folder / "project"
        self.root.mkdir()

    def has(self, path: str, content: object) -> None:
        place = self.home / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(content if isinstance(content, str) else json.dumps(content))

    def fit(self, platform: str = "linux", **environment: str) -> bool:
        everything = {"HOME": str(self.home), **environment}
        found = login(everything, self.root, platform=platform, now=2.0)
        assert found.name == "login"
        assert bool(found.fix) is not found.met
        return found.met


@pytest.fixture
def person(tmp_path: Path) -> Person:
    return Person(tmp_path)


def test_without_anything_claude_is_not_logged_in(person: Person) -> None:
    assert not person.fit()


@pytest.mark.parametrize("name", ["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"])
def test_a_key_in_the_environment_is_a_login_unless_it_is_empty(person: Person, name: str) -> None:
    assert person.fit(**{name: "secret"})
    assert not person.fit(**{name: ""})


def test_another_provider_has_a_login_of_its_own(person: Person) -> None:
    assert person.fit(CLAUDE_CODE_USE_BEDROCK="1")
    assert person.fit(CLAUDE_CODE_USE_VERTEX="TRUE")
    assert not person.fit(CLAUDE_CODE_USE_BEDROCK="0")


def test_a_login_that_can_be_renewed_does_not_expire(person: Person) -> None:
    person.has(".claude/.credentials.json", {"claudeAiOauth": TOKENS, "mcpOAuth": {}})
    assert person.fit()
    person.has(".claude/.credentials.json", {"claudeAiOauth": {**TOKENS, "refreshToken": None}})
    assert not person.fit()
    person.has(".claude/.credentials.json", {"claudeAiOauth": {**TOKENS, "refreshToken": None, "expiresAt": 3000}})
    assert person.fit()


def test_a_key_that_was_made_at_login_is_a_login(person: Person) -> None:
    person.has(".claude.json", {"primaryApiKey": "sk-ant-api03", "numStartups": 3})
    assert person.fit()


def test_an_account_is_a_login_only_where_its_tokens_are_in_a_keychain(person: Person) -> None:
    person.has(".claude.json", {"oauthAccount": {"emailAddress": "ada@example.com"}})
    assert person.fit(platform="darwin")
    assert not person.fit(platform="linux")


@pytest.mark.parametrize("settings", [{"apiKeyHelper": "./key"}, {"env": {"ANTHROPIC_API_KEY": "secret"}}])
def test_settings_may_hold_a_key_or_the_program_that_gives_one(person: Person, settings: dict[str, Any]) -> None:
    person.has(".claude/settings.json", settings)
    assert person.fit()


def test_claude_may_have_been_told_another_folder(person: Person, tmp_path: Path) -> None:
    person.has("elsewhere/.credentials.json", {"claudeAiOauth": TOKENS})
    assert not person.fit()
    assert person.fit(CLAUDE_CONFIG_DIR=str(person.home / "elsewhere"))


@pytest.mark.parametrize("content", ["", "{", "[]", '{"claudeAiOauth": null}', '{"claudeAiOauth": {}}', "\udcff"])
def test_a_broken_file_is_no_login_and_no_error(person: Person, content: str) -> None:
    person.has(".claude/.credentials.json", "")
    (person.home / ".claude" / ".credentials.json").write_bytes(content.encode(errors="surrogateescape"))
    assert not person.fit()


def test_the_secret_itself_is_not_told(person: Person) -> None:
    person.has(".claude/.credentials.json", {"claudeAiOauth": {**TOKENS, "accessToken": "hush-hush"}})
    told = [
        login({"HOME": str(person.home), "ANTHROPIC_API_KEY": "hush-hush"}, person.root),
        login({"HOME": str(person.home)}, person.root),
    ]
    assert all(it.met and "hush-hush" not in it.text for it in told)


def test_root_has_to_say_that_it_is_harmless() -> None:
    assert permissions({}, 1000) is None
    refused = permissions({"IS_SANDBOX": "yes"}, 0)
    assert refused is not None
    assert not refused.met
    assert "IS_SANDBOX=1" in refused.fix
    allowed = permissions({"IS_SANDBOX": "1"}, 0)
    assert allowed is not None
    assert allowed.met


# ---- gh ---------------------------------------------------------------------------------------


def test_gh_is_wanted_only_for_pull_requests_and_ci() -> None:
    assert not github.wanted(Config())
    assert not github.wanted(Config(spawn=Spawn(integrate="merge")))
    assert github.wanted(Config(spawn=Spawn(integrate="pr")))
    assert github.wanted(Config(ci=Ci(threads="bots")))


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
def test_gh_is_logged_in_by_its_file_or_the_environment(tmp_path: Path, hosts: str | None, level: Level) -> None:
    folder = tmp_path / ".config" / "gh"
    folder.mkdir(parents=True)
    if hosts is not None:
        (folder / "hosts.yml").write_text(hosts)
    found = github.login({"HOME": str(tmp_path)})
    assert found.level is level
    assert "secret" not in found.text
    assert github.login({"HOME": str(tmp_path), "GH_TOKEN": "secret"}).level is Level.OK


# ---- the project's own ------------------------------------------------------------------------


def test_a_broken_configuration_is_told_with_its_error_and_there_is_none_to_go_by(tmp_path: Path) -> None:
    (tmp_path / ".cuggino.json").write_text('{"comit": true}')
    finding, config = settings.configuration(Project(tmp_path))
    assert config is None
    assert finding.level is Level.FAILURE
    assert "$.comit: unknown key" in finding.text


def test_specs_are_a_folder_with_files(tmp_path: Path) -> None:
    project = Project(tmp_path / "a b")
    (project.root / ".specs").mkdir(parents=True)
    assert settings.specs(project, Config()).level is Level.WARNING
    (project.root / ".specs" / "a.md").touch()
    assert settings.specs(project, Config()).level is Level.OK
    missing = settings.specs(project, Config(specs_path="docs"))
    assert missing.level is Level.WARNING
    assert missing.mend == f"mkdir -p '{project.root}/docs'"


def test_a_program_to_notify_must_be_there(tmp_path: Path) -> None:
    project = Project(tmp_path)
    assert settings.notify(project, Config()) is None
    for notify in (
        Notify(command=("sh",)),
        Notify(events=("Note",)),
        Notify(command=("no-such-bell",), events=("Note",)),
        Notify(command=("./bell",), events=("Note",)),
    ):
        found = settings.notify(project, Config(notify=notify))
        assert found is not None
        assert found.level is Level.WARNING
    (tmp_path / "bell").touch(0o755)
    found = settings.notify(project, Config(notify=Notify(command=("./bell",), events=("Note",))))
    assert found is not None
    assert found.level is Level.OK
