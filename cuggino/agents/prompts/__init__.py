"""What each role is told.

A role's text is a Markdown file beside this module, with `${names}` to fill in. What stands above the line
`# This time` is the same in every run: it becomes the system prompt, which no long conversation forgets.
What follows is the task. Only our own words, the person's focus and paths go in; all text of other origin
(check output, reviews) is named by its path.
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
    """`standing` is the role's own, `task` this run's; `writable` is where its result is expected."""

    standing: str
    task: str
    writable: tuple[Path, ...] = ()


def fill(role: Role, values: Mapping[str, str], *, writable: tuple[Path, ...] = ()) -> Prompt:
    """The role's prompt. A name that the text has and `values` lacks is a KeyError."""
    return _filled(role, values, writable)


def plan(values: Mapping[str, str], *, writable: tuple[Path, ...] = ()) -> Prompt:
    """For the agent that a person plans with. An empty task: the person speaks first."""
    return _filled("plan", values, writable)


def repair(values: Mapping[str, str]) -> Prompt:
    """For the agent that resolves conflicts in the middle of a merge."""
    return _filled("repair", values, ())


def fixing(name: Literal["fixer", "thread"], values: Mapping[str, str]) -> Prompt:
    """For the agent that mends a pull request's check, or does what a review thread asks."""
    return _filled(name, values, ())


def _filled(name: str, values: Mapping[str, str], writable: tuple[Path, ...]) -> Prompt:
    text = files(__name__).joinpath(f"{name}.md").read_text(encoding="utf-8")
    standing, task = text.split(_DIVIDER)
    return Prompt(
        standing=Template(standing).substitute(values).strip(),
        task=Template(task).substitute(values).strip(),
        writable=writable,
    )


def ask_again(role: Role) -> str:
    """For an agent that ended without a terminal marker."""
    text = files(__name__).joinpath("again.md").read_text(encoding="utf-8")
    return Template(text).substitute(markers=_terminal_markers(role)).strip()


def go_on(role: Role) -> str:
    """For an agent that was cut off by its provider."""
    text = files(__name__).joinpath("go-on.md").read_text(encoding="utf-8")
    return Template(text).substitute(markers=_terminal_markers(role)).strip()


def _terminal_markers(role: Role) -> str:
    names = [tag_name(marker) for marker in role.markers if issubclass(marker, LlmTerminalMarkerEvent)]
    return ", ".join(f"<{name}>…</{name}>" for name in names)
