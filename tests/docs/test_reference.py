"""The reference agrees with the program: its tables are compared with the structs, the errors and the paths."""

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
    "spawn": config.SpawnSettings,
    "ci": config.CiSettings,
    "notify": config.NotifySettings,
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
    """Yield the rows of every table except for its header, each with the heading above it."""
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
    """Return a default as the table shows it: JSON, `{}` for a section, `absent` for None."""
    value = field.default
    if value is None:
        return "absent"
    return "`{}`" if isinstance(value, msgspec.Struct) else f"`{msgspec.json.encode(value).decode()}`"


def _literals(kind: Any) -> set[str]:
    """Return the texts that a type allows by name, also as items of a list."""
    parts = get_args(kind)
    return {part for part in parts if isinstance(part, str)}.union(*map(_literals, parts))


@pytest.mark.parametrize(("heading", "struct"), SECTIONS.items(), ids=SECTIONS)
def test_every_key_is_documented_with_its_default(heading: str, struct: type[msgspec.Struct]) -> None:
    documented = {_names(row[0])[0]: row[2] for row in _table("configuration.md", heading)}
    assert documented == {field.encode_name: _default(field) for field in msgspec.structs.fields(struct)}


@pytest.mark.parametrize(("heading", "name"), [("The file", "agent"), ("spawn", "integrate"), ("ci", "threads")])
def test_every_value_of_a_choice_is_documented(heading: str, name: str) -> None:
    documented = {_names(row[0])[0]: set(_names(row[1])) for row in _table("configuration.md", heading)}
    kinds = {field.encode_name: field.type for field in msgspec.structs.fields(SECTIONS[heading])}
    assert documented[name] == _literals(kinds[name])


def test_every_event_is_documented_with_its_fields_in_the_table_of_its_category() -> None:
    documented = {
        _names(row[0])[0]: (CATEGORIES[heading], _names(row[1]))
        for heading, row in _tables("events.md")
        if heading in CATEGORIES
    }
    assert documented == {
        event.__name__: (event.__base__, list(event.__struct_encode_fields__))
        for event in get_args(events.PrintableEvent)
    }


def test_the_row_of_a_marker_starts_with_its_tag_and_names_its_roles() -> None:
    for heading in ("Markers", "Markers that end a turn"):
        for event, _, words in _table("events.md", heading):
            kind = getattr(events, _names(event)[0])
            assert _names(words)[0] == markers.tag_name(kind)
            documented = words.partition(",")[2].partition(":")[0].replace(" ", "").split(",")
            assert documented == [role for role in Role if kind in role.markers], event


def test_every_field_of_a_log_line_is_documented() -> None:
    assert [_names(row[0])[0] for row in _table("events.md", "Events")] == list(events.LogLine.__struct_encode_fields__)


def _kinds(error: type[CugginoError]) -> Iterator[type[CugginoError]]:
    """Yield the error and its subclasses, without those that other tests have defined."""
    if error.__module__.startswith("cuggino."):
        yield error
        for kind in error.__subclasses__():
            yield from _kinds(kind)


def test_every_error_is_documented_with_its_exit_code() -> None:
    for module in pkgutil.walk_packages(cuggino.__path__, "cuggino."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    documented = {_names(name)[0]: int(code) for name, code, _ in _table("exit-codes.md", "Errors")}
    assert documented == {error.__name__: error.exit_code for error in _kinds(CugginoError)}
    assert OutputClosed.__name__ in documented


def test_every_last_event_of_a_loop_is_documented_with_its_exit_code() -> None:
    values = {"iteration": 1, "max_iterations": 1, "limit": "", "value": 0.0}
    documented = {
        names[0]: int(code) for name, code, _ in _table("exit-codes.md", "How a loop ended") if (names := _names(name))
    }
    ends = [kind for kind in get_args(events.PrintableEvent) if issubclass(kind, events.LoopTerminalEvent)]
    examples = [kind(**{name: values.get(name, "") for name in kind.__struct_fields__}) for kind in ends]
    assert documented == {type(example).__name__: exit_code(example) for example in examples}


def _ending(*, spec_issues: int = 0, blocked: int = 0) -> End:
    """Return how a watch with --until-idle ends."""
    end = decide(WatchState(until_idle=True), WatchSnapshot(spec_issues=spec_issues, ready=(), blocked=blocked))
    assert isinstance(end, End)
    return end


def test_every_end_of_a_watch_is_documented_with_its_exit_codes() -> None:
    documented = {
        _names(reason)[0]: [int(code) for code in codes.split(",")]
        for reason, codes, _ in _table("exit-codes.md", "How a watch ended")
    }
    failed: list[Literal["validation-failed", "poll-failed", "setup-failed"]]
    failed = ["validation-failed", "poll-failed", "setup-failed"]
    ends = [decide(WatchState(failure=reason), None) for reason in failed]
    assert documented == {
        "idle": [end.exit_code for end in (_ending(), _ending(spec_issues=1, blocked=1), _ending(blocked=1))],
        "interrupted": [128 + number for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)],
        **{end.reason: [end.exit_code] for end in ends if isinstance(end, End)},
    }


def test_every_choice_in_a_field_of_an_event_is_documented_in_its_row() -> None:
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
def test_every_option_of_a_watch_is_documented_with_its_default(document: str, heading: str) -> None:
    documented = {
        _names(row[0])[0].partition(" ")[0]: row[1] for above, row in _tables(f"../../{document}") if above == heading
    }
    parameters = [it for name, it in inspect.signature(watch).parameters.items() if name != "intervals"]
    assert documented == {
        f"--{parameter.name.replace('_', '-')}": f"`{parameter.default}`" if parameter.default else "off"
        for parameter in parameters
    }


def test_every_path_in_the_state_folder_is_documented() -> None:
    project = Project(Path("/project"))
    places = {name for name in dir(Project) if isinstance(getattr(Project, name), property)}
    paths = (getattr(project, name) for name in places)
    documented = {_names(row[0])[0].rstrip("/") for row in _table("files.md", ".cuggino/")}
    assert {path.name for path in paths if path.parent == project.state_dir} <= documented
