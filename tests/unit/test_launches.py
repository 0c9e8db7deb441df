"""What the starts of all programs have in common."""

from __future__ import annotations

import pytest

from cuggino.agents.backends import backend
from cuggino.config import BackendName
from tests.unit.launching import changed, flag

SKIPPED = {
    "claude": "--dangerously-skip-permissions",
    "codex": "--dangerously-bypass-approvals-and-sandbox",
    "gemini": "yolo",
    "opencode": "--auto",
}
"""The argument with which a program asks for no permissions."""
RESUMED = {"claude": "--resume", "codex": "resume", "gemini": "--resume", "opencode": "--session"}

each_program = pytest.mark.parametrize("name", SKIPPED)


def argv(name: BackendName, **changes: object) -> tuple[str, ...]:
    return backend(name).launch(changed(**changes)).argv


@each_program
def test_a_prompt_of_any_size_goes_to_stdin_and_never_into_the_command_line(name: BackendName) -> None:
    prompt = "--x" * 3_000_000
    started = backend(name).launch(changed(prompt=prompt))
    assert started.stdin.endswith(prompt.encode())
    assert not any(len(argument) > 1000 for argument in started.argv)


@each_program
def test_half_a_character_in_a_prompt_does_not_stop_the_start(name: BackendName) -> None:
    assert backend(name).launch(changed(prompt="cut \ud83d")).stdin.endswith(b"cut ?")


@pytest.mark.parametrize("prompt", ["/clear", "  /clear", "\n/nosuchcommand"])
@pytest.mark.parametrize("name", ["claude", "gemini"])
def test_a_prompt_is_never_a_slash_command(name: BackendName, prompt: str) -> None:
    started = backend(name).launch(changed(prompt=prompt, resume_session_id="an-id"))
    assert started.stdin.decode() == f"Your task:\n{prompt}"


@each_program
def test_permissions_are_skipped_only_when_asked(name: BackendName) -> None:
    assert SKIPPED[name] in argv(name)
    assert SKIPPED[name] not in argv(name, skip_permissions=False)


@each_program
def test_a_model_and_a_conversation_are_passed_only_if_they_are_given(name: BackendName) -> None:
    assert flag(argv(name, model="a-model"), "--model") == "a-model"
    assert (
        "an-id" in argv(name, resume_session_id="an-id")[argv(name, resume_session_id="an-id").index(RESUMED[name]) :]
    )
    assert not {"--model", "--session-id", RESUMED[name]} & set(argv(name))


@each_program
def test_a_login_stays_in_the_environment(name: BackendName) -> None:
    changes = backend(name).launch(changed()).environment
    assert not any("KEY" in variable or "TOKEN" in variable or "HOME" in variable for variable in changes)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("claude", ("claude",)),
        ("codex", ("codex",)),
        ("gemini", ("gemini",)),
        ("opencode", ("opencode", "--agent", "cuggino")),
    ],
)
def test_interactive_without_a_prompt_asks_nothing(name: BackendName, expected: tuple[str, ...]) -> None:
    started = backend(name).launch_interactive(changed(prompt=""))
    assert started.argv == expected
    assert started.stdin == b""
