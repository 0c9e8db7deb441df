"""What a loop is given to work with."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime
from pathlib import Path
from random import Random
from typing import Protocol

import msgspec
import trio

from cuggino.agents.agent import Agent
from cuggino.config import Config
from cuggino.loop.command import Commands
from cuggino.project import Project
from cuggino.roles import Role


class Repository(Protocol):
    """The part of git that a loop needs."""

    async def head(self) -> str | None: ...
    async def is_dirty(self, exclude: list[Path]) -> bool: ...
    async def commit(self, message: str, *, exclude: list[Path]) -> str | None: ...
    async def tree_fingerprint(self, exclude: list[Path]) -> str: ...


class LoopContext(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a loop works with. Parts that touch the outside world are ports, which tests replace."""

    project: Project
    config: Config
    agent: Callable[[Role], Agent]
    commands: Commands
    git: Repository
    now: Callable[[], datetime]
    random: Random
    sleep: Callable[[float], Awaitable[None]] = trio.sleep
    """For waits that a person may want to end early. What it raises comes out of `run_loop`."""
