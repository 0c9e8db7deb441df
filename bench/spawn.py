"""Measure a spawn in a repository of 10,000 files, without the time of models and networks.

The times of its phases come from the events of a spawn with the scripted agent, which itself takes hardly any time.
Provisioning is also compared with the git command that it has to run.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from pathlib import Path

import trio

from bench.commands import CUGGINO
from bench.measure import Row, alternate
from cuggino.config import Config
from cuggino.events import LLMStarted, ManifestReady, SandboxCreated, SpawnCompleted, decode_log_line
from cuggino.project import Project
from cuggino.sandbox.provision import provision
from cuggino.sandbox.removal import remove

FILES = 10_000


def rows(runs: int) -> list[Row]:
    with _repository() as (root, environment):
        project = Project.find(root)
        ours, bare = alternate(partial(_provision, project), partial(_worktree, root), runs)
        evaluation, provisioning, execution = _phases(root, environment)
    return [
        Row(
            f"a sandbox of {FILES:,} files, provisioned",
            f"git worktree add: {bare:.2f} s",
            f"{ours / bare:.2f}×",
            "≤ 1.2×",
            ours <= 1.2 * bare,
        ),
        Row("spawn: evaluation, the program's own start included", "", f"{evaluation:.1f} s", "< 5 s", evaluation < 5),
        Row("spawn: provisioning", "", f"{provisioning:.1f} s", "< 10 s", provisioning < 10),
        Row(
            "spawn: from the agent's start to the end, branch kept", "", f"{execution:.1f} s", "< 30 s", execution < 30
        ),
    ]


def _provision(project: Project) -> float:
    begin = time.perf_counter()
    sandbox = trio.run(partial(provision, project, Config()))
    seconds = time.perf_counter() - begin
    trio.run(partial(remove, project, sandbox, force=True))
    return seconds


def _worktree(root: Path) -> float:
    with tempfile.TemporaryDirectory(prefix="cuggino-bench-") as folder:
        place = str(Path(folder) / "tree")
        begin = time.perf_counter()
        subprocess.run(["git", "worktree", "add", "-q", "-b", "bench", place], cwd=root, check=True)
        seconds = time.perf_counter() - begin
        subprocess.run(["git", "worktree", "remove", "--force", place], cwd=root, check=True)
        subprocess.run(["git", "branch", "-qD", "bench"], cwd=root, check=True)
    return seconds


def _phases(root: Path, environment: dict[str, str]) -> tuple[float, float, float]:
    begin = datetime.now().astimezone()
    done = subprocess.run(
        [str(CUGGINO), "spawn", "--json", "Add a line"], cwd=root, env=environment, capture_output=True, check=True
    )
    at = {type(line.event): datetime.fromisoformat(line.at) for line in map(decode_log_line, done.stdout.splitlines())}
    ready, made, started, end = (at[kind] for kind in (ManifestReady, SandboxCreated, LLMStarted, SpawnCompleted))
    seconds = [(ready - begin), (made - ready), (end - started)]
    first, second, third = (each.total_seconds() for each in seconds)
    return first, second, third


@contextmanager
def _repository() -> Iterator[tuple[Path, dict[str, str]]]:
    folder = Path(tempfile.mkdtemp(prefix="cuggino-bench-"))
    before = dict(os.environ)
    try:
        root = folder / "project"
        for number in range(FILES):
            path = root / f"{number // 100:03}" / f"{number:05}.txt"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"the file {number}\n" * 20)
        (root / ".cuggino.json").write_text('{"agent": "scripted"}')
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "LANG": "C.UTF-8",
            "XDG_STATE_HOME": str(folder / "state"),
            **{f"GIT_{who}_{what}": "bench" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
        }
        os.environ.clear()
        os.environ.update(environment)
        for arguments in (["init", "-q"], ["add", "."], ["commit", "-qm", "start"]):
            subprocess.run(["git", *arguments], cwd=root, check=True)
        yield root, environment
    finally:
        os.environ.clear()
        os.environ.update(before)
        shutil.rmtree(folder)
