"""The format of the scripted agent's scripts, and which turn comes next."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cuggino.agents.scripted import script as module
from cuggino.agents.scripted.failures import ERRORS, REFUSALS, STDERR
from cuggino.agents.scripted.played import PlayedTurns
from cuggino.agents.scripted.script import ROLES, STEP_NAMES, ScriptError, Situation, Turn, choose, decode, fill
from cuggino.agents.scripted.steps import AnyStep, FailureName, MarkerName, SayStep, StructuredStep, WriteStep
from cuggino.markers import tag_name
from cuggino.roles import Role

ROOT = Path(__file__).parent.parent.parent
DOCUMENT = (ROOT / "docs" / "scripted-agent.md").read_text(encoding="utf-8")


def situation(cwd: Path = Path("/nowhere"), role: str = "planner", **fields: Any) -> Situation:
    return Situation(role=role, cwd=cwd, python="/bin/python", **fields)


def script(*turns: dict[str, Any], role: str = "planner") -> module.Script:
    return decode(json.dumps({role: turns}).encode(), "script.json")


def says(text: str, **fields: Any) -> dict[str, Any]:
    return {"steps": [{"do": "say", "text": text}], **fields}


def always(_number: int, _turn: Turn) -> bool:
    return True


def said(
    script: module.Script, situation: Situation, take: Callable[[int, Turn], bool] = always
) -> str | list[str] | None:
    """What the first step of the chosen turn says."""
    chosen = choose(script, situation, take)
    if chosen is None:
        return None
    step = chosen[1].steps[0]
    assert isinstance(step, SayStep)
    return step.text


# ---- the format -------------------------------------------------------------------------------


def test_the_roles_are_those_of_the_loop_and_the_interactive_one() -> None:
    assert set(ROLES) == {role.value for role in Role} | {"interactive"}


def test_a_script_can_emit_every_marker() -> None:
    assert set(get_args(MarkerName)) == {tag_name(marker) for role in Role for marker in role.markers}


def test_every_kind_of_failure_is_played() -> None:
    assert set(get_args(FailureName)) == set(REFUSALS) | set(ERRORS) | set(STDERR)


def test_the_example_in_the_docstring_is_a_script() -> None:
    assert module.__doc__ is not None
    example = textwrap.dedent(module.__doc__.partition("::\n")[2].partition("\n\nRoles")[0])
    assert set(decode(example.encode(), "docstring")) == {"planner", "implementer", "reviewer"}


def test_the_built_in_script_knows_every_role_and_never_runs_out() -> None:
    built_in = decode(Path(module.__file__).with_name("built_in.json").read_bytes(), "built_in.json")
    assert set(built_in) == set(ROLES)
    assert all(turn.times == 0 for turns in built_in.values() for turn in turns)


@pytest.mark.parametrize("name", [*STEP_NAMES, *ROLES, *get_args(FailureName)])
def test_the_documentation_names_every_step_role_and_failure(name: str) -> None:
    assert f"`{name}`" in DOCUMENT


def test_the_documentation_names_every_field() -> None:
    steps = re.findall(r"^\| (`[a-z`, -]+`) \| (.*?) \|", DOCUMENT, re.MULTILINE)
    fields = {
        name.strip("`"): set(re.findall(r"`([A-Za-z]+)`", row)) for names, row in steps for name in names.split(", ")
    }
    for step in get_args(AnyStep):
        config = step.__struct_config__
        assert set(step.__struct_encode_fields__) <= fields[config.tag], config.tag


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[]", "s.json: Expected `object`"),
        ("{", "s.json: Input data was truncated"),
        ('{"planer": []}', "unknown role `planer`\nDid you mean `planner`?"),
        ('{"planner": [{"steps": [{"do": "sya", "text": ""}]}]}', "$.planner[0].steps[0].do: Invalid value 'sya'"),
        ('{"planner": [{"steps": [{"do": "sya", "text": ""}]}]}', "Did you mean `say`?"),
        ('{"planner": [{"steps": []}, {"steps": [{"text": ""}]}]}', "$.planner[1].steps[0]: Object missing"),
        ('{"planner": [{"steps": [{"do": "say"}]}]}', "missing required field `text`"),
        ('{"planner": [{"steps": [{"do": "say", "text": "", "loud": true}]}]}', "unknown field `loud`"),
        ('{"planner": [{"steps": [{"do": "think", "seconds": -1}]}]}', "$.planner[0].steps[0].seconds: Expected"),
        ('{"planner": [{"steps": [], "time": 2}]}', "$.planner[0]: Object contains unknown field `time`"),
        ('{"planner": [{"steps": [{"do": "marker", "name": "YES"}]}]}', "$.planner[0].steps[0].name: Invalid"),
    ],
)
def test_a_mistake_is_reported_with_its_place(text: str, words: str) -> None:
    with pytest.raises(ScriptError) as raised:
        decode(text.encode(), "s.json")
    assert words in str(raised.value)


# ---- choosing ---------------------------------------------------------------------------------


def test_turns_are_taken_in_order_and_as_often_as_they_say() -> None:
    turns = script(says("one"), says("two", times=2), says("three", times=0))
    left = {0: 1, 1: 2, 2: 10}

    def take(number: int, _turn: Turn) -> bool:
        left[number] -= 1
        return left[number] >= 0

    assert [said(turns, situation(), take) for _ in range(5)] == ["one", "two", "two", "three", "three"]


def test_a_role_without_turns_has_nothing_to_play() -> None:
    assert choose(script(says("hello")), situation(role="reviewer"), always) is None


def test_a_turn_whose_conditions_do_not_hold_is_passed_over_and_not_used_up(tmp_path: Path) -> None:
    asked: list[int] = []
    turns = script(says("no", when={"exists": "absent"}), says("yes"))

    def take(number: int, _turn: Turn) -> bool:
        asked.append(number)
        return True

    choose(turns, situation(tmp_path), take)
    assert asked == [1]


@pytest.mark.parametrize(
    ("when", "holds"),
    [
        ({}, True),
        ({"exists": "here"}, True),
        ({"exists": ["here", "absent"]}, False),
        ({"exists": "{writable}"}, True),
        ({"missing": "absent"}, True),
        ({"missing": ["absent", "here"]}, False),
        ({"contains": "backlog"}, True),
        ({"contains": ["backlog", "specs"]}, False),
        ({"resumed": True}, True),
        ({"resumed": False}, False),
        ({"exists": "here", "resumed": False}, False),
    ],
)
def test_a_turn_has_conditions(tmp_path: Path, when: dict[str, Any], holds: bool) -> None:
    (tmp_path / "here").touch()
    here = situation(tmp_path, prompt="the backlog", resumed=True, writable=(tmp_path / "here",))
    assert (choose(script(says("it", when=when)), here, always) is not None) == holds


# ---- placeholders -----------------------------------------------------------------------------


def test_placeholders_are_filled_in_wherever_a_turn_has_a_string() -> None:
    steps = [
        {"do": "write", "path": "{writable:1}", "text": ["{role}", "{cwd}"]},
        {"do": "structured", "value": {"deep": ["{python}", 1, None]}},
    ]
    chosen = choose(script({"steps": steps}), situation(writable=(Path("/a"), Path("/b"))), always)
    assert chosen is not None
    assert chosen[1].steps == [
        WriteStep(path="/b", text=["planner", "/nowhere"]),
        StructuredStep(value={"deep": ["/bin/python", 1, None]}),
    ]


@given(st.text(alphabet="{}:0 a"))
def test_other_braces_stay(text: str) -> None:
    assert fill(text, situation()) == text


def test_what_is_filled_in_is_not_filled_in_again() -> None:
    assert fill("{writable}", situation(writable=(Path("/{role}"),))) == "/{role}"


@pytest.mark.parametrize(("text", "given"), [("{writable}", ()), ("{writable:2}", (Path("/a"), Path("/b")))])
def test_a_path_that_was_not_given_is_an_error(text: str, given: tuple[Path, ...]) -> None:
    with pytest.raises(ScriptError, match="to write"):
        fill(text, situation(writable=given))


# ---- what was played --------------------------------------------------------------------------


def test_a_turn_is_claimed_as_often_as_it_may_be(tmp_path: Path) -> None:
    played, other = PlayedTurns(tmp_path / "s.json", b""), PlayedTurns(tmp_path / "s.json", b"")
    assert [played.claim("planner", 0, 2), other.claim("planner", 0, 2), played.claim("planner", 0, 2)] == [1, 1, 0]
    assert played.claim("planner", 1, 1)
    assert played.claim("reviewer", 0, 1)


def test_a_turn_is_left_until_it_is_claimed(tmp_path: Path) -> None:
    played = PlayedTurns(tmp_path / "s.json", b"")
    assert played.is_left("planner", 0, 1)
    assert not played.folder.exists()
    played.claim("planner", 0, 1)
    assert not played.is_left("planner", 0, 1)


def test_a_script_that_was_changed_starts_anew(tmp_path: Path) -> None:
    assert PlayedTurns(tmp_path / "s.json", b"old").claim("planner", 0, 1)
    assert not PlayedTurns(tmp_path / "s.json", b"old").claim("planner", 0, 1)
    assert PlayedTurns(tmp_path / "s.json", b"new").claim("planner", 0, 1)


def test_a_directory_that_is_not_writable_is_reported(tmp_path: Path) -> None:
    (tmp_path / "s.json.played").touch()
    with pytest.raises(ScriptError, match="cannot be remembered"):
        PlayedTurns(tmp_path / "s.json", b"").claim("planner", 0, 1)
