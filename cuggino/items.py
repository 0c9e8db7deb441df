"""Which files in a directory are items. Counting and listing use the same function, so that they agree."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from cuggino.errors import StorageError


def list_items(folder: Path) -> tuple[str, ...]:
    """Return the names of the items in `folder`, sorted, and create it if it is missing. Raise StorageError.

    An item is a regular file, or a link to one, whose name `is_item_name`. Directories, broken links and links to
    places that cuggino may not read are left out: there is nothing in them to work on.
    """
    try:
        restore(folder)
        with os.scandir(folder) as entries:
            return tuple(sorted(entry.name for entry in entries if is_item_name(entry.name) and _is_file(entry)))
    except OSError as error:
        raise StorageError(f"{folder} cannot be read: {error.strerror}.") from error


def is_item_name(name: str) -> bool:
    """Return whether a file with this name may be an item: hidden and temporary files may not."""
    return not (
        name.startswith(".")
        or name.endswith(("~", ".swp", ".tmp"))
        or name == "4913"  # vim creates it to find out whether it may write
        or (name.startswith("#") and name.endswith("#") and len(name) > 1)
    )


def restore(folder: Path) -> None:
    """Create `folder` and its parent if they are missing, private (0700)."""
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
