"""A loop's environment without processes: scripted agents, and commands and git that finish at once.

Everything waits on Trio's clock only, so tests on the virtual clock are exact.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import TypeAlias

import msgspec
import trio

from cuggino.agents.agent import AgentOptions, AgentResult
from cuggino.config import Config
from cuggino.errors import GitError
from cuggino.events import AgentMessage, Event, LlmTerminalMarkerEvent, LoopTerminalEvent, Send
from cuggino.loop.command import CommandResult
from cuggino.loop.context import LoopContext
from cuggino.loop.loop import run_loop
from cuggino.loop.session import Session
from cuggino.project import Project
from cuggino.roles import Role

START = datetime(2026, 1, 1, tzinfo=UTC)

Performance: TypeAlias = Callable[[AgentOptions, Send], Awaitable[AgentResult | None]]


def says(*events: Event, then: Exception | None = None, status: int = 0) -> Performance:
    """Send the events, then fail with `then` or exit."""

    async def perform(_options: AgentOptions, send: Send) -> AgentResult:
        for event in events:
            await send(event)
        if then is not None:
            raise then
        return AgentResult(exit_status=status)

    return perform


def plans(marker: LlmTerminalMarkerEvent, plan: str = "# Plan\n1. the task") -> Performance:
    """Write the plan to the planner's file, then send the marker."""

    async def perform(options: AgentOptions, send: Send) -> AgentResult:
        options.writable[0].write_text(plan)
        await send(marker)
        return AgentResult(exit_status=0)

    return perform


class Played(msgspec.Struct, kw_only=True):
    """One start of an agent, `at` a virtual time."""

    role: Role
    options: AgentOptions
    at: float
    stopped: bool = False


class Troupe:
    """All agents. Each start plays the role's next performance; the last one repeats."""

    name = "troupe"

    def __init__(self, **parts: Sequence[Performance]) -> None:
        self.parts = {Role(role): list(performances) for role, performances in parts.items()}
        self.played: list[Played] = []

    def __call__(self, _role: Role) -> Troupe:
        return self

    async def spawn(self, options: AgentOptions, send: Send) -> AgentResult:
        played = Played(role=options.role, options=options, at=trio.current_time())
        self.played.append(played)
        part = self.parts[options.role]
        performance = part.pop(0) if len(part) > 1 else part[0]
        try:
            result = await performance(options, send)
        except trio.Cancelled:
            played.stopped = True
            raise
        return result or AgentResult(exit_status=0)

    def own_name(self, conversation: str) -> str:
        return conversation

    lacks = ""
    login_environment: tuple[str, ...] = ()

    def delete_conversation(self, conversation: str, *, cwd: Path, environment: Mapping[str, str]) -> None:
        """It remembers none."""

    async def interactive(self, options: AgentOptions) -> int:
        raise NotImplementedError

    @property
    def roles(self) -> list[Role]:
        return [played.role for played in self.played]


class StillRepository:
    """A git whose tree changes with each implementer, or when a test changes `tree`; commits are numbered."""

    def __init__(self, troupe: Troupe) -> None:
        self.tree = 0
        self.implementers_work = True
        self._troupe = troupe
        self.commits: list[str] = []
        self.fails: str | None = None

    async def head(self) -> str | None:
        return f"c{len(self.commits)}"

    async def is_dirty(self, exclude: Sequence[Path]) -> bool:  # noqa: ARG002
        return False

    async def commit(self, message: str, *, exclude: Sequence[Path]) -> str | None:  # noqa: ARG002
        if self.fails is not None:
            raise GitError(self.fails)
        self.commits.append(message)
        return f"c{len(self.commits)}"

    async def tree_fingerprint(self, exclude: Sequence[Path]) -> str:  # noqa: ARG002
        return f"{self.tree}.{self._troupe.roles.count(Role.IMPLEMENTER) if self.implementers_work else 0}"


class PromptCommands:
    """Commands that finish at once and record the order in which they ran."""

    def __init__(self, exit_code: int = 0) -> None:
        self.run_commands: list[str] = []
        self.seconds = 0.0
        """How long each command runs."""
        self.exit_code = exit_code
        self.left_running = 0

    async def run(self, command: str, output: Path, *, timeout: float | None) -> CommandResult:  # noqa: ARG002
        self.run_commands.append(command)
        if self.seconds:
            await trio.sleep(self.seconds)
        output.write_text(f"output of {command}")
        return CommandResult(output=f"output of {command}", exit_code=self.exit_code)

    async def set_up(
        self,
        command: str,
        output: Path,
        *,
        timeout: float | None,
        nursery: trio.Nursery,
    ) -> CommandResult:
        async def daemon() -> None:
            self.left_running += 1
            try:
                await trio.sleep_forever()
            finally:
                self.left_running -= 1

        nursery.start_soon(daemon)
        return await self.run(command, output, timeout=timeout)


class Stage:
    """Everything that a loop needs. `events` are those sent, `times` their virtual times."""

    def __init__(self, root: Path, troupe: Troupe, config: Config | None = None) -> None:
        self.project = Project.find(root)
        self.project.prepare()
        self.troupe = troupe
        self.git = StillRepository(troupe)
        self.commands = PromptCommands()
        self.events: list[Event] = []
        self.times: list[float] = []
        self.session: Session
        self.context = LoopContext(
            project=self.project,
            config=config or Config(),
            agent=troupe,
            commands=self.commands,
            git=self.git,
            now=lambda: START + timedelta(seconds=trio.current_time()),
            random=Random(7),
        )

    async def run(self, session: Session | None = None, send: Send | None = None) -> LoopTerminalEvent:
        """Run this session, or else a new one, which is then `session`."""
        self.session = session or Session.create(self.project, "the focus")
        return await run_loop(self.context, self.session, send or self.send)

    async def send(self, event: Event) -> None:
        self.events.append(event)
        self.times.append(trio.current_time())

    @property
    def names(self) -> list[str]:
        """The types of the events, without messages of agents."""
        return [type(event).__name__ for event in self.events if not isinstance(event, AgentMessage)]

    @property
    def wip(self) -> list[str]:
        return sorted(path.name for path in self.project.wip.iterdir())
