"""All checks together: those that start programs at the same time, so that the slowest one is the whole wait."""

from __future__ import annotations

import tempfile
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TypeAlias

import trio

from cuggino.doctor import machine, settings
from cuggino.doctor.agents import agent, names
from cuggino.doctor.finding import Diagnosis, Finding, failure, report, warning
from cuggino.doctor.github import github, wanted
from cuggino.doctor.programs import Programs
from cuggino.doctor.repository import repository
from cuggino.errors import CugginoError, StorageError
from cuggino.process.children import Children
from cuggino.project import Project, uuid7

Found: TypeAlias = Finding | list[Finding] | None
Check: TypeAlias = Callable[[], Awaitable[Found]]


async def examine(project: Project, environment: Mapping[str, str]) -> Diagnosis:
    """Look at everything that work in `project` needs. Within 2 seconds, without a request, and without a trace.

    The findings are in a fixed order. A check that itself fails is a failure, and no reason to miss the others.
    """
    configuration, config = settings.configuration(project)
    with _temporary_folder() as folder:
        children = Children(marker=uuid7().replace("-", ""), grace=0)  # who is late is not asked to stop, but stopped
        programs = Programs(project.root, environment, folder, children)
        checks: list[tuple[str, Check]] = [
            ("folder", _plain(partial(machine.folder, project))),
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
            if wanted(config):
                checks.append(("gh", partial(github, programs)))
        found: list[list[Finding]] = [[] for _ in checks]
        async with trio.open_nursery() as nursery:
            for place, (name, check) in zip(found, checks, strict=True):
                nursery.start_soon(_fill, place, name, check)
    untold = (
        []
        if config is not None
        else [warning("agents", "not looked at: the configuration, which names them, cannot be taken")]
    )
    rest = [finding for place in found for finding in place]
    return report((machine.python(), machine.system(), configuration, *rest, *untold))


@contextmanager
def _temporary_folder() -> Iterator[Path]:
    """Raises StorageError if there is no place for it; then nothing of cuggino works."""
    try:
        folder = tempfile.TemporaryDirectory(prefix="cuggino-doctor-")
    except OSError as error:
        raise StorageError(
            f"No temporary file can be made: {error}", advice="Set TMPDIR to a folder of yours."
        ) from error
    with folder as name:
        yield Path(name)


async def _fill(place: list[Finding], name: str, check: Check) -> None:
    try:
        found = await check()
    except (OSError, CugginoError) as error:
        found = failure(name, f"this could not be looked at: {error}")
    if isinstance(found, Finding):
        place.append(found)
    elif found is not None:
        place += found


def _plain(check: Callable[[], Found]) -> Check:
    async def run() -> Found:
        await trio.lowlevel.checkpoint()
        return check()

    return run
