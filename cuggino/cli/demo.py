"""`cuggino demo`: the whole loop, with no key and no network."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from cuggino.demo.project import create_project
from cuggino.foreground import in_foreground
from cuggino.loop.session import Session
from cuggino.project import Project, uuid7
from cuggino.runtime import Runtime
from cuggino.signals import Shutdown


async def demo(*, json: Annotated[bool, Parameter(negative="", show_default=False)] = False) -> int:
    """Work off a small sample project, for a look at what cuggino does.

    Makes a git repository with a specification and two backlog items in a temporary folder and runs the loop over
    them: real processes, files and commits. The agent only plays a script: no key, no network, no cost.

    Example: cuggino demo

    Parameters
    ----------
    json
        One event a line on stdout, as in the log, and nothing else.
    """
    folder = Path(tempfile.mkdtemp(prefix="cuggino-demo-"))
    sample = create_project(folder)
    project = Project(sample.root)

    async def work(runtime: Runtime, _shutdown: Shutdown) -> int:
        for item in sample.items:
            code = await runtime.run(Session.create(project, f"@{item}", backlog_file=item.name))
            if code != 0:
                return code
            item.rename(project.archive / f"{uuid7()}-{item.name}")
        return 0

    code = await in_foreground(project, "demo", work, as_json=json)
    if not json:
        print(f"\nThe project is in {sample.root}. Have a look:")
        print(f"  git -C {sample.root} log --stat      what was committed, and in which steps")
        print(f"  cat {sample.root}/.specs/*.md        what was asked for")
        print(f"  ls {project.archive}     the backlog items that are done")
        print("It is yours to keep or remove. For a project of your own: cuggino run --help")
    return code
