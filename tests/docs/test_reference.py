"""The reference says what the program has: its tables against the structs, the errors and the paths themselves."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
import signal
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, get_args

import msgspec
import pytest
from markdown_it import MarkdownIt

import cuggino
from cuggino import config, events, markers
from cuggino.cli.watch import watch
from cuggino.errors import CugginoError
from cuggino.output.stream import OutputClosed
from cuggino.project import Project
from cuggino.roles import Role
from cuggino.runtime import exit_code
from cuggino.watch.course import End, WatchSnapshot, WatchState, decide

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"

SECTIONS: dict[str, type[msgspec.Struct]] = {
    "The file": config.Config,
    "agents": config.Agents,
    "limits": config.Limits,
    "spawn": config.Spawn,
    "ci": config.Ci,
    "notify": config.Notify,
}

CATEGORIES = {
    "What agents do": events.LlmAgentEvent,
    "Markers": events.LlmMarkerEvent,
    "Markers that end a turn": events.LlmTerminalMarkerEvent,
    "Steps of a loop": events.LoopPhaseEvent,
    "Last events of a loop": events.LoopTerminalEvent,
    "What a watch does": events.WatchLoopEvent,
    "What a spawn does": events.SpawnEvent,
    "What a CI watch does": events.CiEvent,
}


def _tables(document: str) -> Iterator[tuple[str, list[str]]]:
    """The rows of every table, each with the heading that it stands under; header rows are left out."""
    heading = ""
    tokens = MarkdownIt().enable("table").parse((REFERENCE / document).read_text(encoding="utf-8"))
    row: list[str] = []
    for before, token in pairwise(tokens):
        if before.type == "heading_open":
            heading = token.content
        elif before.type == "td_open":
            row.append(token.content)
        elif before.type == "tr_close" and row:
            yield heading, row
            row = []


def _table(document: str, heading: str) -> list[list[str]]:
    return [row for above, row in _tables(document) if above == heading]


def _names(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def _default(field: msgspec.structs.FieldInfo) -> str:
    """As the table has it: JSON, `{}` for a section, nothing for what is absent."""
    value = field.default
    if value is None:
        return "absent"
    return "`{}`" if isinstance(value, msgspec.Struct) else f"`{msgspec.json.encode(value).decode()}`"


def _literals(kind: Any) -> set[str]:
    """The texts that a type allows by name; a list's items, too."""
    parts = get_args(kind)
    return {part for part in parts if isinstance(part, str)}.union(*map(_literals, parts))


@pytest.mark.parametrize(("heading", "struct"), SECTIONS.items(), ids=SECTIONS)
def test_the_configuration_s_keys_and_defaults_are_the_program_s(heading: str, struct: type[msgspec.Struct]) -> None:
    told = {_names(row[0])[0]: row[2] for row in _table("configuration.md", heading)}
    assert told == {field.encode_name: _default(field) for field in msgspec.structs.fields(struct)}


@pytest.mark.parametrize(("heading", "name"), [("The file", "agent"), ("spawn", "integrate"), ("ci", "threads")])
def test_the_values_that_a_key_may_have_are_the_program_s(heading: str, name: str) -> None:
    told = {_names(row[0])[0]: set(_names(row[1])) for row in _table("configuration.md", heading)}
    kinds = {field.encode_name: field.type for field in msgspec.structs.fields(SECTIONS[heading])}
    assert told[name] == _literals(kinds[name])


def test_every_category_of_events_has_its_table_with_their_fields() -> None:
    told = {
        _names(row[0])[0]: (CATEGORIES[heading], _names(row[1]))
        for heading, row in _tables("events.md")
        if heading in CATEGORIES
    }
    assert told == {
        event.__name__: (event.__base__, list(event.__struct_encode_fields__))
        for event in get_args(events.PrintableEvent)
    }


def test_a_marker_s_row_begins_with_its_tag_and_names_the_roles_that_have_it() -> None:
    for heading in ("Markers", "Markers that end a turn"):
        for event, _, words in _table("events.md", heading):
            kind = getattr(events, _names(event)[0])
            assert _names(words)[0] == markers.tag_name(kind)
            told = words.partition(",")[2].partition(":")[0].replace(" ", "").split(",")
            assert told == [role for role in Role if kind in role.markers], event


def test_the_fields_of_a_log_line_are_the_program_s() -> None:
    assert [_names(row[0])[0] for row in _table("events.md", "Events")] == list(events.LogLine.__struct_encode_fields__)


def _kinds(error: type[CugginoError]) -> Iterator[type[CugginoError]]:
    """The errors of the program: others' tests may have made some more."""
    if error.__module__.startswith("cuggino."):
        yield error
        for kind in error.__subclasses__():
            yield from _kinds(kind)


def test_every_error_is_told_with_the_code_that_a_command_ends_with() -> None:
    for module in pkgutil.walk_packages(cuggino.__path__, "cuggino."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    told = {_names(name)[0]: int(code) for name, code, _ in _table("exit-codes.md", "Errors")}
    assert told == {error.__name__: error.exit_code for error in _kinds(CugginoError)}
    assert OutputClosed.__name__ in told


def test_every_last_event_is_told_with_the_code_that_a_run_ends_with() -> None:
    values = {"iteration": 1, "max_iterations": 1, "limit": "", "value": 0.0}
    told = {
        names[0]: int(code) for name, code, _ in _table("exit-codes.md", "How a loop ended") if (names := _names(name))
    }
    ends = [kind for kind in get_args(events.PrintableEvent) if issubclass(kind, events.LoopTerminalEvent)]
    examples = [kind(**{name: values.get(name, "") for name in kind.__struct_fields__}) for kind in ends]
    assert told == {type(example).__name__: exit_code(example) for example in examples}


def _ending(*, spec_issues: int = 0, blocked: int = 0) -> End:
    """Of a watch that was to end when nothing is ready."""
    end = decide(WatchState(until_idle=True), WatchSnapshot(spec_issues=spec_issues, ready=(), blocked=blocked))
    assert isinstance(end, End)
    return end


def test_every_reason_for_a_watch_s_end_is_told_with_its_codes() -> None:
    told = {
        _names(reason)[0]: [int(code) for code in codes.split(",")]
        for reason, codes, _ in _table("exit-codes.md", "How a watch ended")
    }
    failed: list[Literal["validation-failed", "poll-failed", "setup-failed"]]
    failed = ["validation-failed", "poll-failed", "setup-failed"]
    ends = [decide(WatchState(failure=reason), None) for reason in failed]
    assert told == {
        "idle": [end.exit_code for end in (_ending(), _ending(spec_issues=1, blocked=1), _ending(blocked=1))],
        "interrupted": [128 + number for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)],
        **{end.reason: [end.exit_code] for end in ends if isinstance(end, End)},
    }


def test_every_text_that_a_field_of_an_event_may_be_is_told_in_the_event_s_row() -> None:
    rows = {_names(row[0])[0]: set(_names(row[2])) for heading, row in _tables("events.md") if heading in CATEGORIES}
    choices = {
        event.__name__: set().union(*(_literals(field.type) for field in msgspec.structs.fields(event)))
        for event in get_args(events.PrintableEvent)
    }
    assert any(choices.values())
    assert {name: texts - rows[name] for name, texts in choices.items() if texts - rows[name]} == {}


@pytest.mark.parametrize(
    ("document", "heading"), [("docs/how-to/watch-a-backlog.md", "Options"), (".specs/watch.md", "`cuggino watch`")]
)
def test_the_options_of_a_watch_and_their_defaults_are_the_command_s(document: str, heading: str) -> None:
    told = {
        _names(row[0])[0].partition(" ")[0]: row[1] for above, row in _tables(f"../../{document}") if above == heading
    }
    parameters = [it for name, it in inspect.signature(watch).parameters.items() if name != "intervals"]
    assert told == {
        f"--{parameter.name.replace('_', '-')}": f"`{parameter.default}`" if parameter.default else "off"
        for parameter in parameters
    }


def test_every_place_in_the_state_folder_is_told() -> None:
    project = Project(Path("/project"))
    places = {name for name in dir(Project) if isinstance(getattr(Project, name), property)}
    paths = (getattr(project, name) for name in places)
    told = {_names(row[0])[0].rstrip("/") for row in _table("files.md", ".cuggino/")}
    assert {path.name for path in paths if path.parent == project.state_dir} <= told
