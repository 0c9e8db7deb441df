"""Running a backend's real program against its model: `Stage`, for the tests of one program and of all."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec

from cuggino.agents.agent import AgentOptions, AgentResult
from cuggino.agents.backends import make_agent
from cuggino.config import BackendName
from cuggino.errors import LlmSessionError
from cuggino.events import AgentMessage, Event, PingEvent, SystemMessage, ToolCall, ToolResult, UsageReport
from cuggino.process.children import Children
from cuggino.roles import Role
from tests.e2e.leftovers import left
from tests.e2e.messages import Script, Turn, Use
from tests.e2e.programs import programs_folder
from tests.e2e.provider import Asker, Served
from tests.e2e.providers import PROVIDERS, limit_retries


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """A backend. `unseen` are behaviours that cannot be tested with it, each with the reason."""

    name: BackendName
    reports_a_failed_command: bool = True
    """Its protocol reports a failed command; otherwise only the model learns of it."""
    writes_elsewhere: bool = False
    """Its permissions do not prevent a read-only role from writing elsewhere."""
    unseen: Mapping[str, str] = {}


class Ran(msgspec.Struct):
    """A run of an agent: what was sent, and how it ended."""

    events: list[Event]
    result: AgentResult | None = None
    error: LlmSessionError | None = None

    @property
    def ended_well(self) -> AgentResult:
        assert self.result is not None, self.error
        return self.result

    @property
    def failure(self) -> LlmSessionError:
        assert self.error is not None, self.result
        return self.error

    @property
    def reported(self) -> list[Event]:
        """The agent's text and tools, pieces of a text joined, without signs of life, system messages and usage."""
        reported: list[Event] = []
        for event in self.events:
            if isinstance(event, PingEvent | SystemMessage | UsageReport):
                continue
            if isinstance(event, AgentMessage) and reported and isinstance(last := reported[-1], AgentMessage):
                reported[-1] = AgentMessage(text=last.text + event.text)
            else:
                reported.append(event)
        return reported

    @property
    def text(self) -> str:
        return "".join(event.text for event in self.reported if isinstance(event, AgentMessage)).strip()

    @property
    def calls(self) -> list[ToolCall]:
        return [event for event in self.events if isinstance(event, ToolCall)]

    @property
    def results(self) -> list[ToolResult]:
        return [event for event in self.events if isinstance(event, ToolResult)]


class Stage:
    """A project, a home and an agent that works there, all below `folder`."""

    def __init__(self, case: Case, folder: Path) -> None:
        self.case = case
        self.folder = folder
        self.canary = f"canary-{uuid4().hex}"
        self.project = folder / "project"
        self.home = folder / "home"
        for path in (self.project, self.home):
            path.mkdir()
        real = () if case.name == "scripted" else (case.name,)
        self.programs = programs_folder(folder / "bin", *real)
        self.agent = make_agent(case.name, Children(marker=uuid4().hex))
        self.sent: list[Event] = []
        """The events of the current run."""
        self._runs = 0

    @contextmanager
    def serving(self, script: Script | Asker) -> Iterator[Served]:
        with PROVIDERS[self.case.name].serve(script if callable(script) else lambda _: script) as served:
            yield served

    def environment(self, url: str, **more: str) -> dict[str, str]:
        whole = PROVIDERS[self.case.name].environment(self.home, url)
        path = os.pathsep.join((str(self.programs), whole["PATH"]))
        return {**whole, "PATH": path, "CANARY": self.canary, **more}

    async def run(
        self,
        url: str,
        *,
        environment: Mapping[str, str] | None = None,
        role: Role = Role.IMPLEMENTER,
        few_retries: bool = False,
        **options: Any,
    ) -> Ran:
        """One run, started like a loop does. `environment` changes the provider's own."""
        whole = self.environment(url, **(environment or {}))
        if few_retries:
            whole |= limit_retries(self.case.name, self.home)
        self._runs += 1
        options = {"prompt": "Begin.", "cwd": self.project, "skip_permissions": not role.read_only, **options}
        self.sent = []
        ran = Ran(self.sent)
        try:
            ran.result = await self.agent.spawn(
                AgentOptions(
                    role=role,
                    output=self.folder / f"{self._runs}.out",
                    environment=whole,
                    **options,
                ),
                self._take,
            )
        except LlmSessionError as error:
            ran.error = error
        return ran

    async def ask(self, *turns: Turn, **options: Any) -> tuple[Ran, list[Any]]:
        """One run with a script, and the requests that the program made."""
        with self.serving(turns) as served:
            return await self.run(served.url, **options), list(served.requests)

    async def _take(self, event: Event) -> None:
        self.sent.append(event)

    def left(self) -> list[str]:
        return left(self.canary, self.folder)


def shell(command: str) -> Use:
    return Use("shell", {"command": command})


def write(path: Path | str, content: str = "written\n") -> Use:
    return Use("write", {"path": str(path), "content": content})


def unreachable() -> str:
    """An address where nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"http://127.0.0.1:{server.getsockname()[1]}"
