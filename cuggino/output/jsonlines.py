"""Events as lines of JSON: what the log holds and what `--json` prints, the very same bytes.

A log is appended by one process. It is worth less than the run that it tells of: a full disk or a
missing folder is reported by `LogFile.append`, and never ends anything.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from cuggino.events import LogLine, PingEvent, SystemMessage, encoder


def encode(lines: Sequence[LogLine]) -> bytes:
    """One line of JSON each, PingEvents left out. Never fails, whatever an event holds."""
    kept = [line for line in lines if type(line.event) is not PingEvent]
    try:
        return encoder.encode_lines(kept)
    except (ValueError, TypeError, OverflowError, RecursionError):  # a lone surrogate is a ValueError
        return b"".join(encoder.encode_lines([_encodable(line)]) for line in kept)


def _encodable(line: LogLine) -> LogLine:
    """The same line with lone surrogates spelled out, or one that says which event could not be written."""
    try:
        return msgspec.convert(_spelled_out(msgspec.to_builtins(line)), LogLine)
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        text = f"{type(line.event).__name__} could not be written as JSON: {error}"
        return msgspec.structs.replace(line, event=SystemMessage(text=_spelled_out(text)))


def _spelled_out(value: Any) -> Any:
    match value:
        case str():
            return value.encode("utf-8", "backslashreplace").decode()
        case list():
            return [_spelled_out(item) for item in value]
        case dict():
            return {_spelled_out(key): _spelled_out(item) for key, item in value.items()}
        case _:
            return value


class LogFile:
    """One append-only file of whole lines, 0600, made when the first line comes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd: int | None = None
        self._size = 0

    def append(self, data: bytes) -> OSError | None:
        """One write. Gives back what went wrong; then none of `data` is in the file, and the next try may do."""
        try:
            if self._fd is None:
                self._fd = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
                self._size = os.fstat(self._fd).st_size
            written = 0
            try:
                while written < len(data):
                    written += os.write(self._fd, data[written:] if written else data)
            except OSError:
                # A torn line in the middle of a log would spoil the line after it as well.
                with contextlib.suppress(OSError):
                    os.ftruncate(self._fd, self._size)
                raise
            self._size += written
        except OSError as error:
            return error
        return None

    def close(self) -> None:
        if self._fd is not None:
            fd, self._fd = self._fd, None
            os.close(fd)
