"""Names in the configuration → agents. A backend's module is imported only when its agent is used."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

import msgspec

from cuggino.agents.agent import Agent, Backend
from cuggino.agents.headless import HeadlessAgent
from cuggino.agents.prerequisites import Prerequisite
from cuggino.config import BackendName
from cuggino.process.children import Children


class AgentProgram(msgspec.Struct, frozen=True, kw_only=True):
    """What is known about an agent's program without starting it."""

    program: str
    path: str | None
    """Where it is; None if it is not in PATH."""
    install_advice: str
    version_arguments: tuple[str, ...] = ()
    """With these it prints its version and exits within a second, leaving no trace; empty if there are none."""
    prerequisites: tuple[Prerequisite, ...] = ()
    """What an agent that is started in the inspected directory would find; empty without the program."""


def make_agent(name: BackendName, children: Children) -> Agent:
    """Return the agent of this name. Its processes are started and cleaned up by `children`."""
    return HeadlessAgent(backend(name), children)


def inspect_program(name: BackendName, environment: Mapping[str, str], root: Path) -> AgentProgram:
    """Look at an agent's program and at its login, as they would be in `root` with this environment.

    Only files and the environment are read.
    """
    chosen = backend(name)
    path = shutil.which(chosen.program, path=environment.get("PATH"))
    return AgentProgram(
        program=chosen.program,
        path=path,
        install_advice=chosen.install_advice,
        version_arguments=chosen.version_arguments,
        prerequisites=() if path is None else tuple(chosen.prerequisites(environment, root)),
    )


def backend(name: BackendName) -> Backend:
    """Return the backend of this name."""
    match name:
        case "claude":
            from cuggino.agents.claude import ClaudeBackend

            return ClaudeBackend()
        case "codex":
            from cuggino.agents.codex import CodexBackend

            return CodexBackend()
        case "gemini":
            from cuggino.agents.gemini import GeminiBackend

            return GeminiBackend()
        case "opencode":
            from cuggino.agents.opencode import OpencodeBackend

            return OpencodeBackend()
        case "scripted":
            from cuggino.agents.scripted.backend import ScriptedBackend

            return ScriptedBackend()
