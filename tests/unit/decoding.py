"""A run of a backend's program, decoded: from recordings of the real program, or from lines that a test makes up."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cuggino.agents.agent import MESSAGE_END, AgentOptions, AgentResult, Backend, Decoded, SignOfLife, Text
from cuggino.errors import LlmSessionError
from cuggino.events import SystemMessage, ToolCall, ToolResult
from cuggino.roles import Role

RECORDINGS = Path(__file__).parents[1] / "recordings"
OPTIONS = AgentOptions(role=Role.IMPLEMENTER, cwd=Path("/project"), prompt="go", output=Path("/project/out"))


class DecodedRun:
    """`reported` is everything except signs of life; `result` or `error` is how the run ended."""

    def __init__(
        self,
        backend: Backend,
        lines: Sequence[bytes],
        exit_status: int = 0,
        stderr: str = "",
        options: AgentOptions = OPTIONS,
    ) -> None:
        self.decoder = backend.decoder(options)
        self.decoded: list[Decoded] = []
        self.lost_after: int | None = None
        """The number of lines after which the decoder was certain that the run will fail."""
        for number, each in enumerate(lines, 1):
            self.decoded += self.decoder.feed(each)
            if self.decoder.failure is not None and self.lost_after is None:
                self.lost_after = number
        self.reported = [item for item in self.decoded if not isinstance(item, SignOfLife)]
        self.usage = self.decoder.usage
        self._result: AgentResult | None = None
        self._error: LlmSessionError | None = None
        try:
            self._result = self.decoder.finish(exit_status, stderr)
        except LlmSessionError as error:
            self._error = error

    @property
    def result(self) -> AgentResult:
        assert self._result is not None, self._error
        return self._result

    @property
    def error(self) -> LlmSessionError:
        assert self._error is not None, self._result
        return self._error

    @property
    def messages(self) -> list[str]:
        """The agent's own text, joined up to each end of a message."""
        messages = [""]
        for item in self.reported:
            if isinstance(item, Text):
                messages[-1] += item.text
            elif item == MESSAGE_END:
                messages.append("")
        return [message for message in messages if message]

    @property
    def system(self) -> list[str]:
        return [item.text for item in self.reported if isinstance(item, SystemMessage)]

    @property
    def calls(self) -> list[ToolCall]:
        return [item for item in self.reported if isinstance(item, ToolCall)]

    @property
    def results(self) -> list[ToolResult]:
        return [item for item in self.reported if isinstance(item, ToolResult)]


def recorded(program: str, name: str) -> tuple[list[bytes], int, str]:
    """Return a recording's lines, exit status and stderr."""
    meta = json.loads((RECORDINGS / program / f"{name}.meta.json").read_bytes())
    return (RECORDINGS / program / f"{name}.jsonl").read_bytes().split(b"\n"), meta["rc"], meta["stderr"]


def encode(**fields: Any) -> bytes:
    """Return a line of JSON."""
    return json.dumps(fields, separators=(",", ":")).encode()
