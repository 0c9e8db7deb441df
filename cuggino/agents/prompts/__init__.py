"""The prompts of all agents.

A prompt is a Markdown file beside this module with `${names}` to fill in. The part above the line `# This time` is the
same in every run: it becomes the system prompt, which no long conversation forgets. The part below is the task. Only
cuggino's own words, the person's focus and paths go in; text of other origin (check output, reviews) is in files that
the prompt names.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Literal

import msgspec

from cuggino.events import LlmTerminalMarkerEvent
from cuggino.markers import tag_name
from cuggino.roles import Role

_DIVIDER = "# This time\n"


class Prompt(msgspec.Struct, frozen=True, kw_only=True):
    """`standing` is the role's system prompt and `task` this run's; `writable` is where the result is expected."""

    standing: str
    task: str
    writable: tuple[Path, ...] = ()


def fill(role: Role, values: Mapping[str, str], *, writable: tuple[Path, ...] = ()) -> Prompt:
    """Return the role's prompt. Raise ValueError unless `values` has exactly the names that the text has."""
    return _fill_file(role, values, writable)


def plan(values: Mapping[str, str], *, writable: tuple[Path, ...] = ()) -> Prompt:
    """Return the prompt of the agent that a person plans with. With an empty task, the person speaks first."""
    return _fill_file("plan", values, writable)


def repair(values: Mapping[str, str]) -> Prompt:
    """Return the prompt of the agent that resolves conflicts during a merge."""
    return _fill_file("repair", values)


def fixing(name: Literal["fixer", "thread"], values: Mapping[str, str]) -> Prompt:
    """Return the prompt of the agent that fixes a pull request's check, or does what a review thread asks."""
    return _fill_file(name, values)


def ask_again(role: Role) -> str:
    """Return the message to an agent that ended without a terminal marker."""
    return _fill_text("again", _terminal_markers(role))


def resume(role: Role) -> str:
    """Return the message to an agent that a failure of its provider interrupted."""
    return _fill_text("resume", _terminal_markers(role))


def _fill_file(name: str, values: Mapping[str, str], writable: tuple[Path, ...] = ()) -> Prompt:
    # The divider is found before anything is filled in: a value may contain it.
    standing, task = _read(name).split(_DIVIDER)
    unequal = {*Template(standing).get_identifiers(), *Template(task).get_identifiers()} ^ set(values)
    if unequal:
        raise ValueError(f"the prompt {name} and its values differ in {', '.join(sorted(unequal))}")
    return Prompt(
        standing=Template(standing).substitute(values).strip(),
        task=Template(task).substitute(values).strip(),
        writable=writable,
    )


def _fill_text(name: str, markers: str) -> str:
    return Template(_read(name)).substitute(markers=markers).strip()


def _read(name: str) -> str:
    return files(__name__).joinpath(f"{name}.md").read_text(encoding="utf-8")


def _terminal_markers(role: Role) -> str:
    names = [tag_name(marker) for marker in role.markers if issubclass(marker, LlmTerminalMarkerEvent)]
    return ", ".join(f"<{name}>…</{name}>" for name in names)
