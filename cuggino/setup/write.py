"""The file and the folders of a project: what is there, and what comes there.

The file comes last, and whole: a setup that fails midway has changed no setting.
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
from cuggino.setup.questions import Values, flat, nested, salvaged


class Found(msgspec.Struct, frozen=True):
    """What is set already. `data` is the file, None if there is none; with problems, `values` is what could be kept."""

    values: Values
    data: bytes | None = None
    problems: tuple[str, ...] = ()


class Saved(msgspec.Struct, frozen=True):
    """What was written. `text` is the file's content now; `backup` is where a broken one is kept."""

    text: str
    changed: bool
    backup: Path | None
    specs: Path


def read(path: Path) -> Found:
    """What the configuration file at `path` says. ConfigError if there is something that is no readable file."""
    try:
        data = path.read_bytes()
    except OSError:
        load(path)  # says what is there instead; if nothing is, it does not raise
        return Found({})
    try:
        decode(data, str(path))
    except ConfigError as error:
        values, problems = salvaged(data, str(path))
        return Found(values, data, tuple(dict.fromkeys([str(error), *problems])))
    return Found(dict(flat(json.loads(data.decode("utf-8-sig")))), data)


def save(project: Project, values: Values, found: Found) -> Saved:
    """Make the folders that are missing and write `values`. StorageError.

    A file that says the same already is left alone. A broken one is kept beside, under a name that was free.
    If the file is not as `found` any more, nothing is written.
    """
    if read(project.config_file).data != found.data:
        raise StorageError(
            f"{project.config_file} was changed meanwhile: nothing was written.", advice="Run cuggino setup again."
        )
    whole = nested(values)
    config = decode(json.dumps(whole).encode(), str(project.config_file))
    specs = Path(os.path.normpath(project.root / config.specs_path))
    project.prepare()
    _make(specs)
    if found.data is not None and not found.problems and whole == nested(found.values):
        return Saved(found.data.decode("utf-8-sig"), changed=False, backup=None, specs=specs)
    backup = None
    mode = 0o644
    if found.data is not None:
        mode = stat.S_IMODE(project.config_file.stat().st_mode)
        if found.problems:
            backup = _keep(project.config_file, found.data, mode)
    text = json.dumps(whole, indent=2, ensure_ascii=False) + "\n"
    write_atomic(project.config_file, text, mode=mode)
    return Saved(text, changed=True, backup=backup, specs=specs)


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise StorageError(
            f"{folder} cannot be a folder: a file is in its way.", advice="Move it away, or set another specsPath."
        ) from error
    except OSError as error:
        raise StorageError(f"{folder} cannot be made: {error.strerror}.") from error


def _keep(path: Path, data: bytes, mode: int) -> Path:
    """A copy of the file at `path`: `….bak`, or `….bak.2` and so on if that is taken."""
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
            raise StorageError(f"{backup} cannot be written: {error.strerror}.") from error
        return backup
    raise AssertionError("numbers do not end")
