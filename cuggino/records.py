"""Stored records: one struct as JSON in one file, which cuggino alone writes.

Decoding is strict, writing is atomic. Listing leaves out what cannot be read, so that one damaged file does not hide
the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from cuggino.errors import NotFound, StorageError
from cuggino.files import DECODE_ERRORS, write_atomic
from cuggino.output.text import visible_name

T = TypeVar("T")


def load(path: Path, struct: type[T]) -> T:
    """Return the record in the file. StorageError if it is missing, unreadable or not a `struct`."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=struct, dec_hook=_decode_path)
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error.strerror}.") from error
    except DECODE_ERRORS as error:
        raise StorageError(f"{path} is damaged: {error}.", advice="Fix it, or delete it.") from error


def load_all(paths: Iterable[Path], struct: type[T]) -> list[T]:
    """Return the records in those of the files that can be read, sorted by path: by age, if paths have a UUIDv7."""
    found = []
    for path in sorted(paths):
        try:
            found.append(load(path, struct))
        except StorageError:
            continue
    return found


def save(path: Path, record: msgspec.Struct) -> None:
    """Write the record, all or nothing. StorageError if that fails, or if a path in it is not valid UTF-8."""
    try:
        data = msgspec.json.encode(record, enc_hook=_encode_path)
    except UnicodeEncodeError as error:
        raise StorageError(f"{path} cannot be written: it would hold a path that is not valid UTF-8.") from error
    write_atomic(path, msgspec.json.format(data))


def find(prefix: str, records: Mapping[str, T], kind: str, *, list_command: str) -> T:
    """Return the record whose ID is, or starts with, `prefix`. NotFound if none does, or more than one.

    `kind` is what messages call a record; `list_command` prints all of them.
    """
    if prefix in records:
        return records[prefix]
    matches = [id for id in records if prefix and id.startswith(prefix)]  # noqa: A001 - it is the id
    if len(matches) == 1:
        return records[matches[0]]
    if matches:
        shown = [f"  {visible_name(name)}" for name in matches[:10]]
        if len(matches) > 10:
            shown.append(f"  and {len(matches) - 10} more")
        raise NotFound(f"More than one {kind} matches {prefix!r}. Type more of it:", advice="\n".join(shown))
    raise NotFound(f"No {kind} matches {prefix!r}.", advice=f"Run `{list_command}` to list {kind}s.")


def _encode_path(value: Any) -> str:
    if isinstance(value, Path):
        return str(value)
    raise NotImplementedError(f"{type(value)} in a record")


def _decode_path(kind: type, value: Any) -> Any:
    if issubclass(kind, Path):
        return kind(value)
    raise NotImplementedError(f"{kind} in a record")
