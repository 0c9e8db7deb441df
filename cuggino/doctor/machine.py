"""Python, the disk, file notices, and whether processes can be ended: what any command of cuggino stands on."""

from __future__ import annotations

import errno
import os
import platform
import shutil
import sys
import tempfile
from pathlib import Path
from shlex import quote

import trio

from cuggino import __version__
from cuggino.doctor.finding import Finding, failure, ok, warning
from cuggino.doctor.programs import PATIENCE, Programs
from cuggino.process.children import Command
from cuggino.project import Project
from cuggino.watch.notices import open_notices

SPARE = 1024**3
"""Bytes that should be free: agents build and test."""
NEEDED = 50 * 1024**2

_STATUS = 7


def python() -> Finding:
    return ok("python", f"cuggino {__version__} on Python {platform.python_version()} ({sys.executable})")


def system() -> Finding:
    kernel = platform.system()
    name = f"{kernel} {platform.release()}, {platform.machine()}"
    if kernel == "Darwin":
        name += "; here a process that leaves its process group can outlive the command that started it"
    return ok("system", name)


def folder(project: Project) -> Finding:
    """Whether files can be made, tried in `.cuggino/` if there is one: agents may be at work, and look at all else."""
    if os.path.lexists(project.state_dir) and not project.state_dir.is_dir():
        away = f"mv {quote(str(project.state_dir))} {quote(f'{project.state_dir}.old')}"
        return failure("folder", f"{project.state_dir} is no folder, but cuggino needs one there", away)
    place = _own_place(project)
    try:
        with tempfile.NamedTemporaryFile(dir=place, prefix=".cuggino-doctor-"):
            pass
        if not os.access(project.root, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(project.root))
    except OSError as error:
        mend = f'sudo chown -R "$(id -un)" {quote(str(project.root))}' if error.errno == errno.EACCES else ""
        return failure("folder", f"{project.root} cannot be written to: {error.strerror}", mend)
    return ok("folder", f"{project.root} can be written to")


def space(project: Project) -> Finding:
    """Of the disk that the project is on."""
    free = shutil.disk_usage(project.root).free
    told = f"{free / 1024**3:.1f} GiB are free"
    if free < NEEDED:
        return failure("space", f"{free / 1024**2:.0f} MiB are free: plans and logs need some", "Make room.")
    if free < SPARE:
        return warning("space", f"{told}, which a build may fill", "Make room.")
    return ok("space", told)


async def watching(project: Project) -> Finding:
    """Whether a change in the project's file system is noticed, tried in a folder of its own."""
    noticed = trio.Event()
    place = _own_place(project)
    slower = "`cuggino watch` looks for itself every few seconds all the same"
    if not os.access(place, os.W_OK):
        return warning("watching", f"not tried: {place} cannot be written to")
    with tempfile.TemporaryDirectory(dir=place, prefix=".cuggino-doctor-") as name:
        async with open_notices(Path(name), noticed.set) as notices:
            await notices.renew()
            if not notices.watching:
                mend = "sudo sysctl fs.inotify.max_user_watches=524288 fs.inotify.max_user_instances=512"
                return warning(
                    "watching", f"no file watch can be had; {slower}", mend if platform.system() == "Linux" else ""
                )
            Path(name, "item.md").touch()
            with trio.move_on_after(PATIENCE):
                await noticed.wait()
    if not noticed.is_set():
        return warning("watching", f"this file system tells of no changes; {slower}")
    return ok("watching", "changes of files are noticed at once")


async def processes(programs: Programs) -> Finding:
    """Whether a child, and what it leaves running, can be started and ended, tried."""
    script = f"sleep 60 & exit {_STATUS}"
    command = Command(
        argv=("/bin/sh", "-c", script),
        cwd=programs.root,
        environment=programs.environment,
        stdout=programs.folder / "processes.out",
    )
    try:
        with trio.move_on_after(PATIENCE):
            async with programs.children.start(command) as child:
                status = await child.wait()
                await child.gone.wait()
                if status == _STATUS:
                    return ok("processes", "children can be started, and ended with all that they started")
                return failure("processes", f"a child that should end with {_STATUS} ended with {status}")
    except OSError as error:
        return failure("processes", f"no child can be started: {error}")
    return failure("processes", f"a child, and what it started, was not ended within {PATIENCE:g} s")


def _own_place(project: Project) -> Path:
    return project.state_dir if project.state_dir.is_dir() else project.root
