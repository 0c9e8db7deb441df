"""git, looking at a sandbox's tree without believing it.

What lies in the tree is an agent's: a `.git` with hooks and settings of its own, attributes, submodules. So git is told
where its directory and its tree are, from outside; it runs no hook and no filter; and where a submodule is, it reads
the commit that is checked out there, and starts nothing in it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from cuggino.git.run import SAFE, git_output, run_git
from cuggino.sandbox.sandbox import Sandbox

SETTLED = "refs/worktree/cuggino/settled"
"""A ref of the sandbox's own git directory: what its branch was after the last settling."""

NOBODY = ("cuggino", "cuggino@localhost")
"""Name and address in commits where the person has not told git theirs."""

_LFS = ("git-lfs clean -- %f", "git-lfs smudge -- %f", "git-lfs filter-process")
_TRUE = ("", "true", "yes", "on", "1")
_FILTER_OFF = {"clean": "", "smudge": "", "process": "", "required": "false"}


def trusted(sandbox: Sandbox, *, index: Path | None = None) -> dict[str, str]:
    """The environment, to be laid over ours, in which git sees the sandbox: worktree or clone, it is the same.

    `index` stands in for the sandbox's own. Run git with `SAFE`, and with `sandbox.folder` as its folder.
    """
    environment = {
        "GIT_DIR": str(sandbox.git_dir),
        "GIT_WORK_TREE": str(sandbox.folder),
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_LITERAL_PATHSPECS": "1",
    }
    return environment if index is None else {**environment, "GIT_INDEX_FILE": str(index)}


class Filters(msgspec.Struct, frozen=True):
    """What keeps filters from running, and the names of those without which a file must not be committed."""

    environment: Mapping[str, str]
    required: frozenset[str]


async def filters_off(sandbox: Sandbox) -> Filters:
    """For commands that read or write the files of the tree: no filter runs but git-lfs's own.

    A filter is a command that may well be a script of the tree: `filter.x.clean = tools/clean`.
    """
    asked = ("config", "-z", "--get-regexp", r"^filter\.")
    listed = await run_git(sandbox.repository, *SAFE, *asked, environment=trusted(sandbox))
    settings: dict[str, dict[str, str]] = {}
    for entry in listed.stdout.split(b"\0")[:-1]:
        key, _, value = os.fsdecode(entry).partition("\n")
        name, _, setting = key.split(".", 1)[1].rpartition(".")
        settings.setdefault(name, {})[setting] = value
    off = {name: found for name, found in settings.items() if name != "lfs" or _foreign_to_lfs(found)}
    words = [(f"filter.{name}.{setting}", value) for name in off for setting, value in _FILTER_OFF.items()]
    required = (name for name, found in off.items() if found.get("required", "false").lower() in _TRUE)
    return Filters(configuration(words, os.environ), frozenset(required))


def _foreign_to_lfs(settings: Mapping[str, str]) -> bool:
    return any(value not in ("", *_LFS) for setting, value in settings.items() if setting != "required")


def configuration(settings: list[tuple[str, str]], inherited: Mapping[str, str]) -> dict[str, str]:
    """Variables that give git these settings above all others, behind those that `inherited` gives in this way."""
    given = inherited.get("GIT_CONFIG_COUNT", "")
    first = int(given) if given.isdecimal() else 0
    environment = {"GIT_CONFIG_COUNT": str(first + len(settings))}
    for number, (key, value) in enumerate(settings, first):
        environment |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    return environment


async def resolve(sandbox: Sandbox, name: str) -> str | None:
    """The commit that `name` means in the sandbox's own git directory; None if there is none."""
    asked = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
    done = await run_git(sandbox.repository, *SAFE, *asked, environment=trusted(sandbox))
    return done.stdout.decode().strip() or None if done.returncode == 0 else None


async def is_ancestor(sandbox: Sandbox, ancestor: str, of: str) -> bool:
    asked = ("merge-base", "--is-ancestor", ancestor, of)
    return (await run_git(sandbox.repository, *SAFE, *asked, environment=trusted(sandbox))).returncode == 0


async def ask(sandbox: Sandbox, *arguments: str, stdin: bytes = b"", more: Mapping[str, str] | None = None) -> bytes:
    """What git prints, run in the sandbox's tree with trusted eyes. GitError unless it succeeds."""
    environment = {**trusted(sandbox), **(more or {})}
    return await git_output(sandbox.folder, *SAFE, *arguments, environment=environment, stdin=stdin)


async def settled(sandbox: Sandbox, commit: str) -> None:
    """The branch is at this commit by cuggino's own doing: the next settling starts there."""
    await ask(sandbox, "update-ref", SETTLED, commit)
