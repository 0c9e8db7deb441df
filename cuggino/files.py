"""Writing files so that neither a crash nor a full disk leaves them half written.

- `write_atomic` replaces a file: readers see the old content or all of the new content, never a mixture, and so does
  whoever reads after a crash or a power failure.
- `append` adds to a file in one write, so that appends of several processes do not mix.
- `sync_directory` makes renames and deletions in a directory survive a power failure.

Files are private (0600) unless a mode is given, and every failure is a StorageError that names the file. Everything
is synchronous: the files are small, and the virtual clock of tests must not jump meanwhile.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

import msgspec

from cuggino.clock import uuid7
from cuggino.errors import StorageError

DECODE_ERRORS = (msgspec.DecodeError, ValueError, RecursionError)
"""What decoding a damaged file raises. Invalid UTF-8 is a ValueError."""


def write_atomic(path: Path, data: bytes | str, *, mode: int = 0o600) -> None:
    """Replace the content of `path` by `data`, all or nothing, and set its mode. Raise StorageError on failure.

    Writes a temporary file (`.<uuid7>.tmp`) in the same directory first, and deletes it if anything fails. A symbolic
    link stays a link: the file that it points to is replaced.
    """
    try:
        target = Path(os.path.realpath(path)) if path.is_symlink() else path
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
    """Append `data` in one write; `mode` applies if the file is new. Raise StorageError on failure."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, mode)
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


def _write_all(descriptor: int, data: bytes | str) -> None:
    """A full disk takes only a part at first. Lone surrogates, which no file can hold, are written as escapes."""
    rest = memoryview(data.encode("utf-8", "backslashreplace") if isinstance(data, str) else data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]
