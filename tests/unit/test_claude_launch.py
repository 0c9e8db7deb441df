"""How claude is started."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cuggino.agents.claude import ClaudeBackend
from cuggino.roles import Role
from tests.unit.launching import OPTIONS, changed, flag

BASE = ("claude", "-p", "--output-format", "stream-json", "--verbose", "--include-partial-messages")


def launch(**changes: object) -> tuple[str, ...]:
    return ClaudeBackend().launch(changed(**changes)).argv


def allowed(argv: tuple[str, ...]) -> list[str]:
    rules: list[str] = json.loads(flag(argv, "--settings"))["permissions"]["allow"]
    return rules


def test_only_what_is_asked_for_is_passed() -> None:
    assert launch()[: len(BASE)] == BASE
    assert flag(launch(session_id="an-id"), "--session-id") == "an-id"
    assert not {"--model", "--append-system-prompt", "--max-budget-usd", "--json-schema", "--resume"} & set(launch())


def test_model_system_prompt_budget_and_schema() -> None:
    argv = launch(model="sonnet", system_prompt="You implement.", budget_usd=1.5, schema={"type": "object"})
    assert flag(argv, "--model") == "sonnet"
    assert flag(argv, "--append-system-prompt") == "You implement."
    assert flag(argv, "--max-budget-usd") == "1.5000"
    assert json.loads(flag(argv, "--json-schema")) == {"type": "object"}


@pytest.mark.parametrize("left", [0, -3, 0.00001])
def test_a_budget_that_is_used_up_is_still_one_that_claude_takes(left: float) -> None:
    assert float(flag(launch(budget_usd=left), "--max-budget-usd")) > 0


def test_a_writing_role_may_do_everything_but_what_needs_a_person_or_leaves_the_run() -> None:
    argv = launch()
    assert "--dangerously-skip-permissions" in argv
    denied = flag(argv, "--disallowedTools").split(",")
    assert {"AskUserQuestion", "ExitPlanMode", "EnterWorktree", "CronCreate", "ScheduleWakeup"} <= set(denied)
    assert argv[-1] == flag(argv, "--disallowedTools"), "nothing follows that a list of tools could swallow"


@pytest.mark.parametrize("role", [Role.REVIEWER, Role.AUDIT])
def test_a_read_only_role_has_a_list_of_tools_and_no_writing_one(role: Role) -> None:
    argv = launch(role=role)
    assert "--dangerously-skip-permissions" not in argv
    assert flag(argv, "--permission-mode") == "dontAsk"
    assert flag(argv, "--tools").split(",") == ["Bash", "Read", "Glob", "Grep", "TaskOutput", "TaskStop"]
    assert not any(rule.startswith(("Edit", "Write")) for rule in allowed(argv))


def test_a_read_only_role_may_write_exactly_what_it_is_given() -> None:
    argv = launch(role=Role.REVIEWER, writable=(Path("/project/.cuggino/wip/u.review.md"),))
    assert {"Write", "Edit"} <= set(flag(argv, "--tools").split(","))
    rules = allowed(argv)
    assert [rule for rule in rules if "(" in rule] == ["Edit(//project/.cuggino/wip/u.review.md)"]
    assert "Edit" not in rules
    assert "Write" not in rules


def test_a_writable_path_may_be_relative_to_the_folder() -> None:
    argv = launch(role=Role.REVIEWER, writable=(Path("review.md"),))
    assert "Edit(//project/review.md)" in allowed(argv)


def test_what_means_something_in_a_rule_is_escaped() -> None:
    argv = launch(role=Role.REVIEWER, writable=(Path("/p/a(b [1] {x,y} *?/r.md"),))
    assert allowed(argv)[-1] == r"Edit(//p/a\(b \\[1\\] \\{x,y\\} \\*?/r.md)"


def test_a_path_through_a_link_is_allowed_by_both_its_names(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    argv = launch(role=Role.REVIEWER, writable=(tmp_path / "link" / "r.md",))
    assert allowed(argv)[-2:] == [f"Edit(/{tmp_path}/link/r.md)", f"Edit(/{tmp_path}/real/r.md)"]


def test_an_agent_does_not_take_itself_for_part_of_the_claude_around_it() -> None:
    environment = ClaudeBackend().launch(OPTIONS).environment
    assert environment["CLAUDECODE"] is None
    assert environment["CLAUDE_CODE_ENTRYPOINT"] is None
    assert environment["CLAUDE_CODE_CHILD_SESSION"] is None
    assert environment["DISABLE_AUTOUPDATER"] == "1"
    assert not any("KEY" in name or "TOKEN" in name or name == "HOME" for name in environment), "the login stays"


def test_interactive_has_the_persons_own_permissions() -> None:
    options = changed(prompt="/p", system_prompt="You plan.", model="opus", session_id="an-id")
    started = ClaudeBackend().launch_interactive(options)
    assert started.argv == (
        *("claude", "--model", "opus", "--append-system-prompt", "You plan.", "--session-id", "an-id"),
        *("--", "Your task:\n/p"),
    )
    assert started.stdin == b""


def test_interactive_with_directories_asks_about_every_change_outside_of_them(tmp_path: Path) -> None:
    (tmp_path / "specs [old]").mkdir()
    (tmp_path / "specs").symlink_to("specs [old]")
    options = changed(cwd=tmp_path, prompt="", writable=(Path("specs"), Path("/backlog")))
    argv = ClaudeBackend().launch_interactive(options).argv
    assert flag(argv, "--permission-mode") == "default"
    real = rf"{tmp_path}/specs \\[old\\]"
    assert allowed(argv) == [f"Edit(/{tmp_path}/specs/**)", f"Edit(/{real}/**)", "Edit(//backlog/**)"]
