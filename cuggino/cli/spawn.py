"""`cuggino spawn`: one task in a sandbox of its own, and the tasks before it."""

from __future__ import annotations

import shutil
import signal
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from cuggino.cli.inbox import PLAIN_COLUMNS, print_lines, print_remark
from cuggino.clock import uuid7
from cuggino.config import BackendName, Integrate, load
from cuggino.errors import UsageError
from cuggino.foreground import in_foreground
from cuggino.manifest import SandboxManifest
from cuggino.output.page import Page
from cuggino.output.text import visible
from cuggino.project import Project
from cuggino.runtime import Invocation, Runtime
from cuggino.signals import Shutdown
from cuggino.spawn import task as tasks
from cuggino.spawn.evaluate import read_manifest
from cuggino.spawn.inventory import clean as clean_up
from cuggino.spawn.inventory import entries, found, listed
from cuggino.spawn.recover import Strategy
from cuggino.spawn.spawn import Spawn
from cuggino.spawn.task import SpawnFiles, SpawnRecord, Task
from cuggino.spawn.terminal import has_terminal

spawn = App(
    name="spawn",
    help="Hand one task to an agent in a sandbox of its own, and integrate its work.\n\n"
    "The agent works in a git worktree outside of your repository, with the permissions of a manifest; your tree, your "
    "index and your branch do not change. If it is denied something safe, that is allowed and the agent tries again. "
    "Then its branch becomes a pull request, is merged, or is kept, and a report is printed. Ctrl+C stops the agent "
    "and keeps its work.\n\n"
    'Example: cuggino spawn "Update the dependencies and fix what breaks"',
)

_json = Parameter(negative="", show_default=False)
_id = Parameter(name="ID", help="The ID of the spawn, or the beginning of it.")


@spawn.default
async def start(
    prompt: Annotated[str, Parameter(allow_leading_hyphen=True)],
    /,
    *,
    agent: BackendName | None = None,
    model: str | None = None,
    recovery: Strategy = "moderate",
    max_permission_escalations: int = 1,
    idle_timeout: float = 120,
    total_timeout: float = 1800,
    base: str | None = None,
    integrate: Integrate | None = None,
    manifest: Path | None = None,
    aisp: Annotated[bool, Parameter(negative="", show_default=False)] = False,
    json: Annotated[bool, _json] = False,
) -> int:
    """Start a task.

    Parameters
    ----------
    prompt
        Description of the task.
    agent
        Agent for the task; by default, the configured one.
    model
        Its model; by default, the configured one.
    recovery
        Reaction to a denied permission: `moderate` allows what is safe, for a few rounds; `aggressive` for any number
        of rounds; `interactive` asks you.
    max_permission_escalations
        Maximum number of rounds of `moderate`.
    idle_timeout
        Maximum seconds without output from the agent; a running tool counts as activity.
    total_timeout
        Maximum seconds in all; half for a task of low complexity, twice for one of high complexity.
    base
        Commit or branch to start from; by default, HEAD.
    integrate
        `pr`: push and open a pull request; `merge`: merge into the base; `branch`: keep the branch. By default, the
        configured value, or else `pr` with an origin and a gh login, or else `branch`.
    manifest
        JSON file with the permissions of the agent, instead of an evaluation by an agent.
    aisp
        Let the evaluation rewrite the prompt in AISP notation.
    json
        Print events as JSON lines, as in the log, and nothing else.
    """
    if not prompt.strip():
        raise UsageError("The task is missing.", advice='Describe it: cuggino spawn "…"')
    if max_permission_escalations < 0:
        raise UsageError(f"--max-permission-escalations: expected an integer ≥ 0, got {max_permission_escalations}.")
    for name, seconds in (("--idle-timeout", idle_timeout), ("--total-timeout", total_timeout)):
        if not seconds > 0:
            raise UsageError(f"{name}: expected a number of seconds > 0, got {seconds:g}.")
    if recovery == "interactive" and not has_terminal():
        raise UsageError(
            "--recovery interactive needs a terminal for its questions.", advice="Choose another strategy."
        )
    project = Project.find(Path.cwd())
    config = load(project.config_file)
    given = None if manifest is None else _manifest(manifest)
    record = SpawnRecord(
        id=uuid7(),
        task=Task(
            prompt=prompt,
            agent=agent or config.agent,
            model=model or config.model,
            recovery=recovery,
            max_escalations=max_permission_escalations,
            idle_timeout=idle_timeout,
            total_timeout=total_timeout,
            base=base,
            integrate=integrate,
            aisp=aisp,
        ),
        started_at=datetime.now(UTC),
        prompt=prompt,
    )
    return await _run(project, record, given, as_json=json)


@spawn.command
async def retry(
    beginning: Annotated[str, _id],
    /,
    *,
    json: Annotated[bool, _json] = False,
) -> int:
    """Resume a spawn: its agent where it was stopped, or only the integration of its work.

    Parameters
    ----------
    json
        Print events as JSON lines, as in the log, and nothing else.
    """
    project = Project.find(Path.cwd())
    record = tasks.find(project, beginning)
    if record.integrated:
        raise UsageError(f"The spawn {record.id} is done: its work is integrated.")
    if record.task.recovery == "interactive" and not has_terminal():
        raise UsageError("This spawn asks about permissions, which needs a terminal.")
    return await _run(project, record, None, as_json=json)


@spawn.command(name="list")
async def list_(*, json: Annotated[bool, _json] = False) -> int:
    """List the spawns and their state.

    Parameters
    ----------
    json
        Print one JSON object per line.
    """
    project = Project.find(Path.cwd())
    lines = await listed(project, as_json=json, width=shutil.get_terminal_size((PLAIN_COLUMNS, 24)).columns)
    if lines or json:
        print_lines(lines)
    else:
        print_remark(f"There are no spawns in {project.spawns}.")
    return 0


@spawn.command
def show(beginning: Annotated[str, _id], /) -> int:
    """Print a spawn's report."""
    project = Project.find(Path.cwd())
    record = tasks.find(project, beginning)
    report = SpawnFiles(project, record.id).report
    if not report.exists():
        raise UsageError(
            f"The spawn {record.id} has no report: it is running, or it crashed.",
            advice=f"To resume it: cuggino spawn retry {record.id}",
        )
    print_lines([visible(report.read_text(errors="replace")).removesuffix("\n")])
    return 0


@spawn.command
async def clean(
    beginning: Annotated[str | None, _id] = None,
    /,
    *,
    force: Annotated[bool, Parameter(negative="", show_default=False)] = False,
) -> int:
    """Remove sandboxes that are not needed any more.

    Sandboxes with work that is not committed, or neither pushed nor merged, are kept.

    Parameters
    ----------
    force
        Remove them anyway: their work is lost.
    """
    project = Project.find(Path.cwd())
    chosen = None if beginning is None else found(await entries(project), beginning).id
    lines, code = await clean_up(project, chosen, force=force)
    print_lines(lines)
    return code


async def _run(project: Project, record: SpawnRecord, given: SandboxManifest | None, *, as_json: bool) -> int:
    project.prepare()
    files = SpawnFiles(project, record.id)
    files.make()
    started: list[Spawn] = []

    async def work(runtime: Runtime, shutdown: Shutdown) -> int:
        context = runtime.spawn_context(record.task)
        spawn = Spawn(context, record, runtime.sender(record.id), lambda: 128 + (shutdown.signal or signal.SIGINT))
        started.append(spawn)
        return await spawn.run(given)

    def last_words(_page: Page) -> list[str]:
        return ["", *visible(started[0].text).removesuffix("\n").split("\n")] if started else []

    return await in_foreground(
        project, Invocation(name="cuggino spawn", json=as_json, lock=files.lock), work, last_words=last_words
    )


def _manifest(path: Path) -> SandboxManifest:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(f"The manifest {path} cannot be read: {error.strerror}.") from error
    return read_manifest(data, str(path))
