"""How a backend starts its program: the options that the tests change."""

from __future__ import annotations

from pathlib import Path

import msgspec

from cuggino.agents.agent import AgentOptions
from cuggino.roles import Role

OPTIONS = AgentOptions(
    role=Role.IMPLEMENTER,
    cwd=Path("/project"),
    prompt="Do the task.",
    output=Path("/project/out"),
    skip_permissions=True,
    environment={},
)


def changed(**changes: object) -> AgentOptions:
    return msgspec.structs.replace(OPTIONS, **changes)


def flag(argv: tuple[str, ...], name: str) -> str:
    """Return the argument after a flag."""
    return argv[argv.index(name) + 1]
