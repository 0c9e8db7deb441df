"""A house for `cuggino spawn` with agents' real programs, against models that play a script for each role.

    with spawn_house(tmp_path, worker=[[[bash("make")], [Say("Done.")]]]) as house:
        finished = await house.spawn(*house.given(allowedCommands=["make"]))
        assert house.requests("worker")[-1].tool_results == ["…"]

Each conversation of a role plays the next script; the last script is repeated. In the input of tools, `{root}` is the
project, `{request}` the evaluator's file, `{conflicts}` the repairer's folder, `{specs}` the specs folder, and
`{canary}` the house's canary.

No traffic leaves this machine: all requests except those to loopback go to a proxy that does not exist.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import trio

from cuggino.config import BackendName
from tests.e2e.github_server import GitHubServer, Pulls, bare_origin, gh_environment, git
from tests.e2e.leftovers import left
from tests.e2e.loopback import Loopback, Request, Script, Use, by_role, claude_environment, loopback
from tests.e2e.messages import Block
from tests.e2e.programs import programs_folder
from tests.e2e.provider import Asked
from tests.e2e.providers import PROVIDERS
from tests.process.house import COMMAND
from tests.process.spawn_house import SpawnHouse

SHOWN_WITHIN = 60.0
"""Seconds until something must appear in a window."""

_REDRAWN_WITHIN = 0.6
"""Seconds in which everything that is redrawn regularly is redrawn."""

_NOWHERE = "http://127.0.0.1:9"
_ALONE = {
    **dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), _NOWHERE),
    **dict.fromkeys(("NO_PROXY", "no_proxy"), "127.0.0.1,localhost"),
}
_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-")
_PATHS = {
    "{request}": re.compile(r"in this file; read all of it: (.+)"),
    "{conflicts}": re.compile(r"three versions, are in the directory: (.+)"),
    "{specs}": re.compile(r"- Specs: (.+)"),
}


def bash(command: str, **more: Any) -> Use:
    return Use("Bash", {"command": command, **more})


def read(path: str) -> Use:
    return Use("Read", {"file_path": path})


def write(path: str, content: str) -> Use:
    return Use("Write", {"file_path": path, "content": content})


class RealHouse(SpawnHouse):
    """Made by `spawn_house`. `add` is merged into the environment; an empty value removes a variable."""

    server: Loopback
    """claude's model."""

    def __init__(self, folder: Path, agent: BackendName, config: Mapping[str, Any]) -> None:
        self.folder = folder
        self.temporary = folder / "temporary"
        self.temporary.mkdir()
        self.programs = programs_folder(folder / "bin", agent)
        self.add: dict[str, str] = {}
        super().__init__(folder, **{"agent": agent, **config})

    @property
    def environment(self) -> dict[str, str]:
        path = os.pathsep.join((str(self.programs), os.environ["PATH"]))
        whole = {**super().environment, **_ALONE, "TMPDIR": str(self.temporary), **self.add, "PATH": path}
        return {name: value for name, value in whole.items() if value}

    @contextmanager
    def serving(self, agent: BackendName, scripts: Mapping[str, Sequence[Script]]) -> Iterator[None]:
        if agent == "claude":
            route = by_role({_words(role): given for role, given in scripts.items()})
            with loopback(lambda request: self._filled(route(request), request.first_user)) as self.server:
                self.add |= claude_environment(self.home, self.server.url, CLAUDE_CODE_TMPDIR=str(self.home))
                yield
            return

        def ask(asked: Asked) -> Script:
            [role] = [role for role in scripts if _words(role) in asked.text]
            return self._filled(scripts[role][0], asked.text)

        with PROVIDERS[agent].serve(ask) as served:
            self.add |= PROVIDERS[agent].environment(self.home, served.url)
            yield

    def _filled(self, script: Script, prompt: str) -> Script:
        names = {name: match[1] for name, where in _PATHS.items() if (match := where.search(prompt))}
        names |= {"{root}": str(self.root), "{canary}": self.canary}
        return [[_filled(block, names) for block in turn] for turn in script]

    def requests(self, role: str) -> list[Request]:
        """Return the requests of this role's agents to claude's model."""
        return [request for request in self.server.requests if _words(role) in request.system]

    def left(self) -> list[str]:
        """Also keepers, which have no canary but use the house's folders or files."""
        return left(self.canary, self.folder)

    @property
    def remembered(self) -> list[Path]:
        """Return the files that claude stores about conversations: named after one, or below its projects."""
        claude = self.home / ".claude"
        named = (path for place in (claude, self.temporary) for path in place.rglob("*") if _ID.match(path.name))
        return [*named, *(path for path in (claude / "projects").rglob("*") if path.is_file())]

    def snapshot(self) -> dict[str, Any]:
        whole = super().snapshot()
        return {**whole, "refs": [line for line in whole["refs"] if "refs/remotes/origin/spawn/" not in line]}

    @asynccontextmanager
    async def window(self, *arguments: str) -> AsyncIterator[Window]:
        """Run `cuggino ARGUMENTS` in a terminal of its own while the block runs."""
        window = Window(self)
        await window.open(arguments)
        try:
            yield window
        finally:
            with trio.CancelScope(shield=True):
                await window.close()


class Window:
    """A terminal that a test reads and types into."""

    def __init__(self, house: RealHouse) -> None:
        self._house = house
        self._code = house.folder / "code"

    async def tmux(self, *arguments: str, check: bool = True) -> str:
        done = await trio.run_process(
            ["tmux", "-u", "-S", str(self._house.temporary / "tmux"), "-f", os.devnull, *arguments],
            cwd=self._house.root,
            env=self._house.environment,
            capture_stdout=True,
            capture_stderr=True,
            check=check,
        )
        return done.stdout.decode()

    async def open(self, arguments: Sequence[str]) -> None:
        command = shlex.join([sys.executable, *COMMAND, *arguments])
        shown = f"{command}; echo $? > {shlex.quote(str(self._code))}; exec cat"
        size = ("-x", "200", "-y", "50")
        server = await self.tmux("new-session", "-d", "-P", "-F", "#{pid}", *size, "sh", "-c", shown)
        self._server = os.pidfd_open(int(server))

    async def close(self) -> None:
        """Return when tmux's server has exited, which is a moment after it answers."""
        await self.tmux("kill-server", check=False)
        await trio.lowlevel.wait_readable(self._server)
        os.close(self._server)

    async def screen(self) -> str:
        """Return everything that was shown so far, without trailing blanks and empty lines."""
        text = await self.tmux("capture-pane", "-p", "-J", "-S", "-")
        return "\n".join(line.rstrip() for line in text.rstrip().split("\n"))

    async def until(self, words: str, *, last: bool = False) -> None:
        """Wait until this is shown; with `last`, as the last text, which stays so."""
        shown = ""
        with trio.move_on_after(SHOWN_WITHIN):
            while True:
                shown = await self.screen()
                if shown.endswith(words) if last else words in shown:
                    await trio.sleep(_REDRAWN_WITHIN if last else 0)
                    if not last or (shown := await self.screen()).endswith(words):
                        return
                await trio.sleep(0.05)
        raise AssertionError(f"The window was to show {words!r} and shows\n{shown}")

    async def answer(self, line: str) -> None:
        await self.tmux("send-keys", "-l", f"{line}\n")

    async def code(self) -> int:
        """Return the exit code, once it has ended."""
        with trio.fail_after(SHOWN_WITHIN):
            while not self._code.exists() or not self._code.read_text():  # noqa: ASYNC110 - another process's file
                await trio.sleep(0.05)
        return int(self._code.read_text())


@contextmanager
def spawn_house(
    folder: Path, agent: BackendName = "claude", config: Mapping[str, Any] | None = None, **roles: Sequence[Script]
) -> Iterator[RealHouse]:
    """Yield a project with its agent's model; `roles` are the scripts of `evaluator`, `worker` and `repairer`."""
    house = RealHouse(folder, agent, config or {})
    with house.serving(agent, roles):
        yield house


def on_github(house: RealHouse, server: GitHubServer) -> Pulls:
    """Give the house's project an origin on this GitHub server, which the real gh uses."""
    whole = gh_environment(house.home, server)
    (house.programs / "gh").symlink_to(house.home / "programs" / "gh")
    house.add |= {name: value for name, value in whole.items() if name.startswith(("GH_", "GIT_"))}
    pulls = Pulls(server, bare_origin(house.folder / "origin.git", house.root))
    git(house.root, "push", "--quiet", "origin", "main")
    git(house.root, "fetch", "--quiet", "origin")
    return pulls


def _words(role: str) -> str:
    return f"# Your role: {role}"


def _filled(block: Block, names: Mapping[str, str]) -> Block:
    if not isinstance(block, Use):
        return block
    filled = {}
    for key, value in block.input.items():
        if isinstance(value, str):
            for name, meant in names.items():
                value = value.replace(name, meant)
        filled[key] = value
    return replace(block, input=filled)
