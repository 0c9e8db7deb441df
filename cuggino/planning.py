"""`cuggino plan`: a person and an agent talk about what to build, in the person's own terminal.

It takes no lock: planning while a watch works through the backlog is the normal case. It writes no log and sends no
events: the agent keeps the conversation.
"""

from __future__ import annotations

import os
from pathlib import Path

from cuggino.agents import prompts
from cuggino.agents.agent import AgentOptions
from cuggino.agents.backends import make_agent
from cuggino.clock import uuid7
from cuggino.config import Config, load
from cuggino.errors import UsageError
from cuggino.inbox.folder import entries
from cuggino.process.children import Children
from cuggino.project import Project
from cuggino.roles import Role
from cuggino.signals import Shutdown, handle_signals
from cuggino.trust import refuse_tracked


async def plan(project: Project) -> int:
    """Run one conversation; return the agent's exit code, or 128 plus the number of the signal that ended it.

    Raise UsageError without a terminal, ConfigError, TrustError, and LlmSessionError if the agent cannot be started.
    Afterwards no process that the agent started is alive, and the terminal is as it was.
    """
    if not (os.isatty(0) and os.isatty(1)):
        raise UsageError(
            "`cuggino plan` is a conversation and needs a terminal: stdin and stdout must be one.",
            advice="Start it in a terminal. Elsewhere, use `cuggino backlog add` or `cuggino run`.",
        )
    config = load(project.config_file)
    await refuse_tracked(project)
    project.prepare()
    shutdown = Shutdown()
    children = Children(marker=uuid7().replace("-", ""), force_kill=shutdown.force_kill)
    agent = make_agent(config.agent, children)
    code = 1
    async with handle_signals(shutdown):
        with shutdown.interrupted:
            code = await agent.interactive(_options(project, config))
    return code if shutdown.signal is None else 128 + shutdown.signal


def _options(project: Project, config: Config) -> AgentOptions:
    specs = project.root / config.specs_path
    values = {
        "root": str(project.root),
        "specs": str(specs),
        "backlog": str(project.backlog),
        "issues": str(project.spec_issues),
        "findings": str(project.tbd),
        "pending": pending(project),
    }
    prompt = prompts.plan(values, writable=(specs, project.backlog))
    return AgentOptions(
        role=Role.PLANNER,
        cwd=project.root,
        system_prompt=prompt.standing,
        prompt=prompt.task,
        output=Path(os.devnull),
        model=config.model,
        writable=prompt.writable,
    )


def pending(project: Project) -> str:
    """Return the conversation's first message; empty if nothing waits for the person."""
    waiting = [
        _count(len(entries(project.spec_issues)), "spec issue", "spec issues"),
        _count(len(entries(project.tbd)), "finding", "findings"),
    ]
    counts = " and ".join(filter(None, waiting))
    return f"Waiting for me: {counts}. Let us go through them one by one." if counts else ""


def _count(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}" if number else ""
