"""Playing the recorded output of a real agent."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import msgspec

from cuggino.agents.scripted.lines import LinePrinter
from cuggino.agents.scripted.script import ScriptError
from cuggino.agents.scripted.signals import SignalHandler
from cuggino.agents.scripted.steps import ReplayStep


class _RecordedLine(msgspec.Struct):
    """The fields of a recorded line that matter here."""

    type: str = ""
    is_error: bool = False
    timestamp: datetime | None = None


def replay(step: ReplayStep, cwd: Path, lines: LinePrinter, signals: SignalHandler) -> int:
    """Print the recording's lines as they are; return the step's exit code, or else the one that the lines imply.

    That is 0 after a result that is not an error, otherwise 1. Raise ScriptError if the file cannot be read.
    """
    try:
        recorded = (cwd / step.file).read_bytes().split(b"\n")
    except OSError as error:
        raise ScriptError(f"the recording cannot be played: {error}") from error
    decoder = msgspec.json.Decoder(_RecordedLine)
    status = 1
    before: datetime | None = None
    for raw in filter(None, recorded):
        try:
            line = decoder.decode(raw)
        except msgspec.DecodeError:
            line = _RecordedLine()
        if step.timing and line.timestamp is not None:
            if before is not None:
                signals.sleep(max((line.timestamp - before).total_seconds(), 0.0))
            before = line.timestamp
        with signals.interruptible():
            pass
        lines.raw(raw)
        if line.type == "result":
            status = int(line.is_error)
    return status if step.code is None else step.code
