"""A person's repository, an agent's commits in a sandbox, and everything of the person's that must not change."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

from cuggino.config import Config, SpawnSettings
from cuggino.manifest import Bounds, Permits, SandboxManifest
from cuggino.project import Project
from cuggino.sandbox.sandbox import Sandbox

LAUNCHER = ("env",)
"""Any launcher makes the sandbox a clone; this one only runs its arguments."""


def git(root: Path, *arguments: str | bytes, environment: Mapping[str, str] | None = None) -> str:
    done = subprocess.run(["git", *arguments], cwd=root, env=environment, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode(errors="surrogateescape")


def has(repository: Path, commit: str) -> bool:
    done = subprocess.run(["git", "cat-file", "-e", commit], cwd=repository, capture_output=True, check=False)
    return done.returncode == 0


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


class Person:
    """A project with one commit (`kept`, `folder/file`, a spec) and an ignored `.env`, in the directory `below`."""

    def __init__(self, top: Path, below: str = "") -> None:
        self.top = top
        self.root = top / below
        self.root.mkdir(parents=True)
        git(top, "init", "-q")
        write(self.root / "kept", "as it was\n")
        write(self.root / "folder" / "file", "in a folder\n")
        write(self.root / ".specs" / "app.md", "be good\n")
        write(self.root / ".gitignore", ".env\nbuild/\n.cuggino/\n")
        write(self.root / ".env", "PASSWORD=swordfish\n")
        git(top, "add", ".")
        git(top, "commit", "-qm", "first")

    @property
    def project(self) -> Project:
        return Project.find(self.root)

    def config(self, *, launcher: tuple[str, ...] = (), include: tuple[str, ...] = ()) -> Config:
        return Config(spawn=SpawnSettings(root=str(self.top.parent / "sandboxes"), launcher=launcher, include=include))

    @property
    def branches(self) -> list[str]:
        return git(self.top, "for-each-ref", "--format=%(refname:short)", "refs/heads").split()

    def log(self, *arguments: str) -> list[str]:
        """Return the subjects of commits, latest first."""
        return git(self.top, "log", "--format=%s", *arguments).splitlines()

    def changed(self, sandbox: Sandbox) -> list[str]:
        """Return status and name of each file that differs between main and the sandbox's branch."""
        options = ("--name-status", "--no-renames", "-z", f"main..{sandbox.branch}")
        listed = git(self.top, "diff", *options).split("\0")[:-1]
        return sorted(f"{status} {name}" for status, name in zip(listed[::2], listed[1::2], strict=True))

    def belongings(self) -> dict[str, object]:
        """Return everything that must stay the same: the tree, the index, HEAD, branches, stash, configuration."""
        git_dir = Path(git(self.top, "rev-parse", "--path-format=absolute", "--git-common-dir").strip())
        tree = {
            str(path.relative_to(self.top)): path.readlink()
            if path.is_symlink()
            else (path.read_bytes(), path.stat().st_mode)
            for path in sorted(self.top.rglob("*"))
            if (path.is_symlink() or path.is_file())
            and not {".git", ".cuggino"} & set(path.relative_to(self.top).parts)
        }
        names = ("index", "HEAD", "config", "info/exclude", "refs/stash", "logs/HEAD", "logs/refs/stash")
        own = {name: (git_dir / name).read_bytes() for name in names if (git_dir / name).exists()}
        refs = git(self.top, "for-each-ref", "--format=%(refname) %(objectname)").splitlines()
        return {"tree": tree, "refs": [ref for ref in refs if not ref.startswith("refs/heads/spawn/")], **own}


def permits(*writable: str) -> Permits:
    manifest = SandboxManifest(writable_paths=writable) if writable else SandboxManifest()
    return Permits(manifest=manifest, bounds=Bounds.of((".git/**", ".cuggino.json", "git push"), ".specs"))


def commit(sandbox: Sandbox, message: str, *arguments: str) -> str:
    """Commit everything in the sandbox as the agent. Returns the commit."""
    git(sandbox.folder, "add", *(arguments or ("--all",)))
    git(sandbox.folder, "commit", "-qm", message)
    return git(sandbox.folder, "rev-parse", "HEAD").strip()


def files(root: Path) -> list[str]:
    """Return all files and links below a directory, except git's."""
    found = (path.relative_to(root) for path in root.rglob("*") if path.is_symlink() or not path.is_dir())
    return sorted(str(path) for path in found if ".git" not in path.parts)


def listing(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
