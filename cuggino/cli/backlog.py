"""`cuggino backlog`: the work to do."""

from __future__ import annotations

import sys
from typing import Annotated

from cyclopts import App, Parameter

from cuggino.cli.inbox import add_list_and_show, print_lines, print_remark, relative
from cuggino.errors import UsageError
from cuggino.inbox.adding import add as add_item
from cuggino.trust import find_project

backlog = App(
    name="backlog",
    help="Manage the items in `.cuggino/backlog/`, which a watch works through in the order of their names.\n\n"
    "They are files: edit, rename and delete them as you like.\n\n"
    'Example: cuggino backlog add "Export the list as CSV, see .specs/export.md"',
)
add_list_and_show(backlog, lambda project: project.backlog, "backlog item")


@backlog.command
def add(text: Annotated[str, Parameter(allow_leading_hyphen=True)], /) -> int:
    """Add an item to the end of the backlog, in a file named after its first words.

    Parameters
    ----------
    text
        Description of the work; `-` reads it from stdin.
    """
    description = _read_stdin() if text == "-" else text
    project = find_project()
    is_new = not project.state_dir.exists()
    path = add_item(project, description)
    if is_new:
        print_remark(f"Created {project.state_dir}, which did not exist.")
    print_lines([f"Added {relative(path)}"])
    return 0


def _read_stdin() -> str:
    try:
        return sys.stdin.buffer.read().decode()
    except UnicodeDecodeError as error:
        raise UsageError(f"stdin is not valid UTF-8: {error}.") from error
