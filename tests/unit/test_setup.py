"""What is asked, what may be answered, what becomes of it."""

from __future__ import annotations

import json
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
    answered,
    assigned,
    flat,
    nested,
    salvaged,
)
from cuggino.setup.write import read, save

BY_KEY = {setting.key: setting for setting in SETTINGS}


def answer(key: str, text: str, **before: Any) -> Any:
    """The file after an answer."""
    return nested(answered(dict(flat(before)), BY_KEY[key], text))


def refused(key: str, text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        answer(key, text)
    return str(caught.value)


# ---- what is asked ----------------------------------------------------------------------------


def test_every_key_of_the_file_is_a_setting_with_its_default() -> None:
    defaults = nested({setting.path: setting.default for setting in SETTINGS})
    assert defaults == json.loads(msgspec.json.encode(Config()))
    assert list(defaults) == list(msgspec.to_builtins(Config()))


def test_every_setting_and_section_is_explained_in_a_sentence_and_nothing_else_is() -> None:
    assert set(EXPLAINED) == {*BY_KEY, *map(".".join, SECTIONS)}
    for words in EXPLAINED.values():
        assert words[0].isupper()
        assert words.endswith(".")
        assert len(words) <= 100


def test_the_form_and_the_choices_are_those_of_the_type() -> None:
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
def test_a_value_is_shown_as_one_harmless_line(key: str, before: dict[str, Any], shown: str) -> None:
    assert BY_KEY[key].shown(dict(flat(before))) == shown


# ---- what may be answered ---------------------------------------------------------------------


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
def test_an_answer_is_what_a_person_means(key: str, text: str, file: dict[str, Any]) -> None:
    assert answer(key, text) == file
    decode(json.dumps(file).encode(), "")


@pytest.mark.parametrize("setting", SETTINGS, ids=BY_KEY)
def test_what_is_shown_can_be_typed_and_need_not_be_written(setting: Setting) -> None:
    if setting.default is not None and setting.default != []:
        assert answered({}, setting, setting.shown({})) == {}


@pytest.mark.parametrize("setting", SETTINGS, ids=BY_KEY)
def test_nothing_keeps_and_a_dash_goes_back_to_the_default(setting: Setting) -> None:
    before: Values = {setting.path: setting.default, ("commit",): True}
    assert answered(before, setting, "  ") == before
    after = answered(before, setting, "-")
    assert setting.path not in after
    assert len(after) == (0 if setting.key == "commit" else 1)


def test_a_default_that_stands_in_the_file_stays_there() -> None:
    assert answer("maxIterations", "10", maxIterations=3) == {"maxIterations": 10}
    assert answer("maxIterations", "10") == {}


@pytest.mark.parametrize(
    ("key", "text", "said"),
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
        ("checkCommand", "echo \x1b[2J", "found echo ␛[2J, with characters that a terminal would obey"),
        ("model", "\udcff", "found \\udcff, with characters"),
    ],
)
def test_a_wrong_answer_is_refused_in_the_words_for_the_file(key: str, text: str, said: str) -> None:
    message = refused(key, text)
    assert message.startswith("Try again: ")
    assert said in message


@given(st.sampled_from(SETTINGS), st.text())
def test_every_answer_is_refused_or_makes_a_file_that_can_be_taken(setting: Setting, text: str) -> None:
    try:
        after = answered({}, setting, text)
    except ConfigError:
        return
    decode(json.dumps(nested(after)).encode(), "")


# ---- what may be set --------------------------------------------------------------------------


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
def test_an_assignment_is_json_or_a_text(word: str, file: dict[str, Any]) -> None:
    assert nested(assigned({}, word)) == file


def test_null_goes_back_to_the_default_where_null_may_stand() -> None:
    assert assigned({("model",): "large"}, "model=null") == {}
    for word, allowed in (("commit=null", "true or false"), ("notify.events=null", "a list")):
        with pytest.raises(ConfigError, match=f"got null; expected {allowed}"):
            assigned({}, word)


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("commit", "--set commit: there is no value.\nWrite --set key=value"),
        ("limits={}", "limits has settings of its own.\nSet one of them, as limits.idleTimeout."),
        ("comit=true", "--set: $.comit: unknown key with the value true; known keys: specsPath"),
        ("limits.retrys=1", "Did you mean retries?"),
        ("limits.nudges.x=1", '$.limits.nudges: got {"x": 1}; expected an integer ≥ 0.'),
        ("=1", "unknown key"),
        ("checkCommand=", 'got ""; expected a non-blank string'),
        ("model=\x1b[2J", "--set: found model=␛[2J"),
        ("\x9b2J=1", "--set: found \\x9b2J=1"),
    ],
)
def test_an_assignment_that_cannot_be_taken_is_told(word: str, said: str) -> None:
    with pytest.raises((ConfigError, UsageError)) as caught:
        assigned({}, word)
    assert said in str(caught.value)
    assert caught.value.exit_code == 2


# ---- files ------------------------------------------------------------------------------------


def test_a_file_is_written_in_the_order_of_the_structs() -> None:
    values = dict(flat({"notify": {"events": []}, "model": "m", "limits": {"retries": 1, "nudges": 1}, "commit": True}))
    assert json.dumps(nested(values)) == (
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
def test_what_is_right_in_a_broken_file_is_kept_and_each_other_thing_is_told(
    data: bytes, kept: dict[str, Any], wrong: list[str]
) -> None:
    values, problems = salvaged(data, "file")
    assert nested(values) == kept
    assert len(problems) == len(wrong)
    for problem, words in zip(problems, wrong, strict=True):
        assert problem.startswith("file: ")
        assert words in problem


def test_backups_never_take_another_s_place(tmp_path: Path) -> None:
    project = Project(tmp_path)
    for number in range(3):
        project.config_file.write_text(f"{number}")
        save(project, {}, read(project.config_file))
    kept = [(tmp_path / f".cuggino.json.bak{end}").read_text() for end in ("", ".2", ".3")]
    assert kept == ["0", "1", "2"]


def test_a_key_that_is_there_twice_makes_a_file_broken_though_each_value_is_right(tmp_path: Path) -> None:
    (tmp_path / "file").write_text('{"commit": true, "commit": false}')
    found = read(tmp_path / "file")
    assert len(found.problems) == 1
    assert "appears twice" in found.problems[0]


def test_folders_that_cannot_be_made_leave_the_file_as_it_was(tmp_path: Path) -> None:
    project = Project(tmp_path)
    (tmp_path / "file").touch()
    for path in ("file", "file/specs"):
        with pytest.raises(StorageError, match="a file is in its way"):
            save(project, {("specsPath",): path}, read(project.config_file))
    assert not project.config_file.exists()


# ---- the conversation -------------------------------------------------------------------------


def talk(project: Project, answers: Iterator[str]) -> list[str]:
    """All that is said and asked."""
    said: list[str] = []

    def ask(prompt: str) -> str:
        said.append(prompt)
        return next(answers)

    set_up(project, [], ask, said.append)
    return said


def test_every_setting_is_asked_once_when_the_rest_is_wanted(tmp_path: Path) -> None:
    def answers() -> Iterator[str]:
        yield from ("" for setting in SETTINGS if len(setting.path) == 1)
        yield "yes"
        for section in SECTIONS:
            yield "yes"
            yield from ("" for setting in SETTINGS if setting.path[:-1] == section)

    said = talk(Project(tmp_path), answers())
    for setting in SETTINGS:
        assert [line for line in said if line.startswith(f"{setting.key} [")] == [
            f"{setting.key} [{setting.shown({})}]: "
        ]
        assert any(" ".join(line.split()) == setting.explanation for line in said)
    assert read(tmp_path / ".cuggino.json").values == {}


def test_a_long_broken_file_is_shown_in_part(tmp_path: Path) -> None:
    (tmp_path / ".cuggino.json").write_text("{\n" + "\x1b[2J\n" * 1000)
    said: list[str] = []
    set_up(Project(tmp_path), [], None, said.append)
    assert len(said) < LINES_SHOWN + 20
    assert f"    (showing {LINES_SHOWN} of 1001 lines)" in said
    assert not any("\x1b" in line for line in said)


def test_what_ends_the_questions_ends_the_setup_with_nothing_written(tmp_path: Path) -> None:
    def answers() -> Iterator[str]:
        yield "specs"
        raise CugginoError("the person has gone")

    with pytest.raises(CugginoError, match="gone"):
        talk(Project(tmp_path), answers())
    assert list(tmp_path.iterdir()) == []
