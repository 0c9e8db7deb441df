"""Creates the demo project: a git repository with a spec, two backlog items and a script for the scripted agent.

The files are in `files/`. The script has the turns of one loop after another, in the order of the backlog.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import msgspec

from cuggino.errors import GitError
from cuggino.project import Project


class DemoProject(msgspec.Struct, frozen=True):
    """The demo project: its root, and its backlog items in the order of work."""

    root: Path
    items: tuple[Path, ...]


def create_project(directory: Path) -> DemoProject:
    """Create the project in `directory`, which must be empty or absent; its first commit has the spec and no code.

    Independent of git's configuration on this machine. Raise GitError if git fails.
    """
    root = directory.resolve()
    project = Project(root)
    data = files(__package__) / "files"
    items = sorted(entry.name for entry in (data / "backlog").iterdir())
    texts = {
        project.config_file: json.dumps(_configuration(), indent=2) + "\n",
        root / ".gitignore": (data / "gitignore").read_text(),
        root / "README.md": (data / "README.md").read_text(),
        root / ".specs" / "bill.md": (data / "specs" / "bill.md").read_text(),
        root / "tests" / "__init__.py": "",
    }
    for path, text in texts.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    _first_commit(root)
    project.prepare()
    for name in items:
        (project.backlog / name).write_text((data / "backlog" / name).read_text())
    (project.state_dir / "script.json").write_text((data / "script.json").read_text())
    return DemoProject(root, tuple(project.backlog / name for name in items))


def _configuration() -> dict[str, object]:
    python = shlex.quote(sys.executable)
    return {
        "agent": "scripted",
        "commit": True,
        "setupCommand": f"{python} --version",
        "checkCommand": f"{python} -B -m unittest discover -s tests -t .",
    }


def _first_commit(root: Path) -> None:
    """Commit without the person's global hooks, templates and signing."""
    _git(root, "init", "--quiet", "--template=", "--initial-branch=main")
    settings = {
        "user.name": "cuggino demo",
        "user.email": "demo@cuggino.invalid",
        "commit.gpgSign": "false",
        "core.hooksPath": str(root / ".git" / "hooks"),
        "core.autocrlf": "false",
    }
    for name, value in settings.items():
        _git(root, "config", "--local", name, value)
    _git(root, "add", "--all")
    _git(root, "commit", "--quiet", "--message", "Specify how a bill is split")


def _git(root: Path, *arguments: str) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        done = subprocess.run(
            ["git", *arguments], cwd=root, env=environment, stdin=subprocess.DEVNULL, capture_output=True, check=False
        )
    except OSError as error:
        raise GitError(f"Cannot run git: {error}", advice="Install git: the demo makes commits.") from error
    if done.returncode:
        raise GitError(f"git {arguments[0]} failed in {root}: {done.stderr.decode(errors='replace').strip()}")
