"""The ground on which each backend is held to the contract: its program, its model, and what cannot be asked of it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec

from cuggino.agents.agent import AgentOptions, AgentResult
from cuggino.agents.backends import backend
from cuggino.agents.headless import HeadlessAgent
from cuggino.config import BackendName
from cuggino.errors import LlmSessionError
from cuggino.events import AgentMessage, Event, PingEvent, SystemMessage, ToolCall, ToolResult, UsageReport
from cuggino.process.children import Children
from cuggino.roles import Role
from tests.e2e.leftovers import left
from tests.e2e.messages import Script
from tests.e2e.programs import programs_folder
from tests.e2e.provider import Asker, Served
from tests.e2e.providers import PROVIDERS, force_kill


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """A backend. `unseen` are behaviours that cannot be seen with it, each with the reason."""

    name: BackendName
    tells_a_failed_command: bool = True
    """A command's exit code is a part of its protocol, and not only of what the model reads."""
    writes_elsewhere: bool = False
    """Its permissions do not hold a read-only role back from writing where it may not."""
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
    def told(self) -> list[Event]:
        """What the agent said and did, the pieces of a text joined, without signs of life and figures."""
        told: list[Event] = []
        for event in self.events:
            if isinstance(event, PingEvent | SystemMessage | UsageReport):
                continue
            if isinstance(event, AgentMessage) and told and isinstance(last := told[-1], AgentMessage):
                told[-1] = AgentMessage(text=last.text + event.text)
            else:
                told.append(event)
        return told

    @property
    def text(self) -> str:
        return "".join(event.text for event in self.told if isinstance(event, AgentMessage)).strip()

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
        self.agent = HeadlessAgent(backend(case.name), Children(marker=uuid4().hex))
        self.sent: list[Event] = []
        """What the run that is going on has told."""
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
        hurried: bool = False,
        **options: Any,
    ) -> Ran:
        """One run, started as the loop starts it. `environment` is laid over the provider's own."""
        whole = self.environment(url, **(environment or {}))
        if hurried:
            whole |= force_kill(self.case.name, self.home)
        self._runs += 1
        options = {"prompt": "Begin.", "skip_permissions": not role.read_only, **options}
        self.sent = []
        ran = Ran(self.sent)
        try:
            ran.result = await self.agent.spawn(
                AgentOptions(
                    role=role,
                    cwd=self.project,
                    output=self.folder / f"{self._runs}.out",
                    environment=whole,
                    **options,
                ),
                self._take,
            )
        except LlmSessionError as error:
            ran.error = error
        return ran

    async def _take(self, event: Event) -> None:
        self.sent.append(event)

    def left(self) -> list[str]:
        return left(self.canary, self.folder)
