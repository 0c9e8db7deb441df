"""New backlog items: a name that sorts after all others, and a file that appears whole."""

from __future__ import annotations

import errno
import os
import re
import unicodedata
from collections.abc import Collection, Iterator
from pathlib import Path

from cuggino.clock import uuid7
from cuggino.errors import StorageError, UsageError
from cuggino.files import sync_directory, write_atomic
from cuggino.items import list_items
from cuggino.output.text import visible_name
from cuggino.project import Project

_FIRST = "010"
_WORDS = 6
_SLUG = 40
"""Maximum characters of a text's first words in a name."""
_LONGEST_NAME = 255
"""Bytes that file systems allow."""

_NUMBER = re.compile(r"(?:^|_)(\d+)(?![^\W_])", re.ASCII)
"""A number at the start of a name or after an underscore, as `name_after` makes them."""


def add(project: Project, text: str) -> Path:
    """Add an item with this text to the end of the backlog and return its path. Create missing directories.

    The file appears whole, under a new name. Raise UsageError if the text is blank, and StorageError.
    """
    if not text.strip():
        raise UsageError("The text is empty.", advice='Describe the work: cuggino backlog add "…"')
    project.prepare()
    temporary = project.backlog / f".{uuid7()}.tmp"
    taken: set[str] = set()  # also names of things that are not items, such as directories
    try:
        write_atomic(temporary, text if text.endswith("\n") else f"{text}\n")
        while True:
            name = name_after(taken.union(list_items(project.backlog)), text)
            if _appears(temporary, project.backlog / name):
                return project.backlog / name
            taken.add(name)
    finally:
        temporary.unlink(missing_ok=True)
        sync_directory(project.backlog)


def name_after(names: Collection[str], text: str) -> str:
    """Return a name that sorts after all `names` and ends with the first words of `text`.

    It counts up from the last name's number, by tens if that is a round number: 010 → 020, 7 → 8. If its digits are
    used up, or there is no number, a new one is appended: 990-x → 990_010, notes → notes_010. Raise UsageError if the
    name would be too long for a file.
    """
    rest = f"-{_slug(text)}.md"
    if not names:
        return _FIRST + rest
    last = max(names)
    for start in _starts_after(last):
        name = start + rest
        if name > last and len(os.fsencode(name)) <= _LONGEST_NAME:
            return name
    raise UsageError(
        f"A name that sorts after {visible_name(last)} would be too long for a file.",
        advice="Rename that item.",
    )


def _starts_after(last: str) -> Iterator[str]:
    """Yield beginnings of names that may sort after `last`, the nicest first. The last one does."""
    numbers = list(_NUMBER.finditer(last))
    for found in numbers:
        digits = found[1]
        step = 10 if digits.endswith("0") and len(digits) > 1 else 1
        yield f"{last[: found.start(1)]}{int(digits) + step:0{len(digits)}}"
    for found in numbers:
        yield f"{last[: found.end()]}_{_FIRST}"
    yield f"{last.rpartition('.')[0] or last}_{_FIRST}"


def _slug(text: str) -> str:
    """Return the first words of a text as a part of a name."""
    first = next(line for line in text.splitlines() if line.strip())
    words = re.findall(r"\w+", unicodedata.normalize("NFC", first).lower().replace("_", " ").replace("'", ""))[:_WORDS]
    slug = "-".join(words)
    if len(slug) > _SLUG:
        slug = slug[: _SLUG + 1].rpartition("-")[0] or slug[:_SLUG]
    return slug or "item"


def _appears(temporary: Path, path: Path) -> bool:
    """Give the file its name, or return False if the name is taken. By a link, since a rename would overwrite."""
    try:
        os.link(temporary, path)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.EMLINK):
            raise StorageError(f"{path} cannot be written: {error.strerror}.") from error
        if os.path.lexists(path):
            return False
        temporary.rename(path)  # a file system without links
    return True
