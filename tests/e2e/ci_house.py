"""A clone with a pull request, a GitHub on this machine, the real gh and git; `cuggino ci` as a person starts it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, TypeVar

import trio

from cuggino.events import CiEvent, CiWatchEnded
from tests.e2e.github_pull import PullRequest
from tests.e2e.github_server import GitHubServer, bare_origin, gh_environment, git, github_server
from tests.process.house import Finished, Running

PROGRAM = str(Path(__file__).with_name("quick_ci.py"))
SCALE = 0.002

Step = dict[str, Any]
T = TypeVar("T")


def run(command: str) -> Step:
    return {"do": "run", "command": command}


def say(text: str) -> Step:
    return {"do": "say", "text": text}


def verdict(which: str, cause: str) -> dict[str, Any]:
    return {"steps": [{"do": "structured", "value": {"verdict": which, "cause": cause}}]}


class CiHouse:
    """The branch `change` has one file more than `main`. It is checked out, and the person has changes of their own."""

    def __init__(self, folder: Path, server: GitHubServer, gh: Path | None, config: Mapping[str, Any]) -> None:
        self.server = server
        self.root = folder / "project"
        self.home = folder / "home"
        self.seen = folder / "seen"
        """Where agents write what they have seen."""
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
        """Play these turns of the agents, in which `{seen}` is that folder; then all is real and nothing to change."""
        last = {"times": 0, **verdict("real", "nobody knows")}
        idle = {"times": 0, "steps": [say("Nothing is to be changed.")]}
        script = json.dumps({"triage": [*triage, last], "worker": [*worker, idle]})
        self.script.write_text(script.replace("{seen}", str(self.seen)))

    def fixable(self, *steps: Step, times: int = 1) -> None:
        """Make the check `test` fail until a worker, which does `steps` first, has pushed `fixed.txt`."""
        self.pull.job("test", lambda it: "SUCCESS" if it.file("fixed.txt") else "FAILURE")
        self.play(worker=[{"times": times, "steps": [*steps, run("echo x > fixed.txt"), say("Fixed.")]}])

    def git(self, *arguments: str) -> str:
        return git(self.root, *arguments)

    def pushed(self, path: str) -> str:
        """Return this file's content in the branch on GitHub."""
        return git(self.bare, "cat-file", "blob", f"change:{path}")

    def commit_on(self, branch: str, path: str, text: str) -> str:
        """Push as somebody else; return the commit."""
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
        """What git reports about the person's own tree, index and branches."""
        commands = (("status", "--porcelain"), ("rev-parse", "HEAD"), ("stash", "list"), ("branch", "--list"))
        return tuple(self.git(*command) for command in commands)

    def assert_no_sandboxes(self) -> None:
        assert self.git("worktree", "list").count("\n") == 0
        assert not list((self.root / ".cuggino" / "spawns").iterdir())

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
        """Run a watch during the block; kill it at the end if it is still running."""
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


def names(finished: Finished) -> list[str]:
    """Return the names of the watch's own events."""
    return [type(event).__name__ for event in finished.events if isinstance(event, CiEvent)]


def of(finished: Finished, kind: type[T]) -> list[T]:
    """Return the events of one kind."""
    return [event for event in finished.events if isinstance(event, kind)]


def ended(finished: Finished) -> CiWatchEnded:
    event = finished.events[-1]
    assert isinstance(event, CiWatchEnded), (finished.err, finished.out[-3000:])
    return event
