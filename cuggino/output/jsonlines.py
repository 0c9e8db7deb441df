"""Events as lines of JSON: the log and `--json` get the same bytes.

One process appends to a log. A full disk or a missing directory never ends a run: `LogFile.append` returns the error.
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
    """Encode each line as JSON, without PingEvents. Never fails, whatever an event contains."""
    kept = [line for line in lines if type(line.event) is not PingEvent]
    try:
        return encoder.encode_lines(kept)
    except (ValueError, TypeError, OverflowError, RecursionError):  # a lone surrogate is a ValueError
        return b"".join(encoder.encode_lines([_encodable(line)]) for line in kept)


def _encodable(line: LogLine) -> LogLine:
    """Return `line` with lone surrogates escaped, or a line that names the event that could not be encoded."""
    try:
        return msgspec.convert(_escaped(msgspec.to_builtins(line)), LogLine)
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        text = f"{type(line.event).__name__} could not be written as JSON: {error}"
        return msgspec.structs.replace(line, event=SystemMessage(text=_escaped(text)))


def _escaped(value: Any) -> Any:
    match value:
        case str():
            return value.encode("utf-8", "backslashreplace").decode()
        case list():
            return [_escaped(item) for item in value]
        case dict():
            return {_escaped(key): _escaped(item) for key, item in value.items()}
        case _:
            return value


class LogFile:
    """An append-only file of whole lines with mode 0600, created with the first line."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd: int | None = None
        self._size = 0

    def append(self, data: bytes) -> OSError | None:
        """Append `data` in one write, or return the error: then the file is unchanged and a later call may succeed."""
        try:
            if self._fd is None:
                self._fd = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
                self._size = os.fstat(self._fd).st_size
            written = 0
            try:
                while written < len(data):
                    written += os.write(self._fd, data[written:] if written else data)
            except OSError:
                # A partial line would also corrupt the line after it.
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
