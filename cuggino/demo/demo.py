"""The demo: the whole loop over a sample project, with an agent that follows a script."""

from __future__ import annotations

import tempfile
from pathlib import Path

from cuggino.clock import uuid7
from cuggino.demo.project import create_project
from cuggino.foreground import in_foreground
from cuggino.loop.session import Session
from cuggino.project import Project
from cuggino.runtime import Invocation, Runtime
from cuggino.signals import Shutdown


async def run_demo(*, json: bool) -> int:
    """Make the sample project in a new temporary directory and work through its backlog. Return the exit code."""
    sample = create_project(Path(tempfile.mkdtemp(prefix="cuggino-demo-")))
    project = Project(sample.root)

    async def work(runtime: Runtime, _shutdown: Shutdown) -> int:
        for item in sample.items:
            code = await runtime.run(Session.create(project, f"@{item}", backlog_file=item.name))
            if code != 0:
                return code
            item.rename(project.archive / f"{uuid7()}-{item.name}")
        return 0

    code = await in_foreground(project, Invocation(name="cuggino demo", json=json), work)
    if not json:
        print(f"\nThe project is in {sample.root}. Have a look:")
        print(f"  git -C {sample.root} log --stat      what was committed, step by step")
        print(f"  cat {sample.root}/.specs/*.md        what was asked for")
        print(f"  ls {project.archive}     the finished backlog items")
        print("Keep it or delete it. For a project of your own: cuggino run --help")
    return code
