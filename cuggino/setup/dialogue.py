"""The dialogue of `cuggino setup`: which questions, in which order. The caller reads and prints the lines."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from typing import TypeAlias

from cuggino.errors import ConfigError
from cuggino.output.text import visible
from cuggino.project import Project
from cuggino.setup.explained import EXPLAINED
from cuggino.setup.questions import FLAGS, SECTIONS, SETTINGS, Setting, Values, apply_answer, apply_assignment
from cuggino.setup.write import CurrentSettings, read, save

Ask: TypeAlias = Callable[[str], str]
"""Show a prompt and return the answer. An exception ends the setup with nothing written."""

Print: TypeAlias = Callable[[str], None]

LINES_SHOWN = 50


def set_up(project: Project, assignments: Sequence[str], ask: Ask | None, out: Print) -> None:
    """Set up `project`: apply `assignments`, ask the questions if `ask` is given, and write at the end.

    Raise what `apply_assignment`, `read` and `save` raise.
    """
    found = read(project.config_file)
    values = found.values
    for word in assignments:
        values = apply_assignment(values, word)
    out(
        f"Setting up {visible(str(project.root))}.\n"
        "This writes .cuggino.json and creates two directories if they are missing:\n"
        ".cuggino, with its own .gitignore, and the one for your specs."
    )
    if found.problems:
        _show_invalid(found, out)
    if ask is not None:
        out(
            "Nothing is written before the last answer. Enter keeps the value in brackets,\n"
            "- resets it to its default, Ctrl+C leaves. Separate the items of a list with\n"
            "spaces, and quote them as in a shell."
        )
        values = _ask_all(values, ask, out)
    saved = save(project, values, found)
    out("")
    if saved.backup is not None:
        out(f"Kept the invalid file as {visible(str(saved.backup))}.")
    name = visible(str(project.config_file))
    out(f"Wrote {name}:" if saved.changed else f"{name} is up to date:")
    out(visible(saved.text.rstrip("\n")))
    out(f"Put specs in {visible(str(saved.specs))}, work items in {visible(str(project.backlog))}.")
    out('After writing your first spec, run: cuggino run --focus "…"')


def _lines(text: str) -> str:
    """Wrap at words, for a terminal of 80 columns."""
    return textwrap.fill(text, 79, break_long_words=False, break_on_hyphens=False)


def _show_invalid(found: CurrentSettings, out: Print) -> None:
    out("\nThe existing file is not valid:")
    for problem in found.problems:
        out(visible(problem))
    lines = (found.data or b"").decode("utf-8", "backslashreplace").splitlines()
    out("Its content:")
    for line in lines[:LINES_SHOWN]:
        out(f"    {visible(line)}")
    if len(lines) > LINES_SHOWN:
        out(f"    (showing {LINES_SHOWN} of {len(lines)} lines)")
    kept = ", ".join(setting.key for setting in SETTINGS if setting.path in found.values)
    out(f"It will be kept with a name ending in .bak. Settings taken from it: {kept or 'none'}.")


def _ask_all(values: Values, ask: Ask, out: Print) -> Values:
    values = _ask_each((), values, ask, out)
    names = ", ".join(map(".".join, SECTIONS))
    out(f"\n{_lines(f'The rest ({names}) rarely needs changes.')}")
    if _agreed("Change them?", ask, out):
        for section in SECTIONS:
            name = ".".join(section)
            out(f"\n{_lines(EXPLAINED[name])}")
            if _agreed(f"Set {name}?", ask, out):
                values = _ask_each(section, values, ask, out)
    return values


def _ask_each(section: tuple[str, ...], values: Values, ask: Ask, out: Print) -> Values:
    for setting in SETTINGS:
        if setting.path[:-1] == section:
            out(f"\n{_lines(setting.explanation)}")
            values = _ask_until_right(setting, values, ask, out)
    return values


def _ask_until_right(setting: Setting, values: Values, ask: Ask, out: Print) -> Values:
    while True:
        try:
            return apply_answer(values, setting, ask(f"{setting.key} [{setting.shown(values)}]: "))
        except ConfigError as error:
            out(visible(str(error)))


def _agreed(question: str, ask: Ask, out: Print) -> bool:
    while True:
        answer = ask(f"{question} [no]: ").strip().lower()
        if not answer or answer in FLAGS:
            return FLAGS.get(answer, False)
        out("Try again: yes or no.")
