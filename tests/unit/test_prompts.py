"""The prompts of the roles: their markers and their placeholders."""

from __future__ import annotations

import re
from importlib.resources import files
from string import Template

import pytest

from cuggino.agents import prompts
from cuggino.markers import tag_name
from cuggino.roles import Role

TEXTS = {
    file.name.removesuffix(".md"): file.read_text(encoding="utf-8")
    for file in files(prompts).iterdir()
    if file.name.endswith(".md")
}
MARKERS = {tag_name(marker) for role in Role for marker in role.markers}


def test_every_role_has_a_prompt_and_every_other_prompt_a_function() -> None:
    assert set(TEXTS) == {role.value for role in Role} | {"plan", "repair", "fixer", "thread", "again", "resume"}


@pytest.mark.parametrize("name", sorted(TEXTS))
def test_a_prompt_explains_all_markers_of_its_role_and_names_no_other(name: str) -> None:
    expected = {tag_name(marker) for marker in Role(name).markers} if name in set(Role) else set()
    assert set(re.findall(r"^- `([A-Z_]+)`: \w", TEXTS[name], re.MULTILINE)) == expected
    assert MARKERS.intersection(re.findall(r"[A-Z_]+", TEXTS[name])) == expected
    assert set(re.findall(r"<([A-Z_]+)>", TEXTS[name])) <= expected


@pytest.mark.parametrize("role", Role)
def test_a_prompt_takes_exactly_its_placeholders(role: Role) -> None:
    """Whatever fills a prompt in is checked wherever it is tested: a missing or unused value raises."""
    names = Template(TEXTS[role]).get_identifiers()
    values = {name: f"({name}: a $dollar and {prompts._DIVIDER})" for name in names}
    prompt = prompts.fill(role, values)
    assert prompt.standing.startswith("# Your role: ")
    assert prompt.task
    for value in values.values():
        assert value in prompt.standing + prompt.task
    with pytest.raises(ValueError, match="unused"):
        prompts.fill(role, {**values, "unused": ""})
    with pytest.raises(ValueError, match=f"differ in {names[0]}$"):
        prompts.fill(role, dict.fromkeys(names[1:], ""))


@pytest.mark.parametrize("again", [prompts.ask_again, prompts.resume])
def test_an_agent_that_did_not_finish_gets_its_terminal_markers_only(again: object) -> None:
    assert callable(again)
    text = again(Role.IMPLEMENTER)
    assert text.endswith("\n\n<PROGRESS>…</PROGRESS>, <DONE>…</DONE>, <SPEC_ISSUE>…</SPEC_ISSUE>")
    assert "NOTE" not in text
