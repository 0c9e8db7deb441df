"""Whose project it is: commands work only in what the person owns, and believe nothing that a checkout brought.

Others write a tree: whoever committed to a repository that was cloned, or whoever can write its folder. So what git
tracks below `.cuggino` is refused, except for what people share there, and so is a project that others can change.
"""

from __future__ import annotations

import os
import shlex
import stat
import subprocess
from pathlib import Path, PurePosixPath

from cuggino.errors import GitError, TrustError
from cuggino.git.run import SAFE, cannot_run, git_environment, refusal, run_git
from cuggino.output.text import visible_name
from cuggino.project import CONFIG_NAME, STATE_NAME, Project

SHARED_FOLDERS = ("backlog", "spec-issues", "tbd", "prompts")
"""Below `.cuggino`: what a repository may bring. Their content is text for agents and people."""
SHARED_FILES = ("script.json", ".gitignore")

_NAMED = 5
"""How many files a message names."""
_ICASE = f":(icase){STATE_NAME}"  # a file system may not distinguish `.Cuggino` from `.cuggino`
_LIST = (*SAFE, "ls-files", "-z", "--", _ICASE)
_MESSAGES = {"LC_ALL": "C"}


def find_project(start: Path | None = None) -> Project:
    """Return the person's project at `start`, or else at the current directory, without changing anything.

    Raise TrustError if others own it or can write to it, or if its `.cuggino` is a link that git brought; and
    StorageError if anything but cuggino's own folders and files is in their place.
    """
    project = Project.find(start or Path.cwd())
    for path in (project.root, project.state_dir, project.config_file):
        _check_owner(path)
    project.check()
    if project.state_dir.is_symlink():
        _check_link(project)
    return project


async def refuse_tracked(project: Project) -> None:
    """Raise TrustError if git tracks files below `.cuggino` that only cuggino may write. Without git, do nothing."""
    try:
        done = await run_git(project.root, *_LIST, environment=_MESSAGES)
    except GitError as error:
        if isinstance(error.__cause__, FileNotFoundError) and project.root.is_dir():
            return
        raise
    _refuse(project, foreign_files(done.returncode, done.stdout, done.stderr))


def foreign_files(status: int, printed: bytes, errors: bytes) -> list[str]:
    """Return which of the files that `git ls-files` printed may not be in a repository. Raise GitError if it failed."""
    if status != 0:
        if b"not a git repository" in errors or b"must be run in a work tree" in errors:
            return []
        raise refusal(status, printed + errors)
    return [name for name in os.fsdecode(printed).split("\0")[:-1] if not _is_shared(name)]


def _is_shared(name: str) -> bool:
    top, *inner = PurePosixPath(name).parts
    if top != STATE_NAME or not inner:
        return False
    return inner[0] in SHARED_FOLDERS if len(inner) > 1 else inner[0] in SHARED_FILES


def _check_link(project: Project) -> None:
    """Raise TrustError if git tracks `.cuggino` itself, as a link."""
    try:
        done = subprocess.run(
            ("git", *_LIST),
            cwd=project.root,
            env={**git_environment(), **_MESSAGES},
            stdin=subprocess.DEVNULL,
            capture_output=True,
        )
    except FileNotFoundError:
        return
    except OSError as error:
        raise cannot_run(error, project.root) from error
    _refuse(project, foreign_files(done.returncode, done.stdout, done.stderr))


def _refuse(project: Project, names: list[str]) -> None:
    if not names:
        return
    shown = [f"  {visible_name(name)}" for name in names[:_NAMED]]
    if len(names) > _NAMED:
        shown.append(f"  and {len(names) - _NAMED} more")
    paths = " ".join(dict.fromkeys(shlex.quote(visible_name("/".join(name.split("/")[:2]))) for name in names[:_NAMED]))
    raise TrustError(
        f"git tracks files below {project.state_dir} that only cuggino may write:\n" + "\n".join(shown),
        advice=f"If you did not put them there, do not work in this repository. To remove them: git rm -r --cached "
        f"{paths}, then delete them.",
    )


# ---- owners ------------------------------------------------------------------------------------


def _check_owner(path: Path) -> None:
    """Raise TrustError if the path exists, and another user than this one or root owns or can write it."""
    try:
        status = path.stat() if path.name == CONFIG_NAME else path.lstat()
    except OSError:
        return
    shown = visible_name(str(path))
    quoted = shlex.quote(shown)
    if status.st_uid not in (os.geteuid(), 0):
        raise TrustError(
            f"{shown} belongs to another user ({_user(status.st_uid)}), whose files could run programs as you.",
            advice=f"If you trust all of its content, make it yours: chown -R {_user(os.geteuid())} {quoted}",
        )
    if stat.S_ISLNK(status.st_mode) or status.st_mode & stat.S_ISVTX:
        return
    writers = "others" if status.st_mode & stat.S_IWOTH else "its group" if status.st_mode & stat.S_IWGRP else ""
    if not writers or (writers == "its group" and _is_own_group(status.st_gid)):
        return
    raise TrustError(
        f"{shown} can be written by {writers}, whose files could run programs as you.",
        advice=f"If you trust all of its content, close it: chmod go-w {quoted}",
    )


def _user(uid: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _is_own_group(gid: int) -> bool:
    """Return whether the group has no other member: many systems give each user a group of that kind, and umask 002."""
    import grp
    import pwd

    try:
        group, person = grp.getgrgid(gid), pwd.getpwuid(os.geteuid())
    except KeyError:
        return False
    return group.gr_name == person.pw_name and set(group.gr_mem) <= {person.pw_name}
