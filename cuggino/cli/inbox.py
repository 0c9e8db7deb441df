"""What the commands for backlog, spec issues and findings share."""

# No postponed annotations: a command's parameters name what is known only here.

import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from cuggino.cli.completion import names_in
from cuggino.inbox.folder import delete, entries, find, read
from cuggino.inbox.listing import json_lines, table
from cuggino.output.text import visible, visible_name
from cuggino.project import Project
from cuggino.trust import find_project

PLAIN_COLUMNS = 120
"""The width without a terminal, if COLUMNS is not set."""

Folder = Callable[[Project], Path]


def add_list_and_show(app: App, folder: Folder, kind: str) -> None:
    """Add the commands `list` and `show` for the entries of `folder`; `kind` is what one of them is called."""
    name_parameter = _name_parameter(folder)

    def list_(
        *,
        json: Annotated[
            bool, Parameter(negative="", show_default=False, help="Print one JSON object per line.")
        ] = False,
    ) -> int:
        project = find_project()
        found = entries(folder(project))
        if json:
            print_lines(json_lines(found))
        elif found:
            print_lines(table(found, shutil.get_terminal_size((PLAIN_COLUMNS, 24)).columns))
        else:
            is_project = project.config_file.exists() or project.state_dir.exists()
            hint = "" if is_project else " (not inside a project)"
            print_remark(f"There are no {kind}s in {folder(project)}{hint}.")
        return 0

    def show(name: Annotated[str, name_parameter], /) -> int:
        entry = find(folder(find_project()), name, kind, list_command=_list_command(app))
        print_lines([visible(read(entry)).removesuffix("\n")])
        return 0

    app.command(list_, name="list", help=f"List the {kind}s, each with its first line.")
    app.command(show, name="show", help=f"Print a {kind}. Control characters are escaped.")


def add_resolve(app: App, folder: Folder, kind: str) -> None:
    """Add the command `resolve`, which deletes an entry."""
    name_parameter = _name_parameter(folder)

    def resolve(name: Annotated[str, name_parameter], /) -> int:
        entry = find(folder(find_project()), name, kind, list_command=_list_command(app))
        delete(entry)
        print_lines([f"Deleted {relative(entry.path)}: {visible_name(entry.title)}"])
        return 0

    app.command(resolve, name="resolve", help=f"Delete a {kind} that you have dealt with.")


def _name_parameter(folder: Folder) -> Parameter:
    return Parameter(help="Its name, or the beginning of its name.", completer=names_in(folder))


def _list_command(app: App) -> str:
    return f"cuggino {app.name[0]} list"


def relative(path: Path) -> str:
    """Return a path as one would type it in the current directory."""
    here = Path.cwd()
    return visible_name(str(path.relative_to(here) if path.is_relative_to(here) else path))


def print_lines(lines: Sequence[str]) -> None:
    """Print lines to stdout, as UTF-8 whatever the locale is."""
    sys.stdout.flush()
    sys.stdout.buffer.write("".join(f"{line}\n" for line in lines).encode(errors="replace"))


def print_remark(text: str) -> None:
    """Print a line to stderr, where scripts do not take it for a result."""
    print(f"cuggino: {text}", file=sys.stderr)
