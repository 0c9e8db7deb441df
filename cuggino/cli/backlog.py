"""`cuggino backlog`: what is to be done."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from cuggino.cli.inbox import add_list_and_show, remark, say, shown
from cuggino.errors import UsageError
from cuggino.inbox.adding import add as add_item
from cuggino.project import Project

backlog = App(
    name="backlog",
    help="The items in `.cuggino/backlog/`, in the order in which a watch does them.\n\n"
    "They are files: change, rename and remove them as you like.\n\n"
    'Example: cuggino backlog add "Export the list as CSV, see .specs/export.md"',
)
add_list_and_show(backlog, lambda project: project.backlog, "backlog item", "backlog items")


@backlog.command
def add(text: Annotated[str, Parameter(allow_leading_hyphen=True)], /) -> int:
    """Add an item behind all others. Its file's name, made of the first words, is printed.

    Parameters
    ----------
    text
        What is to be done; `-` reads it from stdin.
    """
    words = _from_stdin() if text == "-" else text
    project = Project.find(Path.cwd())
    is_new = not project.state_dir.exists()
    path = add_item(project, words)
    if is_new:
        remark(f"{project.root} had no .cuggino folder: it has one now.")
    say([f"Added {shown(path)}"])
    return 0


def _from_stdin() -> str:
    try:
        return sys.stdin.buffer.read().decode()
    except UnicodeDecodeError as error:
        raise UsageError(f"stdin is no UTF-8: {error}.") from error
