"""A clone with a pull request, the loopback GitHub, the real gh and git; `cuggino ci` as a person would start it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import trio

from cuggino.events import CiEvent
from tests.e2e.github_pull import PullRequest
from tests.e2e.github_server import GitHubServer, bare_origin, gh_environment, git, github_server
from tests.process.house import Finished, Running

PROGRAM = str(Path(__file__).with_name("quick_ci.py"))
SCALE = 0.002

Step = dict[str, Any]


def run(command: str) -> Step:
    return {"do": "run", "command": command}


def say(text: str) -> Step:
    return {"do": "say", "text": text}


def verdict(which: str, cause: str) -> dict[str, Any]:
    return {"steps": [{"do": "structured", "value": {"verdict": which, "cause": cause}}]}


class CiHouse:
    """The branch `change` has a file more than `main`; it is checked out, and the person has changes of their own."""

    def __init__(self, folder: Path, server: GitHubServer, gh: Path | None, config: Mapping[str, Any]) -> None:
        self.server = server
        self.root = folder / "project"
        self.home = folder / "home"
        self.seen = folder / "seen"
        """What agents have seen, where they can write it without being asked."""
        self.script = folder / "script.json"
        for each in (self.root, self.home, self.seen):
            each.mkdir()
        (self.root / "app.py").write_text("print(41)\n")
        (self.root / "answer.txt").write_text("41\n")
        (self.root / ".github" / "workflows").mkdir(parents=True)
        (self.root / ".github" / "workflows" / "ci.yml").write_text("on: pull_request\n")
        (self.root / ".gitignore").write_text(".cuggino/\n")
        (self.root / ".cuggino.json").write_text(json.dumps({"agent": "scripted", **config}))
        self.git("init", "--quiet", "--initial-branch", "main")
        for name, value in (("user.name", "tester"), ("user.email", "tester@localhost")):
            self.git("config", name, value)
        self.git("add", ".")
        self.git("commit", "-qm", "start")
        self.bare = bare_origin(folder / "origin.git", self.root)
        self.git("push", "-q", "origin", "main")
        self.git("switch", "-qc", "change")
        (self.root / "change.txt").write_text("a change\n")
        self.git("add", ".")
        self.git("commit", "-qm", "a change")
        self.git("push", "-qu", "origin", "change")
        (self.root / "app.py").write_text("print(41)  # the person is in the middle of something\n")
        (self.root / "untracked.txt").write_text("the person's\n")
        self.pull = PullRequest(server, self.bare, branch="change")
        self.environment = gh_environment(
            self.home,
            server,
            gh,
            CUGGINO_SCRIPT=str(self.script),
            SSH_AUTH_SOCK="/nowhere/agent",
            GITHUB_TOKEN="",
            NPM_TOKEN="npm-secret-value",
            TERM="xterm",
        )
        self.play()

    def play(self, *, triage: Sequence[Mapping[str, Any]] = (), worker: Sequence[Mapping[str, Any]] = ()) -> None:
        """Turns of the agents; `{seen}` is that folder. Then all is real, and nothing is to be changed."""
        last = {"times": 0, **verdict("real", "nobody knows")}
        idle = {"times": 0, "steps": [say("Nothing is to be changed.")]}
        script = json.dumps({"triage": [*triage, last], "worker": [*worker, idle]})
        self.script.write_text(script.replace("{seen}", str(self.seen)))

    def git(self, *arguments: str) -> str:
        return git(self.root, *arguments)

    def pushed(self, path: str) -> str:
        """What the branch on GitHub has in this file."""
        return git(self.bare, "cat-file", "blob", f"change:{path}")

    def commit_on(self, branch: str, path: str, text: str) -> str:
        """Somebody else pushes."""
        clone = self.home / f"clone-{len(list(self.home.iterdir()))}"
        git(self.home, "clone", "-q", "--branch", branch, str(self.bare), str(clone))
        (clone / path).parent.mkdir(parents=True, exist_ok=True)
        (clone / path).write_text(text)
        git(clone, "add", ".")
        git(clone, "-c", "user.name=other", "-c", "user.email=o@localhost", "commit", "-qm", f"change {path}")
        git(clone, "push", "-q", "origin", branch)
        return git(clone, "rev-parse", "HEAD")

    @property
    def persons_tree(self) -> tuple[str, ...]:
        """What git says about the person's own tree, index and branches."""
        asked = (("status", "--porcelain"), ("rev-parse", "HEAD"), ("stash", "list"), ("branch", "--list"))
        return tuple(self.git(*each) for each in asked)

    @property
    def state(self) -> Path:
        return self.root / "tmp" / "ci-watch-12.md"

    def arguments(self, *arguments: str) -> list[str]:
        return [sys.executable, "-P", PROGRAM, str(SCALE), "ci", *arguments]

    async def run(self, *arguments: str) -> Finished:
        done = await trio.run_process(
            self.arguments(*arguments),
            cwd=self.root,
            env=self.environment,
            capture_stdout=True,
            capture_stderr=True,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        return Finished(code=done.returncode, out=done.stdout.decode(), err=done.stderr.decode())

    async def watch(self, *arguments: str, within: float = 120) -> Finished:
        with trio.fail_after(within):
            return await self.run("watch", "--json", *arguments)

    @asynccontextmanager
    async def watching(self, *arguments: str) -> AsyncIterator[Running]:
        """A watch for the length of the block; killed at its end if it still runs."""
        process = await trio.lowlevel.open_process(
            self.arguments("watch", "--json", *arguments),
            cwd=self.root,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        async with trio.open_nursery() as nursery:
            running = Running(process)
            nursery.start_soon(running.read)
            try:
                yield running
            finally:
                if process.returncode is None:
                    process.kill()
                with trio.CancelScope(shield=True):
                    await process.wait()
                nursery.cancel_scope.cancel()


@contextmanager
def ci_house(folder: Path, gh: Path | None = None, **config: Any) -> Iterator[CiHouse]:
    with github_server() as server:
        yield CiHouse(folder, server, gh, config)


def told(finished: Finished) -> list[str]:
    """The names of the watch's own events."""
    return [type(event).__name__ for event in finished.events if isinstance(event, CiEvent)]
