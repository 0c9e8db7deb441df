"""Time as text: time stamps, and IDs that sort by the time at which they were made."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime

_last_value = 0
_last_second, _last_prefix = -1, ""


def uuid7() -> str:
    """Return a new UUIDv7, which sorts after all earlier ones of this process. For one thread only."""
    global _last_value
    milliseconds = time.time_ns() // 1_000_000
    value = milliseconds << 74 | int.from_bytes(os.urandom(10)) >> 6  # 48 bits of time, 74 random bits
    _last_value = value = max(value, _last_value + 1)
    value = value >> 74 << 80 | 0x7 << 76 | (value >> 62 & 0xFFF) << 64 | 0b10 << 62 | value & (1 << 62) - 1
    text = f"{value:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def time_of(uuid: str) -> datetime | None:
    """Return the UTC time at which a UUIDv7 was made, or None if it is not a UUIDv7."""
    digits = uuid.replace("-", "")
    try:
        return datetime.fromtimestamp(int(digits[:12], 16) / 1000, UTC) if digits[12:13] == "7" else None
    except (ValueError, OverflowError, OSError):
        return None


def timestamp(seconds: float | None = None) -> str:
    """Return a time stamp in UTC with milliseconds, `2026-11-21T21:52:44.962Z`.

    `seconds` counts from the epoch; None means now. Most of the text is formatted only once a second.
    """
    global _last_second, _last_prefix
    second, milliseconds = divmod(int((time.time() if seconds is None else seconds) * 1000), 1000)
    if second != _last_second:
        _last_second, _last_prefix = second, time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second))
    return f"{_last_prefix}.{milliseconds:03}Z"
