"""git: whether it is installed, whether this is a repository, and whether commits would work."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from shlex import quote

from cuggino.doctor.finding import Finding, failure, ok, warning
from cuggino.doctor.programs import ProgramOutput, Programs
from cuggino.git import git_environment

_INSTALL = "apt-get install git    (macOS: xcode-select --install)"
_WHO = 'git config --global user.name "Your Name" && git config --global user.email you@example.com'


async def repository(programs: Programs, *, commit: bool) -> list[Finding]:
    """Check git, then the repository, then commits; stop at the first that is missing.

    Without `commit`, cuggino needs none of them, and what is missing is a warning.
    """
    missing = failure if commit else warning
    questions = _Questions(programs)
    try:
        version = await questions.ask("--version")
    except OSError as error:
        return [missing("git", f"cannot run git: {error.strerror}", _INSTALL)]
    if version is None:
        return [warning("git", "git does not answer", "git --version")]
    if version.status != 0:
        return [missing("git", version.message, _INSTALL)]
    git = ok("git", version.out.removeprefix("git version "))
    inside = await questions.ask("rev-parse", "--is-inside-work-tree")
    if inside is None:
        return [git, warning("repository", "git does not answer", "git status")]
    if inside.out != "true":
        return [git, missing("repository", *_no_repository(inside, at_home=_is_home(programs)))]
    head = await questions.ask("rev-parse", "--verify", "--quiet", "--short", "HEAD^{commit}")
    if head is None or head.status != 0:
        first = 'git commit --allow-empty -m "Start"'
        found = missing("repository", "no commit yet: reviews have nothing to compare with", first)
    else:
        found = ok("repository", f"at {head.out}")
    obstacle = await _obstacle(questions)
    if obstacle is not None:
        return [git, found, missing("commits", *obstacle)]
    if not commit:
        return [git, found, ok("commits", "would work; `commit` is off, so you make them")]
    return [git, found, await _commits(questions)]


class _Questions:
    """Asks git in the environment of cuggino's commits."""

    def __init__(self, programs: Programs) -> None:
        self.root = programs.root
        self._programs = programs
        self._environment: Mapping[str, str] = {**git_environment(), "GIT_OPTIONAL_LOCKS": "0"}

    async def ask(self, *arguments: str) -> ProgramOutput | None:
        argv = ("git", "-c", "core.fsmonitor=false", *arguments)
        return await self._programs.ask(*argv, environment=self._environment)


def _is_home(programs: Programs) -> bool:
    home = programs.environment.get("HOME")
    return bool(home) and programs.root.resolve() == Path(str(home)).resolve()


def _no_repository(answer: ProgramOutput, *, at_home: bool) -> tuple[str, str]:
    if found := re.search(r"^\s*(git config --global --add safe\.directory .+)$", answer.message, re.MULTILINE):
        return "another user owns the repository, so git refuses to read it", found[1]
    if answer.out == "false":
        return "inside a .git directory or a bare repository", "Change to a working tree."
    if "not a git repository" in answer.message:
        fix = "Change to your project's directory: this is your home directory." if at_home else "git init"
        return "not a git repository", fix
    return answer.message, "git status"


async def _obstacle(questions: _Questions) -> tuple[str, str] | None:
    """Return what would make every commit fail, and its fix."""
    for who in ("AUTHOR", "COMMITTER"):
        identity = await questions.ask("var", f"GIT_{who}_IDENT")
        if identity is not None and identity.status != 0:
            return "git does not know your name and email", _WHO
    unmerged = await questions.ask("ls-files", "--unmerged")
    if unmerged is not None and unmerged.out:
        return "there are unmerged files", "git merge --abort    (or finish the merge)"
    index = await questions.ask("rev-parse", "--git-path", "index.lock")
    if index is not None and index.status == 0:
        lock = questions.root / index.out
        if os.path.lexists(lock):
            return (
                f"{lock} exists: another git is running or has died",
                f"rm {quote(str(lock))}    (if no git is running)",
            )
    return None


async def _commits(questions: _Questions) -> Finding:
    identity = await questions.ask("var", "GIT_AUTHOR_IDENT")
    name = re.sub(r" \d+ [+-]\d+$", "", identity.out) if identity is not None else "somebody"
    signed = await questions.ask("config", "--type=bool", "commit.gpgsign")
    if signed is not None and signed.out == "true":
        text = f"as {name}, signed: signing must not ask for a passphrase, since nobody is there to enter it"
        return warning("commits", text, "git config commit.gpgsign false    (for this repository only)")
    return ok("commits", f"as {name}")
