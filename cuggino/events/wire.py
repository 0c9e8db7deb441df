"""How events travel: to the hub as function calls, from there into the log and to `--json` as lines of JSON."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

import msgspec

from cuggino.events.agent import AgentEvent, Event, MarkerEvent
from cuggino.events.ci import CiStep
from cuggino.events.loop import LoopStep
from cuggino.events.spawn import SpawnStep
from cuggino.events.watch import WatchStep

LoopEvent: TypeAlias = AgentEvent | MarkerEvent | LoopStep
WatchEvent: TypeAlias = LoopEvent | WatchStep
PrintableEvent: TypeAlias = WatchEvent | SpawnStep | CiStep

Send: TypeAlias = Callable[[Event], Awaitable[None]]
"""Where a service sends its events. Waits while the receiver is behind; a checkpoint only then.

Services take a function, not a channel: their callers can look at each event and add its session without a second
channel, so that an event crosses one channel between the decoder and the hub.
"""


class LogLine(msgspec.Struct, frozen=True, kw_only=True):
    """A line of the log and of `--json`: `at` is UTC in milliseconds, `session` the ID of the session or null."""

    at: str
    session: str | None
    event: PrintableEvent


encoder = msgspec.json.Encoder()
decode_log_line: Callable[[bytes | str], LogLine] = msgspec.json.Decoder(LogLine).decode
