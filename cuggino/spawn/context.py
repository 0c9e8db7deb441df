"""What a spawn works with. Time, chance and the person are ports, so that tests can replace them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime
from random import Random
from typing import Literal, TypeAlias

import msgspec

from cuggino.agents.agent import Agent
from cuggino.config import Config
from cuggino.project import Project
from cuggino.roles import Role
from cuggino.sandbox.confine import SandboxContext

Permission: TypeAlias = Literal["allow", "deny", "allow all", "stop"]

AskPermission: TypeAlias = Callable[[str], Awaitable[Permission]]
"""Asks the person one question about a denied permission."""


class SpawnContext(msgspec.Struct, frozen=True, kw_only=True):
    """What the phases of a spawn share."""

    sandboxes: SandboxContext
    now: Callable[[], datetime]
    random: Random
    sleep: Callable[[float], Awaitable[None]]
    ask: AskPermission | None = None
    """None without a terminal."""

    @property
    def project(self) -> Project:
        return self.sandboxes.project

    @property
    def config(self) -> Config:
        return self.sandboxes.config

    @property
    def agent(self) -> Agent:
        return self.sandboxes.agent(Role.WORKER)
