"""The questions of setup, their answers, and the file that they make."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cuggino.config import Config, decode
from cuggino.errors import ConfigError, CugginoError, StorageError, UsageError
from cuggino.project import Project
from cuggino.setup.dialogue import LINES_SHOWN, set_up
from cuggino.setup.explained import EXPLAINED
from cuggino.setup.questions import (
    SECTIONS,
    SETTINGS,
    Form,
    Setting,
    Values,
    apply_answer,
    apply_assignment,
    flatten,
    nest,
    salvage,
)
from cuggino.setup.write import read, save

BY_KEY = {setting.key: setting for setting in SETTINGS}


def answer(key: str, text: str, **before: Any) -> Any:
    """Return the file after an answer."""
    return nest(apply_answer(dict(flatten(before)), BY_KEY[key], text))


def refused(key: str, text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        answer(key, text)
    return str(caught.value)


# ---- questions ---------------------------------------------------------------------------------


def test_every_key_of_the_configuration_is_a_setting_with_its_default() -> None:
    defaults = nest({setting.path: setting.default for setting in SETTINGS})
    assert defaults == json.loads(msgspec.json.encode(Config()))
    assert list(defaults) == list(msgspec.to_builtins(Config()))


def test_exactly_the_settings_and_sections_are_explained_in_a_sentence() -> None:
    assert set(EXPLAINED) == {*BY_KEY, *map(".".join, SECTIONS)}
    for sentence in EXPLAINED.values():
        assert re.fullmatch(r"[A-Z].{,98}[.]", sentence)


def test_a_setting_has_the_form_and_choices_of_its_type() -> None:
    assert BY_KEY["model"].form is Form.TEXT
    assert BY_KEY["audit"].form is Form.FLAG
    assert BY_KEY["limits.maxCostUsd"].form is Form.OTHER
    assert BY_KEY["notify.events"].form is Form.LIST
    assert BY_KEY["spawn.integrate"].choices == ("branch", "merge", "pr")
    assert BY_KEY["ci.threads"].explanation.endswith(" One of all, bots, none.")


@pytest.mark.parametrize(
    ("key", "before", "shown"),
    [
        ("model", {}, "none"),
        ("commit", {}, "false"),
        ("limits.idleTimeout", {"limits": {"idleTimeout": 0.5}}, "0.5"),
        ("notify.command", {}, "none"),
        ("spawn.launcher", {"spawn": {"launcher": ["ssh", "a b"]}}, "ssh 'a b'"),
        ("checkCommand", {"checkCommand": "é\x1b[2J\nmake"}, "é␛[2J␊make"),
        ("model", {"model": None}, "none"),
    ],
)
def test_a_value_is_shown_as_one_line_and_escaped(key: str, before: dict[str, Any], shown: str) -> None:
    assert BY_KEY[key].shown(dict(flatten(before))) == shown


# ---- answers --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "text", "file"),
    [
        ("maxIterations", " 3 ", {"maxIterations": 3}),
        ("checkCommand", 'make "a b"', {"checkCommand": 'make "a b"'}),
        ("checkCommand", '"/opt/a b/check"', {"checkCommand": '"/opt/a b/check"'}),
        ("checkCommand", "true", {"checkCommand": "true"}),
        ("model", "null", {"model": "null"}),
        ("commit", "yes", {"commit": True}),
        ("commit", "Y", {"commit": True}),
        ("commit", "true", {"commit": True}),
        ("agent", "codex", {"agent": "codex"}),
        ("agent", '"codex"', {"agent": "codex"}),
        ("agents.planner", "gemini", {"agents": {"planner": "gemini"}}),
        ("limits.maxCostUsd", "2.5", {"limits": {"maxCostUsd": 2.5}}),
        ("spawn.include", ".env", {"spawn": {"include": [".env"]}}),
        ("spawn.neverAllow", "sudo 'git push'", {"spawn": {"neverAllow": ["sudo", "git push"]}}),
        ("spawn.neverAllow", "[]", {"spawn": {"neverAllow": []}}),
        ("spawn.include", "1 '[a-z]*'", {"spawn": {"include": ["1", "[a-z]*"]}}),
        ("spawn.include", "5", {"spawn": {"include": ["5"]}}),
        ("spawn.secrets", '["env:TOKEN"]', {"spawn": {"secrets": ["env:TOKEN"]}}),
    ],
)
def test_an_answer_is_read_as_a_person_means_it(key: str, text: str, file: dict[str, Any]) -> None:
    assert answer(key, text) == file
    decode(json.dumps(file).encode(), "")


@pytest.mark.parametrize("setting", SETTINGS, ids=BY_KEY)
def test_typing_the_value_shown_writes_nothing(setting: Setting) -> None:
    if setting.default is not None and setting.default != []:
        assert apply_answer({}, setting, setting.shown({})) == {}


@pytest.mark.parametrize("setting", SETTINGS, ids=BY_KEY)
def test_an_empty_answer_keeps_the_value_and_a_dash_resets_it(setting: Setting) -> None:
    before: Values = {setting.path: setting.default, ("commit",): True}
    assert apply_answer(before, setting, "  ") == before
    after = apply_answer(before, setting, "-")
    assert setting.path not in after
    assert len(after) == (0 if setting.key == "commit" else 1)


def test_a_default_that_is_in_the_file_stays_there() -> None:
    assert answer("maxIterations", "10", maxIterations=3) == {"maxIterations": 10}
    assert answer("maxIterations", "10") == {}


@pytest.mark.parametrize(
    ("key", "text", "expected"),
    [
        ("maxIterations", "0", "$.maxIterations: got 0; expected an integer ≥ 1."),
        ("maxIterations", "3.0", "got 3.0; expected an integer ≥ 1."),
        ("maxIterations", "many", 'got "many"; expected an integer ≥ 1.'),
        ("maxIterations", "9" * 5000, "expected an integer ≥ 1."),
        ("specsPath", "../x", "which leaves the project; expected a relative path"),
        ("commit", "perhaps", 'got "perhaps"; expected true or false.'),
        ("commit", "1", "got 1; expected true or false."),
        ("agent", "cluade", "Did you mean claude?"),
        ("limits.idleTimeout", "0", "$.limits.idleTimeout: got 0; expected a number of seconds > 0."),
        ("limits.idleTimeout", "NaN", "not JSON"),
        ("spawn.secrets", "TOKEN", '$.spawn.secrets[0]: got "TOKEN"; expected "env:NAME" or "file:PATH".'),
        ("spawn.include", "'a", "expected a list; each item: a non-blank string."),
        ("notify.events", "LoopAproved", "Did you mean LoopApproved?"),
        ("spawn.include", "[" * 5000, "expected a list"),
        ("spawn.include", '["a", "b]', "expected a list"),
        ("spawn.include", '{"a": 1}', "expected a list"),
        ("checkCommand", "echo \x1b[2J", "expected plain text, got echo ␛[2J with control characters"),
        ("model", "\udcff", "got \\udcff with"),
    ],
)
def test_a_wrong_answer_is_refused_with_the_message_for_the_file(key: str, text: str, expected: str) -> None:
    message = refused(key, text)
    assert message.startswith("Try again: ")
    assert expected in message


@given(st.sampled_from(SETTINGS), st.text())
def test_every_answer_is_refused_or_makes_a_valid_file(setting: Setting, text: str) -> None:
    try:
        after = apply_answer({}, setting, text)
    except ConfigError:
        return
    decode(json.dumps(nest(after)).encode(), "")


# ---- assignments ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("word", "file"),
    [
        ("limits.retries=3", {"limits": {"retries": 3}}),
        ("checkCommand=make a=b", {"checkCommand": "make a=b"}),
        ("checkCommand=true", {"checkCommand": "true"}),
        ('checkCommand="true "', {"checkCommand": "true "}),
        ("model=4", {"model": "4"}),
        ("model=-", {"model": "-"}),
        ("agent=codex", {"agent": "codex"}),
        ("audit=yes", {"audit": True}),
        ('notify.command=["a b"]', {"notify": {"command": ["a b"]}}),
        ("notify.command=a b", {"notify": {"command": ["a", "b"]}}),
        ("specsPath=.specs", {}),
    ],
)
def test_an_assignment_is_json_or_text(word: str, file: dict[str, Any]) -> None:
    assert nest(apply_assignment({}, word)) == file


def test_null_resets_to_the_default_where_null_is_allowed() -> None:
    assert apply_assignment({("model",): "large"}, "model=null") == {}
    for word, allowed in (("commit=null", "true or false"), ("notify.events=null", "a list")):
        with pytest.raises(ConfigError, match=f"got null; expected {allowed}"):
            apply_assignment({}, word)


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("commit", "--set commit: the value is missing.\nWrite --set key=value"),
        ("limits={}", "limits is a section.\nSet one of its settings, such as limits.idleTimeout."),
        ("comit=true", "--set: $.comit: unknown key with the value true; known keys: specsPath"),
        ("limits.retrys=1", "Did you mean retries?"),
        ("limits.nudges.x=1", '$.limits.nudges: got {"x": 1}; expected an integer ≥ 0.'),
        ("=1", "unknown key"),
        ("checkCommand=", 'got ""; expected a non-blank string'),
        ("model=\x1b[2J", "--set: expected plain text, got model=␛[2J"),
        ("\x9b2J=1", "--set: expected plain text, got \\x9b2J=1"),
    ],
)
def test_a_wrong_assignment_is_refused(word: str, expected: str) -> None:
    with pytest.raises((ConfigError, UsageError)) as caught:
        apply_assignment({}, word)
    assert expected in str(caught.value)
    assert caught.value.exit_code == 2


# ---- files ------------------------------------------------------------------------------------


def test_a_file_is_written_in_the_order_of_the_structs() -> None:
    values = dict(
        flatten({"notify": {"events": []}, "model": "m", "limits": {"retries": 1, "nudges": 1}, "commit": True})
    )
    assert json.dumps(nest(values)) == (
        '{"commit": true, "model": "m", "limits": {"nudges": 1, "retries": 1}, "notify": {"events": []}}'
    )


@pytest.mark.parametrize(
    ("data", "kept", "wrong"),
    [
        (b'{"commit": 1, "model": "m"}', {"model": "m"}, ["$.commit"]),
        (b'{"limits": {"nudges": 1, "x": 2}, "y": {}}', {"limits": {"nudges": 1}}, ["$.limits.x", "$.y"]),
        (b'{"limits": 3, "audit": true}', {"audit": True}, ["$.limits"]),
        (b'{"spawn": {"include": ["a", 1]}}', {}, ["$.spawn.include[1]"]),
        (b'{"model": "\\ud800", "audit": true}', {"audit": True}, ["not JSON"]),
        (b"[]", {}, ["$: got []"]),
        (b'{"commit": true,}', {}, []),
        (b"\xff", {}, []),
        (b"[" * 100_000, {}, []),
        (b"", {}, []),
    ],
)
def test_valid_settings_in_an_invalid_file_are_kept_and_the_others_are_problems(
    data: bytes, kept: dict[str, Any], wrong: list[str]
) -> None:
    values, problems = salvage(data, "file")
    assert nest(values) == kept
    assert len(problems) == len(wrong)
    for problem, part in zip(problems, wrong, strict=True):
        assert problem.startswith("file: ")
        assert part in problem


def test_backups_never_replace_other_files(tmp_path: Path) -> None:
    project = Project(tmp_path)
    for number in range(3):
        project.config_file.write_text(f"{number}")
        save(project, {}, read(project.config_file))
    kept = [(tmp_path / f".cuggino.json.bak{end}").read_text() for end in ("", ".2", ".3")]
    assert kept == ["0", "1", "2"]


def test_a_duplicate_key_makes_a_file_invalid_although_each_value_is_valid(tmp_path: Path) -> None:
    (tmp_path / "file").write_text('{"commit": true, "commit": false}')
    found = read(tmp_path / "file")
    assert len(found.problems) == 1
    assert "appears twice" in found.problems[0]


def test_a_directory_that_cannot_be_created_leaves_the_file_unchanged(tmp_path: Path) -> None:
    project = Project(tmp_path)
    (tmp_path / "file").touch()
    for path in ("file", "file/specs"):
        with pytest.raises(StorageError, match="a file is in the way"):
            save(project, {("specsPath",): path}, read(project.config_file))
    assert not project.config_file.exists()


# ---- the dialogue -----------------------------------------------------------------------------


def talk(project: Project, answers: Iterator[str]) -> list[str]:
    """Run the dialogue; return all that it prints."""
    printed: list[str] = []

    def ask(prompt: str) -> str:
        printed.append(prompt)
        return next(answers)

    set_up(project, [], ask, printed.append)
    return printed


def test_every_setting_can_be_asked_and_is_asked_once(tmp_path: Path) -> None:
    def answers() -> Iterator[str]:
        yield from ("" for setting in SETTINGS if len(setting.path) == 1)
        yield "perhaps"
        yield "yes"
        for section in SECTIONS:
            yield "yes"
            yield from ("" for setting in SETTINGS if setting.path[:-1] == section)

    printed = talk(Project(tmp_path), answers())
    for setting in SETTINGS:
        assert [line for line in printed if line.startswith(f"{setting.key} [")] == [
            f"{setting.key} [{setting.shown({})}]: "
        ]
        assert any(" ".join(line.split()) == setting.explanation for line in printed)
    assert read(tmp_path / ".cuggino.json").values == {}


def test_only_the_start_of_a_long_invalid_file_is_shown(tmp_path: Path) -> None:
    (tmp_path / ".cuggino.json").write_text("{\n" + "\x1b[2J\n" * 1000)
    printed: list[str] = []
    set_up(Project(tmp_path), [], None, printed.append)
    assert len(printed) < LINES_SHOWN + 20
    assert f"    (showing {LINES_SHOWN} of 1001 lines)" in printed
    assert not any("\x1b" in line for line in printed)


def test_an_error_while_asking_ends_the_setup_with_nothing_written(tmp_path: Path) -> None:
    def answers() -> Iterator[str]:
        yield "specs"
        raise CugginoError("the answers ended")

    with pytest.raises(CugginoError, match="answers ended"):
        talk(Project(tmp_path), answers())
    assert list(tmp_path.iterdir()) == []
