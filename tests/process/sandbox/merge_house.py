"""A repository, and sandboxes of it that are worktrees made by plain git."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeAlias

import pytest

from cuggino.clock import uuid7
from cuggino.events import Event
from cuggino.manifest import Bounds, Permits, SandboxManifest
from cuggino.sandbox.sandbox import Sandbox

Files: TypeAlias = Mapping[str, str | bytes | None]

PERMITS = Permits(manifest=SandboxManifest(), bounds=Bounds.of((), ".specs"))


def git(root: Path, *arguments: str, check: bool = True) -> str:
    done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, check=False)
    if check and done.returncode != 0:
        raise AssertionError(f"git {arguments}: {done.stdout.decode()}{done.stderr.decode()}")
    return done.stdout.decode(errors="surrogateescape").strip()


def nobodys_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith(("GIT_", "EMAIL", "XDG_", "GH_"))]:
        monkeypatch.delenv(name)
    home = tmp_path / "home"
    home.mkdir(exist_ok=True)
    (home / ".gitconfig").write_text("[user]\nname = Ada\nemail = ada@example.org\n[init]\ndefaultBranch = main\n")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")


def write(root: Path, files: Files) -> None:
    """Write files; delete those whose text is None."""
    for name, text in files.items():
        path = root / name
        if text is None:
            path.unlink()
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())


def commit(root: Path, files: Files, message: str = "a change") -> str:
    write(root, files)
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--allow-empty", "-m", message)
    return git(root, "rev-parse", "HEAD")


def new_repository(root: Path, files: Files) -> Path:
    root.mkdir()
    git(root, "init", "--quiet")
    commit(root, {".gitignore": "/.cuggino/\n/.specs/\n*.ignored\n", **files}, "first")
    return root


def new_sandbox(repository: Path, folder: Path, *, below: str = "", target: str | None = "main") -> Sandbox:
    name = uuid7()
    git(repository, "worktree", "add", "--quiet", "-b", f"spawn/{name}", str(folder / name))
    return Sandbox(
        id=name,
        repository=repository,
        common_dir=repository / ".git",
        folder=folder / name,
        below=below,
        git_dir=repository / ".git" / "worktrees" / name,
        branch=f"spawn/{name}",
        base=git(repository, "rev-parse", "HEAD"),
        target=target,
        title="Do the thing",
        created_at=datetime.now(UTC).replace(microsecond=0),
    )


def tip(sandbox: Sandbox) -> str:
    return git(sandbox.repository, "rev-parse", f"refs/heads/{sandbox.branch}")


def tree(folder: Path) -> dict[str, bytes | str]:
    """Return all files below, except git's: their bytes, or a link's target."""
    found: dict[str, bytes | str] = {}
    for path in sorted(folder.rglob("*")):
        relative = path.relative_to(folder)
        if ".git" in relative.parts:
            continue
        if path.is_symlink():
            found[str(relative)] = str(path.readlink())
        elif path.is_file():
            found[str(relative)] = path.read_bytes()
    return found


def lines(*, first: int = 1, last: int = 40, **inserted: str) -> str:
    """Return numbered lines. `after_20="x\\ny"` inserts lines after line 20; `line_5="x"` replaces line 5."""
    text = []
    for number in range(first, last + 1):
        text.append(inserted.get(f"line_{number}", str(number)))
        if more := inserted.get(f"after_{number}"):
            text.append(more)
    return "\n".join(text) + "\n"


class Killed(Exception):
    """Raised in place of a crash."""


class Sent:
    """The events that were sent."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    async def __call__(self, event: Event) -> None:
        self.events.append(event)

    def __iter__(self) -> Iterator[Event]:
        return iter(self.events)
