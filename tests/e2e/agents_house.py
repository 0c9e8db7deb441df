"""`cuggino run` and `watch` with any agents' real programs, against models that play each role's script.

    with agents_house(tmp_path, "codex", agents={"reviewer": "gemini"}, scripts={"planner": …}) as house:
        finished = await house.run("run", "--focus", "the work", "--json")
        assert house.asked == [("planner", "codex"), ("implementer", "codex"), ("reviewer", "gemini")]

A role without a script plays well, and so does the scripted agent, which has none of the scripts. A script may also be
a function of the request. In what tools are given, `{plan}`, `{review}`, `{project}` and `{canary}` stand for what they
mean in `tests.e2e.house`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Set
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from cuggino.config import BackendName
from tests.e2e.leftovers import left
from tests.e2e.messages import Block, Say, Script, Use
from tests.e2e.programs import programs_folder
from tests.e2e.provider import Asked, Asker
from tests.e2e.providers import PROVIDERS, limit_retries
from tests.process.house import House


def shell(command: str) -> Use:
    return Use("shell", {"command": command})


def write(path: str, content: str) -> Use:
    return Use("write", {"path": path, "content": content})


PLAN: Script = [
    [Say("I plan."), write("{plan}", "# Plan\n1. The task.\n")],
    [Say("<PLAN_COMPLETE>1</PLAN_COMPLETE>")],
]
DONE: Script = [[shell("echo done >> work.txt")], [Say("<DONE>The work</DONE>")]]
APPROVE: Script = [[shell("cat work.txt")], [Say("<APPROVED>good</APPROVED>")]]
NOTHING: Script = [[Say("There is nothing to raise.")]]

_GOOD: Mapping[str, Script] = {"planner": PLAN, "implementer": DONE, "reviewer": APPROVE, "auditor": NOTHING}
_PATHS = {
    "{plan}": re.compile(r"Write the plan to: (.+)"),
    "{review}": re.compile(r"(?:write the review to|read it first): (.+)"),
    "{project}": re.compile(r"- Specs: (.+)/\.specs"),
}


class AgentsHouse(House):
    """Made by `agents_house`."""

    def __init__(
        self, folder: Path, names: Set[BackendName], scripts: Mapping[str, Script | Asker], config: Mapping[str, Any]
    ) -> None:
        self.asked: list[tuple[str, str]] = []
        """Which role asked which program's model, each once, in order."""
        self._folder = folder
        self._names = names
        self._scripts = {**_GOOD, **scripts}
        self._models: dict[str, str] = {}
        super().__init__(folder, **config)

    @contextmanager
    def serving(self) -> Iterator[None]:
        programs = programs_folder(self._folder / "bin", *self._names)
        with ExitStack() as stack:
            for name in self._names:
                served = stack.enter_context(PROVIDERS[name].serve(self._asker(name)))
                self._models |= PROVIDERS[name].environment(self.home, served.url)
            self._models["PATH"] = os.pathsep.join((str(programs), os.environ["PATH"]))
            yield

    def limit_retries(self) -> None:
        """Make the programs give up soon instead of retrying for minutes."""
        for name in self._names:
            self._models |= limit_retries(name, self.home)

    @property
    def environment(self) -> dict[str, str]:
        return {**super().environment, **self._models}

    @property
    def commits(self) -> list[str]:
        """The commit messages, oldest first, without the first one."""
        return self.git("log", "--reverse", "--format=%B%x00").replace("\0\n", "\0").split("\0")[1:-1]

    def left(self) -> list[str]:
        """Also those without the canary that work in the house's folders or have one of its files open: keepers."""
        return left(self.canary, self._folder)

    def _asker(self, name: str) -> Asker:
        def ask(asked: Asked) -> Script:
            [role] = [role for role in _GOOD if f"# Your role: {role}" in asked.text]
            if (role, name) not in self.asked:
                self.asked.append((role, name))
            given = self._scripts[role]
            script = given(asked) if callable(given) else given
            found = {words: match[1] for words, where in _PATHS.items() if (match := where.search(asked.text))}
            names = {**found, "{canary}": self.canary}
            return [[_filled(block, names) for block in turn] for turn in script]

        return ask


@contextmanager
def agents_house(
    folder: Path,
    agent: BackendName,
    *,
    scripts: Mapping[str, Script | Asker] | None = None,
    agents: Mapping[str, BackendName] | None = None,
    **config: Any,
) -> Iterator[AgentsHouse]:
    """A project in which `agent` plays the roles that `agents` gives to no other, and their models."""
    names = {agent, *(agents or {}).values()} - {"scripted"}
    house = AgentsHouse(folder, names, scripts or {}, {"agent": agent, "agents": agents or {}, **config})
    with house.serving():
        yield house


def _filled(block: Block, names: Mapping[str, str]) -> Block:
    if not isinstance(block, Use):
        return block
    filled = {}
    for key, value in block.input.items():
        for name, meant in names.items():
            value = value.replace(name, meant)
        filled[key] = value
    return replace(block, input=filled)
