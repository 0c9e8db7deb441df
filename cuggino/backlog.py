"""Backlog items: whether one can be worked on, and how a finished one is archived without losing an edit."""

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
    """An item as it was when it was read. `digest` is the SHA-256 of its content."""

    name: str
    digest: str
    text: str = ""


class Unusable(msgspec.Struct, frozen=True):
    """An item that agents cannot work on. `digest` is empty if it cannot be read."""

    name: str
    digest: str
    reason: str


class Removal(StrEnum):
    """What happened to the file of a finished item."""

    REMOVED = "removed"
    CHANGED = "changed"
    GONE = "gone"


def read_item(project: Project, name: str) -> Item | Unusable | None:
    """Return the item with this name, or None if it does not exist any more."""
    path = project.backlog / name
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return Unusable(name, "", "it is a broken link") if path.is_symlink() else None
    except OSError as error:
        return Unusable(name, "", f"it cannot be read: {error.strerror}")
    digest = hashlib.sha256(data).hexdigest()
    if not _is_utf8(name):
        return Unusable(name, digest, "its name is not valid UTF-8")
    if not any(Path(os.path.realpath(path)).is_relative_to(it) for it in (project.root, project.state_dir.resolve())):
        return Unusable(name, digest, "it is a link out of the project")
    if not data.strip():
        return Unusable(name, digest, "it is empty")
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        return Unusable(name, digest, f"it is not valid UTF-8: byte 0x{data[error.start]:02x} in line {line}")
    return Item(name, digest, text)


def digest_of(project: Project, name: str) -> str:
    """Return the digest of the item's current content, or an empty string if it cannot be read."""
    item = read_item(project, name)
    return "" if item is None else item.digest


def archive(project: Project, item: Item) -> Removal:
    """Move a finished item to `archive/<uuid7>-<name>`, unless its content has changed since. Raise StorageError.

    The file is moved first and compared afterwards, since an edit between a comparison and the move would be lost. If
    it has changed, it is moved back, unless a new file has its name by then: the old one stays in the archive.
    """
    path = project.backlog / item.name
    if digest_of(project, item.name) not in (item.digest, ""):
        return Removal.CHANGED
    kept = project.archive / _archived_name(item.name)
    try:
        project.archive.mkdir(0o700, exist_ok=True)  # if it were missing, the item would look deleted
        path.rename(kept)
    except FileNotFoundError:
        return Removal.GONE
    except OSError as error:
        raise StorageError(f"{path} cannot be moved to {project.archive}: {error.strerror}.") from error
    sync_directory(project.archive)
    sync_directory(project.backlog)
    if kept.is_symlink() or hashlib.sha256(kept.read_bytes()).hexdigest() == item.digest:
        return Removal.REMOVED  # a link: the file that it points to stays as it is
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
    """Return a unique name that ends with the item's name, as far as 255 bytes allow."""
    unique = f"{uuid7()}-"
    return unique + os.fsencode(name)[len(unique) - 255 :].decode(errors="ignore")


def _is_utf8(name: str) -> bool:
    """In names that are not, Python has lone surrogates."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
