"""Run all checks at the same time, so that the slowest one takes all of the time."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TypeAlias

import trio

from cuggino.clock import uuid7
from cuggino.doctor import machine, settings
from cuggino.doctor.agents import agent, names
from cuggino.doctor.finding import Diagnosis, Finding, diagnose, failure, warning
from cuggino.doctor.github import github, is_needed
from cuggino.doctor.programs import Programs
from cuggino.doctor.repository import repository
from cuggino.errors import CugginoError, StorageError
from cuggino.process.children import Children
from cuggino.project import Project

Found: TypeAlias = Finding | list[Finding] | None
Check: TypeAlias = Callable[[], Awaitable[Found]]


async def examine(project: Project, environment: Mapping[str, str]) -> Diagnosis:
    """Check everything that cuggino needs in `project`: within 2 seconds, without a request and without changes.

    The findings have a fixed order. A check that raises is a failure and does not affect the others.
    """
    configuration, config = settings.configuration(project)
    with _temporary_directory() as directory:
        children = Children(marker=uuid7().replace("-", ""), grace=0)  # a late program is killed at once
        programs = Programs(project.root, environment, directory, children)
        checks: list[tuple[str, Check]] = [
            ("directory", _plain(partial(machine.directory, project))),
            ("space", _plain(partial(machine.space, project))),
            ("watching", partial(machine.watching, project)),
            ("processes", partial(machine.processes, programs)),
            ("lock", _plain(partial(settings.lock, project))),
            ("git", partial(repository, programs, commit=config is not None and config.commit)),
        ]
        if config is not None:
            checks += [
                ("specs", _plain(partial(settings.specs, project, config))),
                *((name, partial(agent, programs, name)) for name in names(config)),
                ("notify", _plain(partial(settings.notify, project, config))),
            ]
            if is_needed(config):
                checks.append(("gh", partial(github, programs)))
        found: list[list[Finding]] = [[] for _ in checks]
        async with trio.open_nursery() as nursery:
            for place, (name, check) in zip(found, checks, strict=True):
                nursery.start_soon(_fill, place, name, check)
    if config is None:
        found.append([warning("agents", "not checked: the configuration, which names them, is not valid")])
    return diagnose((machine.python(), machine.system(), configuration, *itertools.chain(*found)))


@contextmanager
def _temporary_directory() -> Iterator[Path]:
    """Raise StorageError if it cannot be created; then no command of cuggino works."""
    try:
        directory = tempfile.TemporaryDirectory(prefix="cuggino-doctor-")
    except OSError as error:
        raise StorageError(
            f"Cannot create a temporary file: {error}", advice="Set TMPDIR to a directory of yours."
        ) from error
    with directory as name:
        yield Path(name)


async def _fill(place: list[Finding], name: str, check: Check) -> None:
    try:
        found = await check()
    except (OSError, CugginoError) as error:
        found = failure(name, f"could not check this: {error}")
    if isinstance(found, Finding):
        place.append(found)
    elif found is not None:
        place += found


def _plain(check: Callable[[], Found]) -> Check:
    async def run() -> Found:
        await trio.lowlevel.checkpoint()
        return check()

    return run
