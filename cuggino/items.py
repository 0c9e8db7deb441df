"""Which files of a folder are items. Counting and listing are this one function: what is counted can be taken."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from cuggino.errors import StorageError


def list_items(folder: Path) -> tuple[str, ...]:
    """The names of the items in `folder`, sorted. A missing folder is made again.

    An item is a regular file, or a link that leads to one, whose name `is_item_name`. Folders, and links that
    lead nowhere, in a circle, or where cuggino may not look, are none: there is nothing in them to work on.
    Raises StorageError when the folder cannot be read, because it is no folder, for example.
    """
    try:
        restore(folder)
        with os.scandir(folder) as entries:
            return tuple(sorted(entry.name for entry in entries if is_item_name(entry.name) and _is_file(entry)))
    except OSError as error:
        raise StorageError(f"{folder} cannot be read: {error.strerror}.") from error


def is_item_name(name: str) -> bool:
    """Whether a file of this name may be an item: hidden files and the temporary ones of editors are not."""
    return not (
        name.startswith(".")
        or name.endswith(("~", ".swp", ".tmp"))
        or name == "4913"  # vim, when it tries whether it may write
        or (name.startswith("#") and name.endswith("#") and len(name) > 1)
    )


def restore(folder: Path) -> None:
    """Make `folder`, and the one that it is in, if they are missing, for the person alone (0700)."""
    for place in (folder.parent, folder):
        with contextlib.suppress(FileExistsError):
            place.mkdir(0o700)


def _is_file(entry: os.DirEntry[str]) -> bool:
    return entry.is_file(follow_symlinks=False) or (entry.is_symlink() and _leads_to_a_file(entry))


def _leads_to_a_file(link: os.DirEntry[str]) -> bool:
    try:
        return link.is_file()
    except OSError:  # one bad link must not make the whole folder unreadable
        return False
