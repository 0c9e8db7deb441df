"""git: whether there is one, whether this is a repository, and whether commits would work."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from shlex import quote

from cuggino.doctor.finding import Finding, failure, ok, warning
from cuggino.doctor.programs import ProgramOutput, Programs
from cuggino.git import git_environment

_INSTALL = "apt-get install git    (macOS: xcode-select --install)"
_WHO = 'git config --global user.name "Your Name" && git config --global user.email you@example.com'


async def repository(programs: Programs, *, commit: bool) -> list[Finding]:
    """git, then the repository, then commits: each only if the one before it is there.

    Where cuggino does not `commit`, nothing of it is needed: what is missing is a warning.
    """
    missing = failure if commit else warning
    questions = _Questions(programs)
    try:
        version = await questions.ask("--version")
    except OSError as error:
        return [missing("git", f"git cannot be run: {error.strerror}", _INSTALL)]
    if version is None:
        return [warning("git", "git does not answer", "git --version")]
    if version.status != 0:
        return [missing("git", version.words, _INSTALL)]
    git = ok("git", version.out.removeprefix("git version "))
    inside = await questions.ask("rev-parse", "--is-inside-work-tree")
    if inside is None:
        return [git, warning("repository", "git does not answer", "git status")]
    if inside.out != "true":
        return [git, missing("repository", *_no_repository(inside))]
    head = await questions.ask("rev-parse", "--verify", "--quiet", "--short", "HEAD^{commit}")
    if head is None or head.status != 0:
        first = 'git commit --allow-empty -m "Start"'
        found = missing("repository", "there is no commit yet: a review has nothing to compare with", first)
    else:
        found = ok("repository", f"at {head.out}")
    obstacle = await _obstacle(questions)
    if obstacle is not None:
        return [git, found, missing("commits", *obstacle)]
    if not commit:
        return [git, found, ok("commits", "would work; `commit` is off, so that they are yours to make")]
    return [git, found, await _commits(questions)]


class _Questions:
    """Put to git as cuggino's commits would be."""

    def __init__(self, programs: Programs) -> None:
        self.root = programs.root
        self._programs = programs
        self._environment: Mapping[str, str] = {**git_environment(), "GIT_OPTIONAL_LOCKS": "0"}

    async def ask(self, *arguments: str) -> ProgramOutput | None:
        argv = ("git", "-c", "core.fsmonitor=false", *arguments)
        return await self._programs.ask(*argv, environment=self._environment)


def _no_repository(answer: ProgramOutput) -> tuple[str, str]:
    if found := re.search(r"^\s*(git config --global --add safe\.directory .+)$", answer.words, re.MULTILINE):
        return "the repository belongs to somebody else, and git does not look into it", found[1]
    if answer.out == "false":
        return "this is inside a .git folder, or a bare repository", "Go to a working tree."
    if "not a git repository" in answer.words:
        return "this is no git repository", "git init"
    return answer.words, "git status"


async def _obstacle(questions: _Questions) -> tuple[str, str] | None:
    """What would make any commit fail, and what mends it."""
    for who in ("AUTHOR", "COMMITTER"):
        identity = await questions.ask("var", f"GIT_{who}_IDENT")
        if identity is not None and identity.status != 0:
            return "git does not know who commits: name and email are not set", _WHO
    unmerged = await questions.ask("ls-files", "--unmerged")
    if unmerged is not None and unmerged.out:
        return "there are unmerged files", "git status    (end the merge, or git merge --abort)"
    index = await questions.ask("rev-parse", "--git-path", "index.lock")
    if index is not None and index.status == 0:
        lock = questions.root / index.out
        if os.path.lexists(lock):
            return (
                f"{lock} is there: another git works, or has died",
                f"rm {quote(str(lock))}    (if no git is running)",
            )
    return None


async def _commits(questions: _Questions) -> Finding:
    identity = await questions.ask("var", "GIT_AUTHOR_IDENT")
    name = re.sub(r" \d+ [+-]\d+$", "", identity.out) if identity is not None else "somebody"
    signed = await questions.ask("config", "--type=bool", "commit.gpgsign")
    if signed is not None and signed.out == "true":
        text = f"as {name}, and signed: this must work without a passphrase, as nobody is there to give it"
        return warning("commits", text, "git config commit.gpgsign false    (for this repository only)")
    return ok("commits", f"as {name}")
