"""Python, the disk, file watching and child processes: every command of cuggino needs them."""

from __future__ import annotations

import errno
import os
import platform
import shutil
import stat
import sys
import tempfile
from pathlib import Path
from shlex import quote

import trio

from cuggino import __version__
from cuggino.doctor.finding import Finding, failure, ok, warning
from cuggino.doctor.programs import ANSWER_TIMEOUT, Programs
from cuggino.process.children import Command
from cuggino.project import Project
from cuggino.watch.notices import open_notices

SPARE = 1024**3
"""Bytes below which there is a warning: agents build and test."""
NEEDED = 50 * 1024**2
"""Bytes below which there is a failure: for plans and logs."""

_STATUS = 7


def python() -> Finding:
    return ok("python", f"cuggino {__version__} on Python {platform.python_version()} ({sys.executable})")


def system() -> Finding:
    kernel = platform.system()
    name = f"{kernel} {platform.release()}, {platform.machine()}"
    if kernel == "Darwin":
        name += "; here a process that leaves its process group can outlive cuggino"
    return ok("system", name)


def directory(project: Project) -> Finding:
    """Try to create a file, in `.cuggino/` if it exists: agents that are running may look at everything else."""
    if os.path.lexists(project.state_dir) and not project.state_dir.is_dir():
        fix = f"mv {quote(str(project.state_dir))} {quote(f'{project.state_dir}.old')}"
        return failure("directory", f"{project.state_dir} must be a directory", fix)
    place = _scratch_place(project)
    try:
        with tempfile.NamedTemporaryFile(dir=place, prefix=".cuggino-doctor-"):
            pass
        if not os.access(project.root, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(project.root))
    except OSError as error:
        fix = permission_fix(project, place) if error.errno == errno.EACCES else ""
        return failure("directory", f"cannot write to {project.root}: {error.strerror}", fix)
    return ok("directory", f"{project.root} is writable")


def permission_fix(project: Project, place: Path) -> str:
    """Return what makes the project writable: a mode, if its owner asks; else its owner."""
    locked = next((path for path in (place, project.root) if not path.stat().st_mode & stat.S_IWUSR), None)
    if locked is not None and locked.stat().st_uid == os.geteuid():
        return f"chmod u+w {quote(str(locked))}"
    return f'sudo chown -R "$(id -un)" {quote(str(project.root))}'


def space(project: Project) -> Finding:
    """Check the free space of the project's disk."""
    free = shutil.disk_usage(project.root).free
    amount = f"{free / 1024**3:.1f} GiB free"
    if free < NEEDED:
        return failure(
            "space", f"{free / 1024**2:.0f} MiB free: not enough for plans and logs", "Free some disk space."
        )
    if free < SPARE:
        return warning("space", f"{amount}: a build may fill it", "Free some disk space.")
    return ok("space", amount)


async def watching(project: Project) -> Finding:
    """Try whether file changes are noticed, in a temporary directory on the project's file system."""
    noticed = trio.Event()
    place = _scratch_place(project)
    slower = "`cuggino watch` polls instead, which is slower"
    if not os.access(place, os.W_OK):
        return warning("watching", f"not checked: cannot write to {place}")
    with tempfile.TemporaryDirectory(dir=place, prefix=".cuggino-doctor-") as name:
        async with open_notices(Path(name), noticed.set) as notices:
            await notices.renew()
            if not notices.watching:
                fix = "sudo sysctl fs.inotify.max_user_watches=524288 fs.inotify.max_user_instances=512"
                return warning(
                    "watching", f"no file watches left; {slower}", fix if platform.system() == "Linux" else ""
                )
            Path(name, "item.md").touch()
            with trio.move_on_after(ANSWER_TIMEOUT):
                await noticed.wait()
    if not noticed.is_set():
        return warning("watching", f"this file system reports no changes; {slower}")
    return ok("watching", "file changes are noticed at once")


async def processes(programs: Programs) -> Finding:
    """Try to start a child process that leaves another one running, and to end both."""
    script = f"sleep 60 & exit {_STATUS}"
    command = Command(
        argv=("/bin/sh", "-c", script),
        cwd=programs.root,
        environment=programs.environment,
        stdout=programs.directory / "processes.out",
    )
    try:
        with trio.move_on_after(ANSWER_TIMEOUT):
            async with programs.children.start(command) as child:
                status = await child.wait()
                await child.gone.wait()
                if status == _STATUS:
                    return ok("processes", "child processes start and are cleaned up")
                return failure("processes", f"a child process exited with {status} instead of {_STATUS}")
    except OSError as error:
        return failure("processes", f"cannot start a child process: {error}")
    return failure("processes", f"a child process and its own children did not end within {ANSWER_TIMEOUT:g} s")


def _scratch_place(project: Project) -> Path:
    return project.state_dir if project.state_dir.is_dir() else project.root
