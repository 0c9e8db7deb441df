"""`cuggino spawn`: hand one task to an agent in a sandbox; list, show, resume and clean up earlier ones."""

from __future__ import annotations

import shutil
import signal
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import msgspec
from cyclopts import App, Parameter

from cuggino.cli.arguments import integer, nearest, unknown_option
from cuggino.cli.inbox import PLAIN_COLUMNS, print_lines, print_remark
from cuggino.clock import uuid7
from cuggino.config import BackendName, Integrate, load
from cuggino.errors import UsageError
from cuggino.foreground import in_foreground
from cuggino.git.remotes import find_origin
from cuggino.github import is_logged_in
from cuggino.manifest import SandboxManifest
from cuggino.output.page import Page
from cuggino.output.text import visible
from cuggino.project import Project
from cuggino.runtime import Invocation, Runtime
from cuggino.signals import Shutdown
from cuggino.spawn import task as tasks
from cuggino.spawn.evaluate import read_manifest
from cuggino.spawn.inventory import list_entries, remove_sandboxes, render_entries
from cuggino.spawn.recover import Strategy
from cuggino.spawn.spawn import Spawn
from cuggino.spawn.task import SpawnFiles, SpawnRecord, Task, find_by_id
from cuggino.spawn.terminal import has_terminal
from cuggino.trust import find_project, refuse_tracked

spawn = App(
    name="spawn",
    help="Hand one task to an agent in a sandbox, and integrate its work.\n\n"
    "The agent works in a git worktree outside of your repository, with the permissions of a manifest; your files, "
    "your index and your branch stay as they are. If it is denied something that is safe, it gets the permission and "
    "tries again. Then its branch becomes a pull request, is merged, or is kept, and a report is printed. Ctrl+C stops "
    "the agent and keeps its work.\n\n"
    'Example: cuggino spawn "Update the dependencies and fix what breaks"',
)

_json = Parameter(negative="", show_default=False)
_id = Parameter(name="ID", help="The spawn's ID, or its first characters.")


@spawn.default
async def start(
    prompt: Annotated[str, Parameter(allow_leading_hyphen=True)],
    /,
    *,
    agent: BackendName | None = None,
    model: str | None = None,
    recovery: Strategy = "moderate",
    max_permission_escalations: Annotated[int, Parameter(converter=integer)] = 1,
    idle_timeout: float = 120,
    total_timeout: float = 1800,
    base: str | None = None,
    integrate: Integrate | None = None,
    manifest: Path | None = None,
    aisp: Annotated[bool, Parameter(negative="", show_default=False)] = False,
    json: Annotated[bool, _json] = False,
) -> int:
    """Hand one task to an agent in a sandbox.

    Parameters
    ----------
    prompt
        The task, in your own words.
    agent
        Agent for the task, instead of the configured one.
    model
        Model of the agent, instead of the configured one.
    recovery
        Reaction to denied permissions: `moderate` grants what is safe, for a few rounds; `aggressive`, without a limit;
        `interactive` asks you.
    max_permission_escalations
        Maximum rounds of `--recovery moderate`.
    idle_timeout
        Maximum seconds without output from the agent; a running tool counts as activity.
    total_timeout
        Maximum seconds in total; half of it for a task of low complexity, twice for one of high complexity.
    base
        Commit or branch to start from, instead of HEAD.
    integrate
        Integration of the work: `pr` pushes the branch and opens a pull request; `merge` merges it into the base;
        `branch` keeps it. Default: as configured, else `pr` if there is an origin and a gh login, else `branch`.
    manifest
        JSON file with the agent's permissions; replaces the evaluation of the task by another agent.
    aisp
        Let the evaluation rewrite the prompt in AISP notation.
    json
        Print only events, one JSON object per line, as in the log.
    """
    _check_prompt(prompt)
    if max_permission_escalations < 0:
        raise UsageError(f"--max-permission-escalations: expected an integer ≥ 0, got {max_permission_escalations}.")
    for name, seconds in (("--idle-timeout", idle_timeout), ("--total-timeout", total_timeout)):
        if not seconds > 0:
            raise UsageError(f"{name}: expected a number > 0, got {seconds:g}.")
    if recovery == "interactive" and not has_terminal():
        raise UsageError(
            "--recovery interactive needs a terminal: stdin and stderr must be one.", advice="Choose another strategy."
        )
    project = find_project()
    config = load(project.config_file)
    given = None if manifest is None else _manifest(manifest)
    if (integrate or config.spawn.integrate) == "pr":
        await _check_github(project)
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
    prefix: Annotated[str, _id],
    /,
    *,
    json: Annotated[bool, _json] = False,
) -> int:
    """Resume a spawn: its agent, or, if that is done, the integration of its work.

    Parameters
    ----------
    json
        Print only events, one JSON object per line, as in the log.
    """
    project = find_project()
    record = tasks.find(project, prefix)
    if record.integrated:
        raise UsageError(f"The spawn {record.id} is done: its work is integrated.")
    if record.task.recovery == "interactive" and not has_terminal():
        raise UsageError(
            "This spawn uses --recovery interactive, which needs a terminal: stdin and stderr must be one."
        )
    return await _run(project, record, None, as_json=json)


@spawn.command(name="list")
async def list_(*, json: Annotated[bool, _json] = False) -> int:
    """List all spawns and sandboxes with their states.

    Parameters
    ----------
    json
        Print one JSON object per line.
    """
    project = find_project()
    entries = await list_entries(project)
    if json:
        print_lines([msgspec.json.encode(entry).decode() for entry in entries])
    elif entries:
        print_lines(render_entries(entries, width=shutil.get_terminal_size((PLAIN_COLUMNS, 24)).columns))
    else:
        print_remark(f"There are no spawns in {project.spawns}.")
    return 0


@spawn.command
def show(prefix: Annotated[str, _id], /) -> int:
    """Print a spawn's report."""
    project = find_project()
    record = tasks.find(project, prefix)
    report = SpawnFiles(project, record.id).report
    if not report.exists():
        raise UsageError(
            f"The spawn {record.id} has no report: it is running, or it was killed.",
            advice=f"To resume it: cuggino spawn retry {record.id}",
        )
    print_lines([visible(report.read_text(errors="replace")).removesuffix("\n")])
    return 0


@spawn.command
async def clean(
    prefix: Annotated[str | None, _id] = None,
    /,
    *,
    force: Annotated[bool, Parameter(negative="", show_default=False)] = False,
) -> int:
    """Remove one sandbox, or all that are not in use.

    Sandboxes with work that is uncommitted, or neither pushed nor merged, are kept.

    Parameters
    ----------
    force
        Remove those, too: the work in them is lost.
    """
    project = find_project()
    await refuse_tracked(project)
    chosen = None
    if prefix is not None:
        chosen = find_by_id(prefix, {entry.id: entry for entry in await list_entries(project)}).id
    lines, code = await remove_sandboxes(project, chosen, force=force)
    print_lines(lines)
    return code


def _check_prompt(prompt: str) -> None:
    """Raise UsageError for what is not a task: nothing, an option, or a single word that may be a command."""
    text = prompt.strip()
    if not text:
        raise UsageError("The task is empty.", advice='Describe it: cuggino spawn "…"')
    if len(text.split()) > 1:
        return
    if text.startswith("-"):
        known = [name for argument in spawn.assemble_argument_collection() for name in argument.names]
        raise unknown_option(text, known, "If it is a task, describe it in more than one word.")
    commands = [name for name in spawn if not name.startswith("-")]
    near = "--help" if text.lower() == "help" else nearest(text.lower(), commands)
    if near is not None:
        raise UsageError(
            f"{text} is not a command of `cuggino spawn`. Did you mean `cuggino spawn {near}`?",
            advice="If it is a task, describe it in more than one word.",
        )


async def _check_github(project: Project) -> None:
    """Raise UsageError if no pull request could be opened. Sends no request."""
    keep = "or keep the work on a branch: --integrate branch"
    slug = await find_origin(project.root)
    if slug is None:
        raise UsageError(
            "--integrate pr: there is no origin on GitHub.", advice=f"Add one: git remote add origin URL, {keep}"
        )
    if not await is_logged_in(slug, project.root):
        raise UsageError(
            f"--integrate pr: gh is not installed or not logged in to {slug.host}.",
            advice=f"Log in: gh auth login --hostname {slug.host}, {keep}",
        )


async def _run(project: Project, record: SpawnRecord, given: SandboxManifest | None, *, as_json: bool) -> int:
    await refuse_tracked(project)
    project.prepare()
    files = SpawnFiles(project, record.id)
    files.create()
    started: list[Spawn] = []

    async def work(runtime: Runtime, shutdown: Shutdown) -> int:
        context = runtime.spawn_context(record.task)
        send = runtime.sender(record.id, log=files.events)
        spawn = Spawn(context, record, send, lambda: 128 + (shutdown.signal or signal.SIGINT))
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
