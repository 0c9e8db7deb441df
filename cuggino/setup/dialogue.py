"""The conversation: what is said, what is asked, in which order. How lines are read and shown is the caller's."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from typing import TypeAlias

from cuggino.errors import ConfigError
from cuggino.output.text import visible
from cuggino.project import Project
from cuggino.setup.explained import EXPLAINED
from cuggino.setup.questions import FLAGS, SECTIONS, SETTINGS, Setting, Values, answered, assigned
from cuggino.setup.write import Found, read, save

Ask: TypeAlias = Callable[[str], str]
"""Shows a prompt and returns the answer. What it raises ends the setup, with nothing written."""

Say: TypeAlias = Callable[[str], None]

LINES_SHOWN = 50


def set_up(project: Project, assignments: Sequence[str], ask: Ask | None, say: Say) -> None:
    """Set up `project`: take `assignments`, ask if there is whom to ask, write at the very end.

    Raises what `assigned`, `read` and `save` raise.
    """
    found = read(project.config_file)
    values = found.values
    for word in assignments:
        values = assigned(values, word)
    say(
        f"Setting up {visible(str(project.root))}.\n"
        "This writes .cuggino.json, makes the folder .cuggino (with a .gitignore of its\n"
        "own) and the one of the specs where they are missing, and does nothing else."
    )
    if found.problems:
        _tell_broken(found, say)
    if ask is not None:
        say(
            "Nothing is written before the last answer. Enter keeps what is in brackets,\n"
            "- goes back to the default, Ctrl+C leaves. A list is words with blanks between\n"
            "them, quoted as in a shell."
        )
        values = _ask_all(values, ask, say)
    saved = save(project, values, found)
    say("")
    if saved.backup is not None:
        say(f"The broken file is kept as {visible(str(saved.backup))}.")
    say(f"{visible(str(project.config_file))} {'is written' if saved.changed else 'stays as it is'}:")
    say(visible(saved.text.rstrip("\n")))
    say(f"Specs belong in {visible(str(saved.specs))}, work items in {visible(str(project.backlog))}.")
    say('When the first spec is there: cuggino run --focus "…"')


def _lines(text: str) -> str:
    """Broken at words, for a terminal of 80 columns."""
    return textwrap.fill(text, 79, break_long_words=False, break_on_hyphens=False)


def _tell_broken(found: Found, say: Say) -> None:
    say("\nThe file that is there cannot be taken as it is:")
    for problem in found.problems:
        say(visible(problem))
    lines = (found.data or b"").decode("utf-8", "backslashreplace").splitlines()
    say("It says:")
    for line in lines[:LINES_SHOWN]:
        say(f"    {visible(line)}")
    if len(lines) > LINES_SHOWN:
        say(f"    (showing {LINES_SHOWN} of {len(lines)} lines)")
    kept = ", ".join(setting.key for setting in SETTINGS if setting.path in found.values)
    say(f"It will be kept, its name ending in .bak. What can be used of it: {kept or 'nothing'}.")


def _ask_all(values: Values, ask: Ask, say: Say) -> Values:
    values = _ask_each((), values, ask, say)
    names = ", ".join(map(".".join, SECTIONS))
    say(f"\n{_lines(f'The rest ({names}) serves most projects as it is.')}")
    if _agreed("Go through it?", ask, say):
        for section in SECTIONS:
            name = ".".join(section)
            say(f"\n{_lines(EXPLAINED[name])}")
            if _agreed(f"Set {name}?", ask, say):
                values = _ask_each(section, values, ask, say)
    return values


def _ask_each(section: tuple[str, ...], values: Values, ask: Ask, say: Say) -> Values:
    for setting in SETTINGS:
        if setting.path[:-1] == section:
            say(f"\n{_lines(setting.explanation)}")
            values = _ask_until_right(setting, values, ask, say)
    return values


def _ask_until_right(setting: Setting, values: Values, ask: Ask, say: Say) -> Values:
    while True:
        try:
            return answered(values, setting, ask(f"{setting.key} [{setting.shown(values)}]: "))
        except ConfigError as error:
            say(visible(str(error)))


def _agreed(question: str, ask: Ask, say: Say) -> bool:
    while True:
        answer = ask(f"{question} [no]: ").strip().lower()
        if not answer or answer in FLAGS:
            return FLAGS.get(answer, False)
        say("Try again: yes or no.")
