"""A house for `cuggino spawn`: what its agents play, where sandboxes are, and what is left of a spawn."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import trio

from cuggino.events import LogLine, decode_log_line
from tests.process.house import Finished, House, Running, Step, turn

MANIFEST: dict[str, Any] = {"writablePaths": ["**"], "allowedCommands": ["make *"], "complexity": "medium"}
"""A valid answer of an evaluator."""

WORK: Sequence[Step] = (
    {"do": "say", "text": "I look around."},
    {"do": "append", "path": "work.txt", "text": "done\n"},
    {"do": "say", "text": "It is done: `work.txt` says so."},
)

HELD: Step = {"do": "run", "command": "touch $HOME/held; while test -e $HOME/held; do sleep 0.02; done"}
"""Creates the file `held` in the home folder, and waits in a tool until that is deleted."""


def answer(**manifest: Any) -> dict[str, Any]:
    """A turn of an evaluator that answers correctly, any number of times."""
    return turn({"do": "say", "text": json.dumps(MANIFEST | manifest)}, times=0)


def tasks(*worker: Sequence[Step] | dict[str, Any], evaluator: Sequence[dict[str, Any]] = ()) -> dict[str, Any]:
    """A script for workers that run one after the other; each is given as its steps or as a whole turn."""
    turns = [it if isinstance(it, dict) else turn(*it) for it in worker or (turn(*WORK, times=0),)]
    return {"evaluator": [*evaluator, answer()], "worker": turns}


class SpawnHouse(House):
    """A git project on the branch `main`, with its sandboxes below its home folder.

    The home folder has the canary's name, since an agent in a sandbox inherits HOME.
    """

    def __init__(self, folder: Path, play: dict[str, Any] | None = None, **config: Any) -> None:
        super().__init__(folder, play=play or tasks(), **config)
        self.home = self.home.rename(folder / self.canary)
        (self.root / "list.txt").write_text("first\nsecond\nthird\n")
        self.git("branch", "-M", "main")
        self.commit("a list")

    @property
    def environment(self) -> dict[str, str]:
        return {**super().environment, "XDG_STATE_HOME": str(self.home / "state")}

    def commit(self, message: str) -> None:
        self.git("add", ".")
        self.git("commit", "-qm", message)

    @property
    def sandboxes(self) -> list[Path]:
        return sorted((self.home / "state").glob("cuggino/*/*"))

    @property
    def spawns(self) -> list[Path]:
        """The folders of all spawns, oldest first."""
        return sorted((self.state / "spawns").iterdir())

    @property
    def spawned(self) -> Path:
        """The folder of the one spawn."""
        (folder,) = self.spawns
        return folder

    @property
    def branches(self) -> list[str]:
        return self.git("for-each-ref", "--format=%(refname:short)", "refs/heads").split()

    @property
    def branch(self) -> str:
        """The branch of the one spawn."""
        return f"spawn/{self.spawned.name}"

    @property
    def log(self) -> list[LogLine]:
        """The lines of the one spawn's own log."""
        return [decode_log_line(line) for line in (self.spawned / "events.jsonl").read_bytes().splitlines()]

    @property
    def names(self) -> list[str]:
        return [type(line.event).__name__ for line in self.log]

    @property
    def report(self) -> dict[str, str]:
        """The report's sections by their names; what is above them has the name ""."""
        parts = re.split(r"(?m)^### (.*)\n", (self.spawned / "report.md").read_text())
        names_and_texts = zip(parts[1::2], parts[2::2], strict=True)
        return {"": parts[0].strip(), **{name: text.strip() for name, text in names_and_texts}}

    @property
    def manifest(self) -> dict[str, Any]:
        manifest: dict[str, Any] = json.loads((self.spawned / "manifest.json").read_text())
        return manifest

    def shown(self, what: str) -> str:
        """Return a file in a commit: `main:list.txt`."""
        return self.git("show", what)

    def given(self, **manifest: Any) -> tuple[str, str]:
        """Return arguments with a manifest, so that nothing is evaluated."""
        path = self.home / "manifest.json"
        path.write_text(json.dumps(manifest))
        return "--manifest", str(path)

    def snapshot(self) -> dict[str, Any]:
        """Return everything of the person's: files, modes, index, HEAD, stash, branches; nothing of a spawn's."""
        files: dict[str, Any] = {}
        top = Path(self.git("rev-parse", "--show-toplevel").strip())
        for path in sorted(top.rglob("*")):
            parts = path.relative_to(top).parts
            if parts[0] == ".git" or ".cuggino" in parts:
                continue
            at = path.lstat()
            files[str(path)] = (at.st_mode, path.is_dir() or (at.st_mtime_ns, path.read_bytes()))
        refs = [line for line in self.git("for-each-ref").splitlines() if "refs/heads/spawn/" not in line]
        git = top / ".git"
        logs = [path for path in (git / "logs").rglob("*") if path.is_file() and "spawn" not in path.parts]
        names = ("index", "HEAD", "config")
        return {
            "files": files,
            "refs": refs,
            "logs": {str(path): path.read_bytes() for path in logs},
            **{name: (git / name).read_bytes() for name in names},
        }

    async def spawn(self, *arguments: str, prompt: str = "Do the work.", code: int = 0) -> Finished:
        """Run `cuggino spawn PROMPT ARGUMENTS` to its end, which must have this exit code."""
        finished = await self.run("spawn", prompt, *arguments)
        assert finished.code == code, finished.out + finished.err
        return finished

    @asynccontextmanager
    async def spawning(self, *arguments: str, prompt: str = "Do the work.") -> AsyncIterator[Running]:
        async with self.started("spawn", prompt, *arguments) as running:
            yield running

    async def retry(self, *, code: int = 0) -> Finished:
        finished = await self.run("spawn", "retry", self.spawned.name)
        assert finished.code == code, finished.out + finished.err
        return finished

    async def held(self) -> None:
        """Wait until an agent or a command plays HELD."""
        with trio.fail_after(60):
            while not (self.home / "held").exists():  # noqa: ASYNC110 - a file of another process
                await trio.sleep(0.01)

    def release(self) -> None:
        (self.home / "held").unlink(missing_ok=True)
