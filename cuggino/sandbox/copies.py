"""Files in a sandbox that are not from its base: the specs as the person has them, and files that git ignores.

These are lent: none of them is ever integrated. Their hashes are recorded (some files are secrets), so that a change by
an agent is noticed. cuggino's own directory is lent too: it holds the item and the session's files.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from cuggino.errors import SandboxError
from cuggino.files import DECODE_ERRORS, write_atomic
from cuggino.project import STATE_NAME
from cuggino.sandbox.sandbox import Sandbox

_NAME = "cuggino-copies.json"


def mirror(source: Path, target: Path) -> bool:
    """Make `target` equal to `source`: a directory with everything below, a file, a link, or nothing.

    Returns whether anything was different. Equal files are not touched, so that git still takes them for unchanged.
    """
    if source.is_dir() and not source.is_symlink() and target.is_dir() and not target.is_symlink():
        names = {entry.name for folder in (source, target) for entry in os.scandir(folder)} - {".git"}
        changed = [mirror(source / name, target / name) for name in sorted(names)]
        return any(changed)
    if fingerprint(source) == fingerprint(target) and not source.is_dir():
        return False
    if target.is_dir() and not target.is_symlink():
        shutil.rmtree(target)
    else:
        target.unlink(missing_ok=True)
    if source.is_symlink():
        target.symlink_to(source.readlink())
    elif source.is_dir():
        shutil.copytree(source, target, symlinks=True, ignore=shutil.ignore_patterns(".git"))
    elif source.is_file():
        shutil.copy2(source, target)
    return True


def include(source: Path, target: Path, patterns: Iterable[str]) -> list[str]:
    """Copy the files below `source` that match a pattern and are missing in `target`. Returns their relative paths.

    A pattern that matches a directory includes everything below it.
    """
    copied = []
    for pattern in patterns:
        if pattern.startswith("/") or ".." in pattern.split("/"):
            raise SandboxError(
                f"spawn.include: {pattern!r} leads out of the project.", advice="Name files in the project."
            )
        for path in sorted(source.glob(pattern.rstrip("/"))):
            for file in _files(path):
                relative = file.relative_to(source)
                if not os.path.lexists(target / relative) and ".git" not in relative.parts:
                    _folder(target, relative.parent)
                    shutil.copy2(file, target / relative, follow_symlinks=False)
                    copied.append(str(relative))
    return list(dict.fromkeys(copied))


def _folder(target: Path, relative: Path) -> None:
    """Create the directory, but never behind a link, which the base may have where the person has a directory."""
    here = target
    for part in relative.parts:
        here /= part
        if here.is_symlink() or (here.exists() and not here.is_dir()):
            raise SandboxError(f"spawn.include: {relative} is a directory here, but not in the sandbox's base.")
        here.mkdir(exist_ok=True)


def remember(sandbox: Sandbox) -> None:
    """Record the current hashes of the lent files."""
    write_atomic(sandbox.git_dir / _NAME, msgspec.json.encode(_state(sandbox)))


def touched(sandbox: Sandbox) -> list[str]:
    """Return the lent files that were changed, created or deleted, relative to `sandbox.folder`.

    In the sandbox of a backlog item, copied files do not count: its setup and check commands write to them.
    """
    try:
        before = msgspec.json.decode((sandbox.git_dir / _NAME).read_bytes(), type=dict[str, str])
    except (OSError, *DECODE_ERRORS):
        return []
    now = _state(sandbox)
    changed = {path for path in before.keys() | now.keys() if before.get(path) != now.get(path)}
    if sandbox.item is not None:
        changed -= {printable(path) for path in sandbox.copied}
    return sorted(changed)


def lent(sandbox: Sandbox, path: str) -> bool:
    """Whether the file at this path, relative to `sandbox.folder`, is lent."""
    folders = (specs_path(sandbox), os.path.normpath(Path(sandbox.below, STATE_NAME)))
    below = any(path == folder or path.startswith(f"{folder}/") for folder in folders)
    return below or path in sandbox.copied


def specs_path(sandbox: Sandbox) -> str:
    """Return the specs directory, relative to `sandbox.folder`."""
    return os.path.normpath(Path(sandbox.below, sandbox.specs))


def _state(sandbox: Sandbox) -> dict[str, str]:
    """Return the lent files' fingerprints by path, in a form that JSON can hold."""
    copied = (sandbox.folder / path for path in sandbox.copied)
    files = [*_files(sandbox.folder / specs_path(sandbox)), *(path for path in copied if os.path.lexists(path))]
    return {printable(str(file.relative_to(sandbox.folder))): fingerprint(file) for file in files}


def printable(path: str) -> str:
    """Return the path for people and JSON: bytes that are not valid UTF-8 are escaped."""
    return os.fsencode(path).decode(errors="backslashreplace")


def _files(path: Path) -> Iterator[Path]:
    """Yield all files and links at and below a path, without following links."""
    if path.is_symlink() or path.is_file():
        yield path
    elif path.is_dir():
        for folder, folders, files in os.walk(path):
            folders[:] = sorted(set(folders) - {".git"})
            links = [name for name in folders if Path(folder, name).is_symlink()]
            yield from (Path(folder, name) for name in sorted([*files, *links]) if _is_plain(Path(folder, name)))


def _is_plain(path: Path) -> bool:
    mode = path.lstat().st_mode
    return stat.S_ISREG(mode) or stat.S_ISLNK(mode)


def fingerprint(path: Path) -> str:
    """Return a text that changes with a file's content or executable bit, or a link's target.

    For anything else it names the kind of file, or the error.
    """
    try:
        mode = path.lstat().st_mode
        if stat.S_ISLNK(mode):
            return f"link {hashlib.sha256(os.fsencode(path.readlink())).hexdigest()}"
        if stat.S_ISREG(mode):
            with path.open("rb") as file:
                return f"file {mode & 0o100:o} {hashlib.file_digest(file, 'sha256').hexdigest()}"
    except FileNotFoundError:
        return "nothing"
    except OSError as error:
        return f"unreadable: {error.strerror}"
    return f"mode {stat.S_IFMT(mode):o}"
