"""Work items: whether one can be worked on, and how a finished one leaves the backlog without anything being lost."""

from __future__ import annotations

import errno
import hashlib
import os
from enum import StrEnum
from pathlib import Path

import msgspec

from cuggino.clock import uuid7
from cuggino.errors import StorageError
from cuggino.files import sync_directory
from cuggino.project import Project


class Item(msgspec.Struct, frozen=True):
    """An item as it was when it was read. `digest` stands for its bytes."""

    name: str
    digest: str


class Unusable(msgspec.Struct, frozen=True):
    """An item that no agent can work on. `digest` is empty when it cannot even be read."""

    name: str
    digest: str
    reason: str


class Removal(StrEnum):
    """What became of a finished item's file."""

    REMOVED = "removed"
    CHANGED = "changed"
    GONE = "gone"


def read_item(project: Project, name: str) -> Item | Unusable | None:
    """The item of this name; None: there is none any more."""
    path = project.backlog / name
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return Unusable(name, "", "it is a link that leads nowhere") if path.is_symlink() else None
    except OSError as error:
        return Unusable(name, "", f"it cannot be read: {error.strerror}")
    digest = hashlib.sha256(data).hexdigest()
    if not _is_utf8(name):
        return Unusable(name, digest, "its name is no UTF-8")
    if not Path(os.path.realpath(path)).is_relative_to(project.root):
        return Unusable(name, digest, "it is a link out of the project")
    if not data.strip():
        return Unusable(name, digest, "it is empty")
    try:
        data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        return Unusable(name, digest, f"it is no UTF-8: the byte 0x{data[error.start]:02x} in line {line}")
    return Item(name, digest)


def digest_of(project: Project, name: str) -> str:
    """What stands for the bytes of the item now; empty when it cannot be read."""
    item = read_item(project, name)
    return "" if item is None else item.digest


def archive(project: Project, item: Item) -> Removal:
    """Move a finished item to `archive/<uuid7>-<name>`, if its content is still what was worked on.

    It is moved first and compared then: an edit between a comparison and a removal would be lost. What turns out
    to have changed is put back, unless there is a new file of that name already; then the archive has the older one.
    """
    path = project.backlog / item.name
    if digest_of(project, item.name) not in (item.digest, ""):
        return Removal.CHANGED
    kept = project.archive / _archived_name(item.name)
    try:
        project.archive.mkdir(0o700, exist_ok=True)  # else an item would count as gone because its new place is
        path.rename(kept)
    except FileNotFoundError:
        return Removal.GONE
    except OSError as error:
        raise StorageError(f"{path} cannot be moved to {project.archive}: {error.strerror}.") from error
    sync_directory(project.archive)
    sync_directory(project.backlog)
    if kept.is_symlink() or hashlib.sha256(kept.read_bytes()).hexdigest() == item.digest:
        return Removal.REMOVED  # what a link leads to stays where it is, whatever it holds
    try:
        os.link(kept, path, follow_symlinks=False)
    except FileExistsError:
        return Removal.CHANGED
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.EMLINK):
            raise StorageError(f"{kept} cannot be put back to {path}: {error.strerror}.") from error
        kept.rename(path)
    else:
        kept.unlink()
    return Removal.CHANGED


def _archived_name(name: str) -> str:
    """A new name that ends like the item's: as much of it as a file system's 255 bytes leave room for."""
    unique = f"{uuid7()}-"
    return unique + os.fsencode(name)[len(unique) - 255 :].decode(errors="ignore")


def _is_utf8(name: str) -> bool:
    """Python has half surrogate pairs in names that are not."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
