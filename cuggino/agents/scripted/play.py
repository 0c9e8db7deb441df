"""Playing the steps of a turn."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from cuggino.agents.scripted import failures, strays
from cuggino.agents.scripted.lines import LinePrinter
from cuggino.agents.scripted.recording import replay
from cuggino.agents.scripted.signals import SignalHandler
from cuggino.agents.scripted.steps import (
    AnyStep,
    AppendStep,
    BigStep,
    ChainStep,
    DieStep,
    ExitStep,
    FailStep,
    HangStep,
    IgnoreSignalsStep,
    LeaveStep,
    MarkerStep,
    OnInterruptStep,
    QuoteStep,
    RawStep,
    ReadStep,
    ReplayStep,
    ResultStep,
    RetryStep,
    RunStep,
    SayStep,
    StderrStep,
    StructuredStep,
    SubagentStep,
    ThinkStep,
    ToolStep,
    UsageStep,
    WriteStep,
)

REJECTED = "The user doesn't want to proceed with this tool use. The tool use was rejected. STOP what you are doing."
"""claude's result of a tool that was interrupted."""

_BEFORE_INIT = (
    *(RawStep, StderrStep, UsageStep, StructuredStep, ExitStep, DieStep),
    *(FailStep, IgnoreSignalsStep, OnInterruptStep, ReplayStep),
)
"""Steps without an init line before them: an agent can fail before it has printed anything."""


class _End(Exception):
    """A step ends the turn. This is not an error."""

    def __init__(self, status: int) -> None:
        self.status = status


class Player:
    """Plays one turn."""

    def __init__(self, lines: LinePrinter, signals: SignalHandler, *, cwd: Path, session_id: str) -> None:
        self._lines = lines
        self._signals = signals
        self._cwd = cwd
        self._session_id = session_id
        self._on_interrupt = OnInterruptStep()
        self._running: str | None = None

    def play(self, steps: Sequence[AnyStep]) -> int:
        """Play the steps; return the exit status. Raise Interrupted on SIGINT; the caller then calls `interrupted`."""
        try:
            for step in steps:
                with self._signals.interruptible():
                    pass
                if not isinstance(step, _BEFORE_INIT):
                    self._lines.begin()
                self._play(step)
        except _End as end:
            return end.status
        self._lines.result()
        return 0

    def interrupted(self) -> int:
        """Report the interruption like claude does; return the exit status."""
        how = self._on_interrupt
        self._signals.ignore(["INT"])
        time.sleep(how.after)
        if how.result:
            if self._running is not None:
                self._lines.tool_result(self._running, REJECTED, error=True)
                self._lines.user_text("[Request interrupted by user for tool use]")
            self._lines.result("error_during_execution", terminal_reason="aborted_tools", errors=["interrupted"])
        return how.code

    def _play(self, step: AnyStep) -> None:
        if not (self._play_message(step) or self._play_tool(step) or self._play_end(step)):
            self._misbehave(step)

    def _play_message(self, step: AnyStep) -> bool:
        lines = self._lines
        match step:
            case SayStep(text=text, deltas=deltas):
                lines.text([text] if isinstance(text, str) else text, deltas)
            case MarkerStep(name=name, text=text):
                lines.text([f"<{name}>{text}</{name}>"])
            case QuoteStep(name=name, text=text):
                lines.text([f"```\n<{name}>{text}</{name}>\n```"])
            case ThinkStep():
                self._think(step)
            case SubagentStep(text=text, description=description):
                lines.subagent(description, text)
            case BigStep(size=size):
                lines.exactly(size)
            case RawStep(line=line):
                lines.raw(line.encode())
            case StderrStep(text=text):
                _print_error(text)
            case _:
                return False
        return True

    def _play_tool(self, step: AnyStep) -> bool:
        match step:
            case WriteStep(path=path, text=text):
                self._write(path, _joined(text))
            case AppendStep(path=path, text=text):
                self._append(path, _joined(text))
            case ReadStep(path=path):
                self._read(path)
            case RunStep(command=command):
                self._run(command)
            case ToolStep():
                self._tool(step)
            case _:
                return False
        return True

    def _play_end(self, step: AnyStep) -> bool:
        lines = self._lines
        match step:
            case UsageStep():
                lines.add_usage(
                    step.cost,
                    input_tokens=step.input,
                    output_tokens=step.output,
                    cache_read_input_tokens=step.cache_read,
                    cache_creation_input_tokens=step.cache_creation,
                )
            case StructuredStep(value=value):
                lines.structured = value
            case ResultStep():
                lines.result()
            case ExitStep(code=code):
                raise _End(code)
            case DieStep():
                os.kill(os.getpid(), signal.Signals[f"SIG{step.signal}"])
            case RetryStep():
                for attempt in range(1, step.times + 1):
                    lines.api_retry(attempt, step.status, step.error, step.pause)
                    self._signals.sleep(step.pause)
            case FailStep():
                status, words = failures.fail(step, lines, self._session_id)
                _print_error(words)
                raise _End(status)
            case _:
                return False
        return True

    def _misbehave(self, step: AnyStep) -> None:
        match step:
            case HangStep():
                while True:
                    self._signals.sleep(3600)
            case IgnoreSignalsStep(signals=signals):
                self._signals.ignore(signals)
            case OnInterruptStep():
                self._on_interrupt = step
            case LeaveStep():
                strays.leave(step, self._cwd)
            case ChainStep():
                strays.chain(step, self._cwd)
            case ReplayStep():
                raise _End(replay(step, self._cwd, self._lines, self._signals))

    def _think(self, step: ThinkStep) -> None:
        if step.silent:
            self._signals.sleep(step.seconds)
            return
        end = time.monotonic() + step.seconds
        tokens = 0
        while (left := end - time.monotonic()) > 0:
            tokens += 1
            self._lines.thinking(tokens)
            self._signals.sleep(min(step.every, left))

    def _write(self, path: str, text: str) -> None:
        file = self._cwd / path
        call = self._lines.call("Write", {"file_path": str(file), "content": text})
        self._change(call, file, text, "w", f"File created successfully at: {file}")

    def _append(self, path: str, text: str) -> None:
        file = self._cwd / path
        call = self._lines.call("Edit", {"file_path": str(file), "old_string": "", "new_string": text})
        self._change(call, file, text, "a", f"The file {file} has been updated successfully.")

    def _change(self, call: str, file: Path, text: str, mode: str, success: str) -> None:
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            with file.open(mode, encoding="utf-8", newline="") as opened:
                opened.write(text)
        except OSError as error:
            self._lines.tool_result(call, str(error), error=True)
        else:
            self._lines.tool_result(call, success)

    def _read(self, path: str) -> None:
        file = self._cwd / path
        call = self._lines.call("Read", {"file_path": str(file)})
        try:
            text = file.read_text(encoding="utf-8", errors="replace")
        except OSError as error:
            self._lines.tool_result(call, str(error), error=True)
        else:
            numbered = (f"{number}\t{line}" for number, line in enumerate(text.split("\n"), 1))
            self._lines.tool_result(call, "\n".join(numbered))

    def _run(self, command: str) -> None:
        """Run a command and wait for the shell alone: processes that it leaves behind hold no pipe that is read."""
        self._running = self._lines.call("Bash", {"command": command, "description": "scripted command"})
        with tempfile.TemporaryFile() as output:
            shell = subprocess.Popen(
                ["/bin/sh", "-c", command],
                cwd=self._cwd,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            with self._signals.interruptible():
                status = shell.wait()
            output.seek(0)
            text = output.read().decode(errors="replace").rstrip("\n")
        if status:
            text = f"Exit code {status}\n{text}".rstrip("\n")
        self._lines.tool_result(self._running, text, error=status != 0)
        self._running = None

    def _tool(self, step: ToolStep) -> None:
        call = self._lines.call(step.name, step.input)
        if step.denied:
            self._lines.denials.append({"tool_name": step.name, "tool_use_id": call, "tool_input": step.input})
        self._lines.tool_result(call, step.output, error=step.error or step.denied)


def _joined(text: str | list[str]) -> str:
    return text if isinstance(text, str) else "".join(f"{line}\n" for line in text)


def _print_error(text: str) -> None:
    if text:
        print(text, file=sys.stderr, flush=True)
