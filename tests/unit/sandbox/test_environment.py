"""An agent in a sandbox gets little of the person's environment, and no credentials."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from cuggino.agents.claude import ClaudeBackend
from cuggino.manifest import SandboxManifest
from cuggino.sandbox.environment import build_environment, launcher, secret_name
from cuggino.sandbox.sandbox import Sandbox

PERSON = {
    "PATH": "/bin",
    "HOME": "/h/ada",
    "LANG": "it_IT.UTF-8",
    "LC_TIME": "C",
    "TMPDIR": "/tmp/ada",
    "ANTHROPIC_API_KEY": "the login",
    "HTTPS_PROXY": "http://proxy",
    "GH_TOKEN": "secret",
    "GITHUB_TOKEN": "secret",
    "SSH_AUTH_SOCK": "secret",
    "GIT_ASKPASS": "/usr/bin/secret",
    "GIT_SSH_COMMAND": "ssh -i secret",
    "GIT_CONFIG_COUNT": "1",
    "GIT_CONFIG_KEY_0": "http.extraHeader",
    "GIT_CONFIG_VALUE_0": "secret",
    "AWS_SECRET_ACCESS_KEY": "secret",
    "OPENAI_API_KEY": "secret",
    "DISPLAY": ":0",
    "CUGGINO_RUN_1": "1",
}


def build(manifest: SandboxManifest | None = None, secrets: dict[str, str] | None = None) -> dict[str, str]:
    return build_environment(ClaudeBackend().login_environment, manifest or SandboxManifest(), secrets or {}, PERSON)


def test_only_a_few_variables_and_the_login_are_inherited() -> None:
    environment = {name: value for name, value in build().items() if not name.startswith("GIT_")}
    kept = ("PATH", "HOME", "LANG", "LC_TIME", "TMPDIR", "ANTHROPIC_API_KEY", "HTTPS_PROXY")
    assert environment == {name: PERSON[name] for name in kept}
    assert not any("secret" in value for value in build().values())


def test_git_ignores_the_persons_configuration_and_does_not_prompt() -> None:
    environment = build()
    assert environment["GIT_CONFIG_GLOBAL"] == "/dev/null"
    assert environment["GIT_TERMINAL_PROMPT"] == "0"
    count = int(environment["GIT_CONFIG_COUNT"])
    settings = {environment[f"GIT_CONFIG_KEY_{n}"]: environment[f"GIT_CONFIG_VALUE_{n}"] for n in range(count)}
    assert settings["credential.helper"] == ""


def test_a_manifest_cannot_set_variables_that_change_programs() -> None:
    wished = {"DJANGO_SETTINGS": "test", "PATH": "/evil", "LD_PRELOAD": "x", "GIT_DIR": "x", "NODE_OPTIONS": "-r x"}
    more = {"ANTHROPIC_BASE_URL": "http://evil", "A=B": "x", "": "x", "ZERO": "a\0b", "BASH_ENV": "x", "GH_TOKEN": "x"}
    assert build(SandboxManifest(environment={**wished, **more})) == {**build(), "DJANGO_SETTINGS": "test"}


@pytest.mark.parametrize(
    ("reference", "name"),
    [
        ("env:NPM_TOKEN", "NPM_TOKEN"),
        ("file:secrets/npm-token.txt", "NPM_TOKEN"),
        ("file:~/.pypi.token", "PYPI"),
        ("file:1password", "SECRET_1PASSWORD"),
        ("file:path", "SECRET_PATH"),
        ("file:ü", "SECRET"),
    ],
)
def test_a_secret_is_a_variable_named_after_its_reference(reference: str, name: str) -> None:
    assert secret_name(reference) == name
    assert build(secrets={reference: "value"}) == {**build(), name: "value"}


def test_a_launchers_placeholders_are_replaced() -> None:
    sandbox = Sandbox(
        id="1",
        repository=Path("/r"),
        common_dir=Path("/r/.git"),
        folder=Path("/s/{home}"),
        below="",
        git_dir=Path("/r/.git/worktrees/1"),
        branch=None,
        base="0",
        target=None,
        created_at=datetime.now(UTC),
    )
    words = ("bwrap", "--bind", "{sandbox}", "{sandbox}", "--setenv", "X", "{home}/x{other}", "--")
    filled = ("bwrap", "--bind", "/s/{home}", "/s/{home}", "--setenv", "X", "/h/ada/x{other}", "--")
    assert launcher(words, sandbox, Path("/h/ada")) == filled
    assert launcher((), sandbox) == ()
