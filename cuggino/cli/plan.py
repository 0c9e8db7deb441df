"""`cuggino plan`, and `cuggino` alone: plan together with an agent."""

from __future__ import annotations

from pathlib import Path

from cuggino import planning
from cuggino.project import Project


async def plan() -> int:
    """Talk with an agent about what to build: it writes specs and backlog items, never code.

    Starts the agent of `.cuggino.json` in this terminal, told to be a project manager. It goes through spec issues
    and findings with you first. A watch may be running meanwhile. The exit code is the agent's.

    Example: cuggino plan
    """
    return await planning.plan(Project.find(Path.cwd()))
