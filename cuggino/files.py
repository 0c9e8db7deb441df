"""Writing files so that neither a crash nor a full disk leaves them half written.

- `write_atomic` replaces a file: readers see the old content or all of the new content, never a mixture, and so does
  whoever reads after a crash or a power failure.
- `append` adds to a file in one write, so that appends of several processes do not mix.
- `sync_directory` makes renames and deletions in a directory survive a power failure.
- `expect_directory` and `expect_file` refuse what is of another kind than cuggino put there: others can write a tree,
  and a link in it leads anywhere. `open_below` and `remove` go one name at a time from an open directory, so that a
  link that appears in between is not followed either.

Files are private (0600) unless a mode is given, and every failure is a StorageError that names the file. Everything
is synchronous: the files are small, and the virtual clock of tests must not jump meanwhile.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from cuggino.clock import uuid7
from cuggino.errors import StorageError

DECODE_ERRORS = (msgspec.DecodeError, ValueError, RecursionError)
"""What decoding a damaged file raises. Invalid UTF-8 is a ValueError."""


def write_atomic(path: Path, data: bytes | str, *, mode: int = 0o600, keep_link: bool = False) -> None:
    """Replace the content of `path` by `data`, all or nothing, and set its mode. Raise StorageError on failure.

    Writes a temporary file (`.<uuid7>.tmp`) in the same directory first, and deletes it if anything fails. A symbolic
    link is replaced, not the file that it points to: others may have made it. With `keep_link` it is the other way.
    """
    try:
        target = Path(os.path.realpath(path)) if keep_link and path.is_symlink() else path
        temporary = target.with_name(f".{uuid7()}.tmp")
        try:
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            try:
                os.fchmod(descriptor, mode)
                _write_all(descriptor, data)
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            temporary.replace(target)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        sync_directory(target.parent)
    except OSError as error:
        raise StorageError(f"{path} cannot be written: {error.strerror}.") from error


def append(path: Path, data: bytes | str, *, mode: int = 0o600) -> None:
    """Append `data` in one write; `mode` applies if the file is new. Raise StorageError on failure, and for a link."""
    plain = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK  # a named pipe without a reader is an error, too
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | plain, mode)
        try:
            _write_all(descriptor, data)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise StorageError(f"{path} cannot be appended to: {error.strerror}.") from error


def sync_directory(directory: Path) -> None:
    """Flush renames and deletions in `directory` to disk, where its file system can. Raise OSError on failure."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(descriptor)


_KINDS = {
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFDIR: "a directory",
    stat.S_IFREG: "a file",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
}
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def expect_directory(path: Path) -> bool:
    """Return whether there is a directory; False if there is nothing. StorageError for all else, links included."""
    return _expect(path, stat.S_IFDIR)


def expect_file(path: Path) -> bool:
    """Return whether there is a regular file; False if there is nothing. StorageError for all else, links included."""
    return _expect(path, stat.S_IFREG)


def _expect(path: Path, kind: int) -> bool:
    try:
        found = stat.S_IFMT(path.lstat().st_mode)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise StorageError(f"{path} cannot be examined: {error.strerror}.") from error
    if found != kind:
        raise StorageError(
            f"{path} is {_KINDS.get(found, 'a device')}, but cuggino needs {_KINDS[kind]} there.",
            advice="Delete it or move it away. cuggino makes a new one.",
        )
    return True


@contextmanager
def open_below(root: Path, *names: str) -> Iterator[int]:
    """Open the directory `root/name/name…` and yield its descriptor. Only `root` itself may be a link.

    Raise FileNotFoundError if it does not exist, and StorageError if a name is anything else than a directory.
    """
    here = root
    descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for name in names:
            here /= name
            try:
                inner = os.open(name, _DIRECTORY, dir_fd=descriptor)
            except OSError as error:
                if error.errno in (errno.ELOOP, errno.ENOTDIR):
                    expect_directory(here)
                raise
            os.close(descriptor)
            descriptor = inner
        yield descriptor
    finally:
        os.close(descriptor)


def remove(directory: int, name: str) -> None:
    """Delete `name` in an open directory, whatever it is, with everything below it. Raise OSError.

    Follows no link, and stays on the file system of `directory`: at a mount it raises, with EXDEV. However deep a tree
    is, it is as quick: directories are first moved up, next to each other.
    """
    status = os.stat(name, dir_fd=directory, follow_symlinks=False)
    if not stat.S_ISDIR(status.st_mode):
        os.unlink(name, dir_fd=directory)
        return
    device = os.fstat(directory).st_dev
    top = _open_on(device, name, directory)
    try:
        while inner := _empty_but_directories(top):
            for each in inner:
                folder = _open_on(device, each, top)
                try:
                    for deeper in _empty_but_directories(folder):
                        os.rename(deeper, str(uuid7()), src_dir_fd=folder, dst_dir_fd=top)
                finally:
                    os.close(folder)
                os.rmdir(each, dir_fd=top)
    finally:
        os.close(top)
    os.rmdir(name, dir_fd=directory)


def _open_on(device: int, name: str, directory: int) -> int:
    """Open a directory in a directory, if it is on this device. Raise OSError."""
    descriptor = os.open(name, _DIRECTORY, dir_fd=directory)
    if os.fstat(descriptor).st_dev != device:
        os.close(descriptor)
        raise OSError(errno.EXDEV, "it is on another file system", name)
    return descriptor


def _empty_but_directories(directory: int) -> list[str]:
    """Unlink all that is not a directory and return the names of the directories."""
    inner = []
    with os.scandir(directory) as entries:
        for entry in list(entries):
            if entry.is_dir(follow_symlinks=False):
                inner.append(entry.name)
            else:
                os.unlink(entry.name, dir_fd=directory)
    return inner


def _write_all(descriptor: int, data: bytes | str) -> None:
    """A full disk takes only a part at first. Lone surrogates, which no file can hold, are written as escapes."""
    rest = memoryview(data.encode("utf-8", "backslashreplace") if isinstance(data, str) else data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]
