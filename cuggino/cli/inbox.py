"""What the commands for the three folders have in common: where the folder is, and how its entries are printed."""

# No postponed annotations: a command's parameters name what is known here only.

import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from cuggino.cli.completion import names_in
from cuggino.inbox.folder import entries, find, read, resolve
from cuggino.inbox.listing import json_lines, table
from cuggino.output.text import visible, visible_name
from cuggino.project import Project

PLAIN_COLUMNS = 120
"""The width where there is no terminal and COLUMNS does not tell one."""

Folder = Callable[[Project], Path]


def add_list_and_show(app: App, folder: Folder, what: str, whats: str) -> None:
    """The commands `list` and `show`. `what` is what an entry is called, `whats` several."""

    def list_(
        *, json: Annotated[bool, Parameter(negative="", show_default=False, help="An object a line on stdout.")] = False
    ) -> int:
        project = Project.find(Path.cwd())
        there = entries(folder(project))
        if json:
            say(json_lines(there))
        elif there:
            say(table(there, shutil.get_terminal_size((PLAIN_COLUMNS, 24)).columns))
        else:
            remark(f"There are no {whats} in {folder(project)}{_for_want_of_a_project(project)}.")
        return 0

    name_of_one = Parameter(help="Its name, or how that begins.", completer=names_in(folder))

    def show(name: Annotated[str, name_of_one], /) -> int:
        say(
            [
                visible(
                    read(
                        find(folder(Project.find(Path.cwd())), name, what, list_command=f"cuggino {app.name[0]} list")
                    ).removesuffix("\n")
                )
            ]
        )
        return 0

    app.command(list_, name="list", help=f"List the {whats}, each with its first line.")
    app.command(show, name="show", help=f"Print a {what}. What a terminal would obey is made visible.")


def add_resolve(app: App, folder: Folder, what: str) -> None:
    """The command `resolve`."""

    name_of_one = Parameter(help="Its name, or how that begins.", completer=names_in(folder))

    def resolve_(name: Annotated[str, name_of_one], /) -> int:
        entry = find(folder(Project.find(Path.cwd())), name, what, list_command=f"cuggino {app.name[0]} list")
        resolve(entry)
        say([f"Deleted {shown(entry.path)}: {visible_name(entry.title)}"])
        return 0

    app.command(resolve_, name="resolve", help=f"Delete a {what} that is dealt with.")


def shown(path: Path) -> str:
    """A path as one would type it here."""
    here = Path.cwd()
    return visible_name(str(path.relative_to(here) if path.is_relative_to(here) else path))


def say(lines: Sequence[str]) -> None:
    """Print the result. UTF-8 whatever the locale says, as all that cuggino prints."""
    sys.stdout.flush()
    sys.stdout.buffer.write("".join(f"{line}\n" for line in lines).encode(errors="replace"))


def remark(text: str) -> None:
    """Something on the side, that no script should take for a result."""
    print(f"cuggino: {text}", file=sys.stderr)


def _for_want_of_a_project(project: Project) -> str:
    return "" if project.config_file.exists() or project.state_dir.exists() else " (no project here or above)"
