"""The project: its configuration, specs, lock and notifications."""

from __future__ import annotations

import os
import shutil
from shlex import quote

from cuggino.config import Config, load
from cuggino.doctor.finding import Finding, failure, ok, warning
from cuggino.errors import ConfigError
from cuggino.lock import read_owner
from cuggino.project import CONFIG_NAME, Project


def configuration(project: Project) -> tuple[Finding, Config | None]:
    """Return the configuration, or None if it is not valid."""
    try:
        config = load(project.config_file)
    except ConfigError as error:
        return failure("configuration", error.message, error.advice or _edit(project)), None
    if not os.path.lexists(project.config_file):
        return ok("configuration", f"no {CONFIG_NAME} here or above {project.root}: using the defaults"), config
    return ok("configuration", str(project.config_file)), config


def specs(project: Project, config: Config) -> Finding:
    place = project.root / config.specs_path
    if not place.is_dir():
        problem = f"{place} {'is not a directory' if os.path.lexists(place) else 'does not exist'}"
        return warning(
            "specs", f"{problem}: agents have nothing to compare the code with", f"mkdir -p {quote(str(place))}"
        )
    if not any(entry.is_file() for entry in place.rglob("*")):
        return warning("specs", f"{place} is empty: agents have nothing to compare the code with", "Write a spec.")
    return ok("specs", str(place))


def lock(project: Project) -> Finding:
    """Report which command is running here. Only reads, so that no other command has to wait."""
    owner = read_owner(project)
    if owner is None:
        return ok("lock", "no command is running here")
    if owner.lives():
        since = owner.since.astimezone()
        return ok("lock", f"`{owner.command}` is running here, process {owner.pid}, since {since:%Y-%m-%d %H:%M}")
    return warning(
        "lock",
        f"`{owner.command}`, process {owner.pid}, died here; the next start ends what it left running",
        "cuggino run --resume    (to continue its session)",
    )


def notify(project: Project, config: Config) -> Finding | None:
    """Check the program for notifications; return None if none is configured."""
    settings = config.notify
    if not settings.command and not settings.events:
        return None
    if not settings.command or not settings.events:
        lacking = "events" if settings.command else "command"
        return warning("notify", f"`notify.{lacking}` is empty: no notifications are sent", _edit(project))
    program = settings.command[0]
    found = shutil.which(project.root / program if "/" in program else program)
    if found is None:
        return warning("notify", f"cannot find `{program}`, the program of `notify.command`", "Install it.")
    return ok("notify", f"{found}, for {', '.join(settings.events)}")


def _edit(project: Project) -> str:
    return f"$EDITOR {quote(str(project.config_file))}"
