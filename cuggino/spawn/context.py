"""All that a spawn works with: the parts that wait for the world are ports, tests give others."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from random import Random
from typing import Literal, TypeAlias

import msgspec

from cuggino.agents.agent import Agent, Backend
from cuggino.config import Config
from cuggino.loop.command import Commands
from cuggino.manifest import Bounds
from cuggino.project import Project
from cuggino.sandbox.sandbox import Sandbox

Permission: TypeAlias = Literal["allow", "deny", "allow all", "stop"]

Ask: TypeAlias = Callable[[str], Awaitable[Permission]]
"""Asks the person about one thing that was denied."""


class SpawnContext(msgspec.Struct, frozen=True, kw_only=True):
    """What a spawn works with."""

    project: Project
    config: Config
    backend: Backend
    agent: Agent
    commands: Callable[[Sandbox, Mapping[str, str]], Commands]
    """Who runs shell commands in a sandbox, with this environment."""
    environment: Mapping[str, str]
    """cuggino's own, of which an agent's is built."""
    now: Callable[[], datetime]
    random: Random
    sleep: Callable[[float], Awaitable[None]]
    ask: Ask | None = None
    """None: there is no terminal."""

    @property
    def bounds(self) -> Bounds:
        return Bounds.of(self.config.spawn.never_allow, self.config.specs_path)
