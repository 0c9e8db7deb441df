"""Confine agents and commands in a sandbox: environment, permissions, secrets, launcher and checks in one place.

`watch --jobs`, `spawn` and `ci watch` use a `Confinement` to run anything in a sandbox, and nothing else.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias
from uuid import uuid4

import msgspec
import trio

from cuggino.agents.activity_timeout import ActivityLimits, ActivityTimeout
from cuggino.agents.agent import Agent, AgentOptions, AgentResult
from cuggino.agents.exit_report import delete_output
from cuggino.agents.prompts import Prompt
from cuggino.clock import uuid7
from cuggino.config import Config
from cuggino.errors import SandboxError
from cuggino.events import AgentMessage, Event, Send, SystemMessage
from cuggino.loop.command import CommandResult, ShellCommands
from cuggino.manifest import Bounds, Permits, SandboxManifest
from cuggino.process.children import Children
from cuggino.project import Project
from cuggino.roles import Role
from cuggino.sandbox.environment import build_environment, git_variables, launcher, login_values
from cuggino.sandbox.leaks import Leak, leaks
from cuggino.sandbox.sandbox import Sandbox
from cuggino.sandbox.secrets import Redaction, read_secrets, redacted_output, redacting

Check: TypeAlias = Callable[[Path], Awaitable[bool]]
"""Runs the check command for the tree in this directory, and returns whether it passed."""

_SHOWN = 500
"""How many characters of a failed setup command's output are reported, from its end."""


class SandboxContext(msgspec.Struct, frozen=True, kw_only=True):
    """What all sandboxes of one command share."""

    project: Project
    config: Config
    agent: Callable[[Role], Agent]
    children: Children
    environment: Mapping[str, str]
    """cuggino's own environment, from which those of agents are built."""
    model: str | None = None

    @property
    def bounds(self) -> Bounds:
        return Bounds.of(self.config.spawn.never_allow, self.config.specs_path)

    def secret_values(self) -> tuple[str, ...]:
        """Return every value to redact and to search for: all configured secrets, and the logins of all agents.

        That includes secrets that are not lent, since an agent may find them. Unreadable ones are left out.
        """
        allowed, found = self.config.spawn.secrets, dict[str, None]()
        for reference in allowed:
            with suppress(SandboxError):
                found |= dict.fromkeys(self.read_secrets([reference]).values())
        for agent in {agent.name: agent for agent in map(self.agent, Role)}.values():
            found |= dict.fromkeys(login_values(agent.login_environment, self.environment))
        return tuple(found)

    def read_secrets(self, references: tuple[str, ...] | list[str]) -> dict[str, str]:
        """Return the values of those references that `spawn.secrets` allows. Raises SandboxError."""
        return read_secrets(references, self.config.spawn.secrets, self.environment, self.project.root)


class AgentRun(msgspec.Struct, frozen=True):
    """How a run ended. `words` is the agent's last message, or, without a result, why it was stopped."""

    result: AgentResult | None
    words: str


async def confine(
    context: SandboxContext, sandbox: Sandbox, manifest: SandboxManifest, *, foreign: bool = False
) -> Confinement:
    """Return the confinement of a sandbox. Raises SandboxError if a secret of the manifest cannot be read."""
    return Confinement(context, sandbox, manifest, await git_variables(sandbox), foreign=foreign)


class Confinement:
    """Runs agents and commands in one sandbox. Made by `confine`.

    `foreign`: the branch is other people's, so its agent settings are ignored.
    """

    def __init__(
        self,
        context: SandboxContext,
        sandbox: Sandbox,
        manifest: SandboxManifest,
        git: Mapping[str, str],
        *,
        foreign: bool,
    ) -> None:
        self.context = context
        self.sandbox = sandbox
        self.manifest = manifest
        self.permits = Permits(manifest=manifest, bounds=context.bounds)
        self.launcher = launcher(context.config.spawn.launcher, sandbox)
        self.outputs = context.project.spawns / sandbox.id
        """The directory for the output of everything that runs in the sandbox; it is outside of it."""
        self.foreign = foreign
        self.conversations: set[tuple[Role, str]] = set()
        """The roles and the agents' own names of all conversations that were begun through `agent`."""
        self._git = git
        self._lent = context.read_secrets(manifest.secrets)
        self.secrets = tuple(dict.fromkeys((*context.secret_values(), *self._lent.values())))
        """Values that are redacted everywhere, and that no commit may contain."""
        self.redaction = Redaction(self.secrets)

    def with_manifest(self, manifest: SandboxManifest) -> Confinement:
        """Return a confinement of the same sandbox with other permissions."""
        return Confinement(self.context, self.sandbox, manifest, self._git, foreign=self.foreign)

    # ---- agents

    def agent(self, role: Role) -> Agent:
        """Return the agent of a role: behind the launcher, with a built environment, its events redacted."""
        return _ConfinedAgent(self.context.agent(role), self, self.environment(role))

    def environment(self, role: Role) -> dict[str, str]:
        """Return the whole environment of agents of this role."""
        login = self.context.agent(role).login_environment
        return build_environment(login, self.manifest, self._lent, self.context.environment, self._git)

    async def run(
        self,
        role: Role,
        prompt: Prompt,
        limits: ActivityLimits,
        send: Send,
        *,
        schema: Mapping[str, Any] | None = None,
    ) -> AgentRun:
        """Run an agent to its end or to its limits, in a conversation that is never resumed.

        Raise LlmSessionError if the agent fails. Cancelled, it leaves no process behind. Its output file and its
        conversation are deleted in every case.
        """
        agent = self.agent(role)
        activity = ActivityTimeout(limits, send)
        words = ""

        async def see(event: Event) -> None:
            nonlocal words
            if isinstance(event, AgentMessage):
                words = event.text
            await activity.pass_on(event)

        options = AgentOptions(
            role=role,
            cwd=self.sandbox.root,
            prompt=prompt.task,
            output=self.outputs / f".{role.value}.{uuid7()}.out",
            system_prompt=prompt.standing,
            session_id=str(uuid4()),
            model=self.context.model,
            schema=schema,
            budget_usd=self.context.config.limits.max_cost_usd,
            permits=self.permits,
        )
        activity.begin()
        try:
            with activity.scope:
                result = await agent.spawn(options, see)
                return AgentRun(result, self.redaction.text(result.final_text) or words)
        finally:
            delete_output(options.output)
            self.delete_conversation(role, str(options.session_id))
        return AgentRun(None, str(activity.verdict() or "it was stopped"))

    def delete_conversations(self) -> None:
        """Delete all conversations that were begun through `agent`."""
        while self.conversations:
            self.delete_conversation(*self.conversations.pop())

    def delete_conversation(self, role: Role, conversation: str) -> None:
        """Delete what an agent stored about a conversation that will not be resumed."""
        environment = self.environment(role)
        self.context.agent(role).delete_conversation(conversation, cwd=self.sandbox.root, environment=environment)

    # ---- commands

    @property
    def commands(self) -> ShellCommands:
        """Runs shell commands in the sandbox."""
        return ShellCommands(
            self.context.children,
            self.sandbox.root,
            launcher=self.launcher,
            environment=self.environment(Role.WORKER),
        )

    async def set_up(self, background: trio.Nursery, send: Send) -> None:
        """Run the setup command, if one is configured. Processes that it leaves running live as long as the nursery."""
        if (command := self.context.config.setup_command) is None:
            return
        result: CommandResult
        timeout = self.context.config.limits.command_timeout
        with redacted_output(self.outputs / ".setup.out", self.outputs / "setup.txt", self.redaction) as output:
            result = await self.commands.set_up(command, output, timeout=timeout, nursery=background)
        if result.exit_code != 0:
            end = self.redaction.text(result.output)[-_SHOWN:].strip()
            text = f"The setup command exited with {result.exit_code} in the sandbox"
            await send(SystemMessage(text=f"{text}: {end}" if end else f"{text}."))

    @cached_property
    def check(self) -> Check | None:
        """The check command in the sandbox; None if none is configured."""
        command = self.context.config.check_command
        if command is None:
            return None
        timeout = self.context.config.limits.command_timeout

        async def check(_root: Path) -> bool:
            with redacted_output(self.outputs / ".check.out", self.outputs / "check.txt", self.redaction) as output:
                result = await self.commands.run(command, output, timeout=timeout)
            return result.exit_code == 0

        return check

    # ---- secrets

    def redacting(self, send: Send) -> Send:
        """Wrap `send` so that no secret of this sandbox passes it."""
        return redacting(send, self.redaction)

    async def leaks(self, repository: Path, base: str, tip: str) -> list[Leak]:
        """Return where the commits of base..tip hold a secret."""
        return await leaks(repository, base, tip, self.secrets)


class _ConfinedAgent:
    """An agent that runs with a sandbox's launcher, environment and redaction."""

    def __init__(self, agent: Agent, confinement: Confinement, environment: Mapping[str, str]) -> None:
        self._agent = agent
        self._confinement = confinement
        self._environment = environment
        self.name = agent.name
        self.lacks = agent.lacks
        self.login_environment = agent.login_environment
        self.own_name = agent.own_name
        self.delete_conversation = agent.delete_conversation
        self.interactive = agent.interactive

    async def spawn(self, options: AgentOptions, send: Send) -> AgentResult:
        """See `Agent.spawn`."""
        options = msgspec.structs.replace(
            options,
            launcher=self._confinement.launcher,
            environment=self._environment,
            foreign=self._confinement.foreign,
        )
        try:
            return await self._agent.spawn(options, self._confinement.redacting(send))
        finally:
            if (name := options.session_id or options.resume_session_id) is not None:
                self._confinement.conversations.add((options.role, self._agent.own_name(name)))
