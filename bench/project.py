"""Make a project to run cuggino in, with an agent that does nothing."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

AGENT = """#!/bin/sh
echo >"$BENCH_STARTED"
exec sleep 60
"""


@contextmanager
def small_project() -> Iterator[tuple[Path, dict[str, str]]]:
    """Make a project with a commit and specs, and an environment whose PATH starts with a stand-in for claude.

    The stand-in writes a line to the FIFO named by BENCH_STARTED, then sleeps.
    """
    with TemporaryDirectory() as name:
        project = Path(name)
        (project / ".specs").mkdir()
        (project / ".specs" / "bench.md").write_text("# Bench\n")
        (project / "bin").mkdir()
        agent = project / "bin" / "claude"
        agent.write_text(AGENT)
        agent.chmod(0o755)
        started = project / "started"
        os.mkfifo(started)
        environment = {
            "PATH": f"{agent.parent}:/usr/bin:/bin",
            "HOME": name,
            "BENCH_STARTED": str(started),
            "IS_SANDBOX": "1",
        }
        git = ["git", "-c", "user.name=bench", "-c", "user.email=bench@localhost"]
        for arguments in (["init", "-q"], ["add", ".specs"], ["commit", "-q", "-m", "Specs"]):
            subprocess.run([*git, *arguments], cwd=project, env=environment, check=True)
        yield project, environment
