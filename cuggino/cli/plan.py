"""`cuggino plan`: plan with an agent."""

from __future__ import annotations

from cuggino import planning
from cuggino.trust import find_project


async def plan() -> int:
    """Discuss with an agent what to build: it writes specs and backlog items, never code.

    Starts the agent of `.cuggino.json` in this terminal, as a project manager. It first goes through spec issues and
    findings with you. A watch may run meanwhile. The exit code is the agent's.

    Example: cuggino plan
    """
    return await planning.plan(find_project())
