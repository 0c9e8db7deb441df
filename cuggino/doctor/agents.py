"""The agents' programs: whether they are there, how old, and logged in, as far as that is known without a request."""

from __future__ import annotations

import shlex

from cuggino.agents.backends import AgentProgram, inspect_program
from cuggino.agents.prerequisites import Prerequisite
from cuggino.config import BackendName, Config
from cuggino.doctor.finding import Finding, failure, ok, warning
from cuggino.doctor.programs import ANSWER_TIMEOUT, Programs
from cuggino.roles import Role


def names(config: Config) -> list[BackendName]:
    """Return each agent that some role has, once."""
    return list(dict.fromkeys(config.backend(role) for role in Role))


async def agent(programs: Programs, name: BackendName) -> list[Finding]:
    """Examine one agent: its program and version, then what that program needs."""
    found = inspect_program(name, programs.environment, programs.root)
    if found.path is None:
        return [failure(name, f"the program `{found.program}` was not found in PATH", found.install_advice)]
    version = ok(name, found.path)
    if found.version_arguments:
        version = await _version(programs, name, found, found.path)
    return [version, *(_finding(name, each) for each in found.prerequisites)]


async def _version(programs: Programs, name: str, found: AgentProgram, path: str) -> Finding:
    command = shlex.join((found.program, *found.version_arguments))
    try:
        answer = await programs.ask(path, *found.version_arguments)
    except OSError as error:
        return failure(name, f"{path} cannot be run: {error.strerror}", found.install_advice)
    if answer is None:
        return warning(name, f"{path} did not print its version within {ANSWER_TIMEOUT:g} s", command)
    if answer.status != 0:
        return failure(name, f"`{command}` failed: {answer.message}", found.install_advice)
    return ok(name, f"{answer.out} ({path})")


def _finding(name: str, each: Prerequisite) -> Finding:
    what = f"{name} {each.name}"
    return ok(what, each.text) if each.met else failure(what, each.text, each.fix)
