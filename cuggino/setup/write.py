"""Read and write the configuration file and the directories of a project.

The file is written last, and atomically: a setup that fails has changed no setting.
"""

from __future__ import annotations

import json
import os
import stat
from itertools import count
from pathlib import Path

import msgspec

from cuggino.config import decode, load
from cuggino.errors import ConfigError, StorageError
from cuggino.files import write_atomic
from cuggino.project import Project
from cuggino.setup.questions import Values, flatten, nest, salvage


class CurrentSettings(msgspec.Struct, frozen=True):
    """The current settings. `data` is the file, None if missing; with problems, `values` has the valid ones only."""

    values: Values
    data: bytes | None = None
    problems: tuple[str, ...] = ()


class SetupResult(msgspec.Struct, frozen=True):
    """The result of a setup. `text` is the file's content; `backup` is where an invalid file was kept."""

    text: str
    changed: bool
    backup: Path | None
    specs: Path


def read(path: Path) -> CurrentSettings:
    """Read the configuration file at `path`. Raise ConfigError if it exists but is not a readable file."""
    try:
        data = path.read_bytes()
    except OSError:
        load(path)  # raises the right error, unless the file does not exist
        return CurrentSettings({})
    try:
        decode(data, str(path))
    except ConfigError as error:
        values, problems = salvage(data, str(path))
        if not problems or any(problem not in str(error) for problem in problems):
            problems = [str(error), *problems]
        return CurrentSettings(values, data, tuple(problems))
    return CurrentSettings(dict(flatten(json.loads(data.decode("utf-8-sig")))), data)


def save(project: Project, values: Values, found: CurrentSettings) -> SetupResult:
    """Create missing directories and write `values`.

    Leave a file with the same settings unchanged. Copy an invalid file to an unused name first. Raise StorageError if
    the file has changed since `found`, or if something cannot be written.
    """
    if read(project.config_file).data != found.data:
        raise StorageError(
            f"{project.config_file} changed in the meantime; nothing was written.", advice="Run cuggino setup again."
        )
    whole = nest(values)
    config = decode(json.dumps(whole).encode(), str(project.config_file))
    specs = Path(os.path.normpath(project.root / config.specs_path))
    project.prepare()
    _create(specs)
    if found.data is not None and not found.problems and whole == nest(found.values):
        return SetupResult(found.data.decode("utf-8-sig"), changed=False, backup=None, specs=specs)
    backup = None
    mode = 0o644
    if found.data is not None:
        mode = stat.S_IMODE(project.config_file.stat().st_mode)
        if found.problems:
            backup = _keep(project.config_file, found.data, mode)
    text = json.dumps(whole, indent=2, ensure_ascii=False) + "\n"
    write_atomic(project.config_file, text, mode=mode, keep_link=True)
    return SetupResult(text, changed=True, backup=backup, specs=specs)


def _create(directory: Path) -> None:
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise StorageError(
            f"Cannot create the directory {directory}: a file is in the way.",
            advice="Move the file, or set another specsPath.",
        ) from error
    except OSError as error:
        raise StorageError(f"Cannot create the directory {directory}: {error.strerror}.") from error


def _keep(path: Path, data: bytes, mode: int) -> Path:
    """Copy the file at `path` to `….bak`, or to `….bak.2` and so on if that exists."""
    for number in count(1):
        backup = path.with_name(f"{path.name}.bak" + (f".{number}" if number > 1 else ""))
        try:
            with backup.open("xb") as file:
                os.fchmod(file.fileno(), mode)
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
        except FileExistsError:
            continue
        except OSError as error:
            raise StorageError(f"Cannot write {backup}: {error.strerror}.") from error
        return backup
    raise AssertionError("numbers do not end")
