"""The agents' programs: whether they are there, how old, and logged in as far as they tell without a request."""

from __future__ import annotations

import shlex
import shutil

from cuggino.agents.agent import Backend
from cuggino.agents.backends import backend
from cuggino.agents.diagnosis import Diagnosed, Symptom
from cuggino.config import BackendName, Config
from cuggino.doctor.finding import Finding, failure, ok, warning
from cuggino.doctor.programs import ANSWER_TIMEOUT, Programs
from cuggino.roles import Role


def names(config: Config) -> list[BackendName]:
    """Each backend that some role has, once."""
    return list(dict.fromkeys(config.backend(role) for role in Role))


async def agent(programs: Programs, name: BackendName) -> list[Finding]:
    chosen = backend(name)
    path = shutil.which(chosen.program, path=programs.environment.get("PATH"))
    if path is None:
        return [failure(name, f"the program `{chosen.program}` was not found in PATH", chosen.install_advice)]
    if not isinstance(chosen, Diagnosed):
        return [ok(name, path)]
    program = ok(name, path)
    if chosen.version_arguments:
        program = await _program(programs, chosen, path, chosen.version_arguments)
    return [program, *(_told(name, it) for it in chosen.symptoms(programs.environment, programs.root))]


async def _program(programs: Programs, chosen: Backend, path: str, arguments: tuple[str, ...]) -> Finding:
    try:
        answer = await programs.ask(path, *arguments)
    except OSError as error:
        return failure(chosen.name, f"{path} cannot be run: {error.strerror}", chosen.install_advice)
    command = shlex.join((chosen.program, *arguments))
    if answer is None:
        return warning(chosen.name, f"{path} did not tell its version within {ANSWER_TIMEOUT:g} s", command)
    if answer.status != 0:
        return failure(chosen.name, f"`{command}` failed: {answer.message}", chosen.install_advice)
    return ok(chosen.name, f"{answer.out} ({path})")


def _told(name: str, symptom: Symptom) -> Finding:
    what = f"{name} {symptom.what}"
    return ok(what, symptom.text) if symptom.fit else failure(what, symptom.text, symptom.mend)
