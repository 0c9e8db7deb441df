"""`.cuggino.json`: the settings of a project.

The structs below are the only description of the file: they have the defaults, types and ranges, and errors, the JSON
Schema and the questions of `cuggino setup` are made from them.
"""

from __future__ import annotations

import posixpath
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias, get_args

import msgspec
from msgspec import Meta

from cuggino import strict_json
from cuggino.errors import ConfigError
from cuggino.events import PrintableEvent
from cuggino.roles import Role

BackendName: TypeAlias = Literal["claude", "codex", "gemini", "opencode", "scripted"]
Integrate: TypeAlias = Literal["pr", "merge", "branch"]
Threads: TypeAlias = Literal["all", "bots", "none"]
if TYPE_CHECKING:
    EventName: TypeAlias = str
else:
    EventName = Literal[tuple(sorted(event.__name__ for event in get_args(PrintableEvent)))]

_NotBlank = Annotated[str, Meta(pattern=r"\A[^\0]*[^\s\0][^\0]*\Z", description="a non-blank string")]
_SecretReference = Annotated[
    str, Meta(pattern=r"\A(env:[A-Za-z_]\w*|file:[^\0]*[^\s\0][^\0]*)\Z", description='"env:NAME" or "file:PATH"')
]
_Seconds = Annotated[float, Meta(gt=0, description="a number of seconds > 0")]
_Dollars = Annotated[float, Meta(gt=0, description="a number of US dollars > 0")]
_Count = Annotated[int, Meta(ge=0)]
_AtLeastOne = Annotated[int, Meta(ge=1)]


class _Section(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """An object in the file, with camelCase keys and no others."""


class Agents(_Section, frozen=True, kw_only=True):
    """The backend of each role; None means `Config.agent`."""

    planner: BackendName | None = None
    implementer: BackendName | None = None
    reviewer: BackendName | None = None
    audit: BackendName | None = None


class Limits(_Section, frozen=True, kw_only=True):
    """What ends an agent, a command or a loop. Times in seconds; the last two apply to one loop."""

    idle_timeout: _Seconds = 1800
    agent_timeout: _Seconds = 7200
    command_timeout: _Seconds | None = None
    nudges: _Count = 2
    retries: _Count = 5
    max_tasks: _AtLeastOne = 50
    max_cost_usd: _Dollars | None = None
    max_runtime: _Seconds | None = None


class SpawnSettings(_Section, frozen=True, kw_only=True):
    """Sandboxes. `root` is the directory for worktrees; None means below `$XDG_STATE_HOME/cuggino`."""

    root: _NotBlank | None = None
    include: tuple[_NotBlank, ...] = ()
    secrets: tuple[_SecretReference, ...] = ()
    never_allow: tuple[_NotBlank, ...] = (
        *("sudo", "git push", "gh", "cuggino", "claude", "codex", "gemini", "opencode"),
        *(".git/**", ".cuggino.json"),
    )
    launcher: tuple[_NotBlank, ...] = ()
    integrate: Integrate | None = None
    repair_attempts: _Count = 2


class CiSettings(_Section, frozen=True, kw_only=True):
    """Which review threads a CI watch acts on, and its maximum number of polls."""

    threads: Threads = "all"
    trusted_bots: tuple[_NotBlank, ...] = ()
    max_iterations: _AtLeastOne = 90


class NotifySettings(_Section, frozen=True, kw_only=True):
    """A program to run when one of these events happens."""

    command: tuple[_NotBlank, ...] = ()
    events: tuple[EventName, ...] = ()


class Config(_Section, frozen=True, kw_only=True):
    """The whole file. `Config()` applies where there is none."""

    specs_path: Annotated[str, Meta(description="a relative path below the project root")] = ".specs"
    max_iterations: _AtLeastOne = 10
    setup_command: _NotBlank | None = None
    check_command: _NotBlank | None = None
    validate_command: _NotBlank | None = None
    gate: bool = True
    commit: bool = False
    audit: bool = False
    agent: BackendName = "claude"
    agents: Agents = Agents()
    model: _NotBlank | None = None
    limits: Limits = Limits()
    spawn: SpawnSettings = SpawnSettings()
    ci: CiSettings = CiSettings()
    notify: NotifySettings = NotifySettings()

    def backend(self, role: Role) -> BackendName:
        """Return the backend of `role`: the one in `agents`, or else `agent`."""
        chosen: BackendName | None = getattr(self.agents, role.value, None)
        return chosen or self.agent


def load(path: Path) -> Config:
    """Return the configuration in the file, or the defaults if there is no file. Raise ConfigError."""
    try:
        if stat.S_ISFIFO(path.stat().st_mode):  # reading would wait for ever
            raise ConfigError(f"{path}: a named pipe; expected a JSON file.", advice="Delete it.")
        data = path.read_bytes()
    except FileNotFoundError as error:
        if path.is_symlink():
            raise ConfigError(f"{path}: a link to a file that does not exist.", advice="Fix or delete it.") from error
        return Config()
    except IsADirectoryError as error:
        raise ConfigError(f"{path}: a directory; expected a JSON file.", advice="Move it away.") from error
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror or error}.") from error
    return decode(data, str(path))


def decode(data: bytes, where: str) -> Config:
    """Return the configuration in `data`. Raise ConfigError, which names the file by `where`."""
    config = strict_json.decode(data, Config, where)
    if reason := _misplaced(config.specs_path):
        raise strict_json.refusal(Config, ["specsPath"], config.specs_path, where, reason)
    return config


def _misplaced(specs_path: str) -> str:
    """Return why the specs cannot be there, or an empty string."""
    normal = posixpath.normpath(specs_path)
    if not specs_path.strip() or "\0" in specs_path:
        return "is not a path"
    if normal.startswith("/"):
        return "is absolute"
    if normal == ".":
        return "is the whole project"
    return "leaves the project" if normal.split("/")[0] == ".." else ""
