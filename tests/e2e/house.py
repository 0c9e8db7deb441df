"""`cuggino run` and `watch` with the real claude, in a git project, against a model that plays each role's scripts.

    with claude_house(tmp_path, claude_path, planner=[…], reviewer=[…], commit=True) as house:
        finished = await house.run("run", "--focus", "the work", "--json")
        assert house.agents == ["planner", "implementer", "reviewer"]

A role's scripts are for its conversations, in the order in which they begin; the last one is for all that follow, and
a role without scripts plays well. In what tools are given, `{plan}`, `{session}`, `{review}`, `{check}`, `{project}`
and `{findings}` stand for paths that are taken from the agent's own prompt, as a model would, and `{canary}` for the
house's canary.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from cuggino.events import SystemMessage
from tests.e2e.loopback import Request, Route, Say, Script, Turn, Use, by_role, claude_environment, loopback
from tests.process.house import House


def bash(command: str, **more: Any) -> Use:
    return Use("Bash", {"command": command, **more})


def read(path: str) -> Use:
    return Use("Read", {"file_path": path})


def write(path: str, content: str) -> Use:
    return Use("Write", {"file_path": path, "content": content})


def issue(text: str = "unclear") -> Say:
    """The shortest end of a loop that any role can bring about."""
    return Say(f"<SPEC_ISSUE>{text}</SPEC_ISSUE>")


PLAN: Script = [[Say("<PLAN_COMPLETE>1. The task.</PLAN_COMPLETE>")]]
DONE: Script = [[bash("echo done >> work.txt")], [Say("<DONE>The work</DONE>")]]
APPROVE: Script = [[Say("<APPROVED>good</APPROVED>")]]
CHANGES: Script = [[Say("<REQUEST_CHANGES>not good</REQUEST_CHANGES>")]]
NOTHING: Script = [[Say("There is nothing to raise.")]]

_ROLES: Mapping[str, Script] = {"planner": PLAN, "implementer": DONE, "reviewer": APPROVE, "auditor": NOTHING}
_PATHS = {
    "{plan}": re.compile(r"Write the plan to: (.+)"),
    "{session}": re.compile(r"Session file \(plan and progress log\): (.+)"),
    "{review}": re.compile(r"(?:write the review to|read it first): (.+)"),
    "{check}": re.compile(r"its output: (.+)"),
    "{findings}": re.compile(r"already known: (.+)"),
    "{project}": re.compile(r"- Specs: (.+)/\.specs"),
}


class ClaudeHouse(House):
    """Made by `claude_house`. `add` is laid over the environment; an empty value takes a name out."""

    def __init__(
        self,
        folder: Path,
        claude_path: Path,
        roles: Mapping[str, Sequence[Script]],
        others: Mapping[str, Script],
        config: Mapping[str, Any],
    ) -> None:
        self._folder = folder
        self._claude_path = claude_path
        self.add: dict[str, str] = {}
        with_words = {_words(role): roles.get(role, [good]) for role, good in _ROLES.items()}
        self._route = by_role({**{words: [script] for words, script in others.items()}, **with_words})
        self._url = ""
        super().__init__(folder, **{"agent": "claude", **config})

    @contextmanager
    def serving(self) -> Iterator[None]:
        with loopback(_with_names(self._route, self.canary)) as self.server:
            self._url = self.server.url
            yield

    @property
    def environment(self) -> dict[str, str]:
        claude = claude_environment(self.home, self._url, path=str(self._claude_path))
        whole = {**super().environment, **claude, **self.add}
        return {name: value for name, value in whole.items() if value}

    def requests(self, role: str) -> list[Request]:
        """What agents of this role asked the model."""
        return [request for request in self.server.requests if _words(role) in request.system]

    @property
    def agents(self) -> list[str]:
        """The roles whose conversations have begun, in order."""
        begun: dict[tuple[str, str], str] = {}
        for request in self.server.requests:
            for role in _ROLES:
                if _words(role) in request.system:
                    begun.setdefault(request.conversation, role)
        return list(begun.values())

    @property
    def system_messages(self) -> list[str]:
        return [line.event.text for line in self.logged() if isinstance(line.event, SystemMessage)]

    @property
    def commits(self) -> list[str]:
        """What the commits say, oldest first, without the first one."""
        return self.git("log", "--reverse", "--format=%B%x00").replace("\0\n", "\0").split("\0")[1:-1]

    def left(self) -> list[str]:
        """Also those without the canary that work in the house's folders or have one of its files open: keepers."""
        inside = f"{self._folder}/"
        found = super().left()
        for process in Path("/proc").glob("[0-9]*"):
            try:
                if int(process.name) != os.getpid() and any(
                    f"{link.readlink()}/".startswith(inside) for link in (process / "cwd", *(process / "fd").iterdir())
                ):
                    found.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode())
            except OSError:
                continue
        return found


@contextmanager
def claude_house(
    folder: Path,
    claude_path: Path,
    *,
    planner: Sequence[Script] = (PLAN,),
    implementer: Sequence[Script] = (DONE,),
    reviewer: Sequence[Script] = (APPROVE,),
    auditor: Sequence[Script] = (NOTHING,),
    others: Mapping[str, Script] | None = None,
    **config: Any,
) -> Iterator[ClaudeHouse]:
    """A project and its model. `others` are scripts by words of a conversation's first prompt, for sub-agents."""
    roles = {"planner": planner, "implementer": implementer, "reviewer": reviewer, "auditor": auditor}
    house = ClaudeHouse(folder, claude_path, roles, others or {}, config)
    with house.serving():
        yield house


def _words(role: str) -> str:
    return f"# Your role: {role}"


def _with_names(route: Route, canary: str) -> Route:
    def filled(request: Request) -> Script:
        script = route(request)
        found = {name: match[1] for name, where in _PATHS.items() if (match := where.search(request.first_user))}
        return [_fill(turn, {**found, "{canary}": canary}) for turn in script]

    return filled


def _fill(turn: Turn, names: Mapping[str, str]) -> Turn:
    def fill(value: Any) -> Any:
        if isinstance(value, str):
            for name, meant in names.items():
                value = value.replace(name, meant)
        return value

    return [
        replace(block, input={key: fill(value) for key, value in block.input.items()})
        if isinstance(block, Use)
        else block
        for block in turn
    ]
