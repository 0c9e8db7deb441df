"""Running git on a sandbox's tree without trusting it.

An agent can put anything into the tree: a `.git` with hooks and settings, attributes, submodules. So git gets its
directory and its tree from outside and runs no hook and no filter. In a submodule it only reads which commit is checked
out, and starts nothing.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from cuggino.git.run import SAFE, git_output, run_git
from cuggino.sandbox.sandbox import Sandbox

SETTLED = "refs/worktree/cuggino/settled"
"""A ref in the sandbox's own git directory: the commit of its branch after the last settling."""

NOBODY = ("cuggino", "cuggino@localhost")
"""Name and address in commits if the person has not configured theirs."""

_LFS = ("git-lfs clean -- %f", "git-lfs smudge -- %f", "git-lfs filter-process")
_TRUE = ("", "true", "yes", "on", "1")
_FILTER_OFF = {"clean": "", "smudge": "", "process": "", "required": "false"}


def trusted(sandbox: Sandbox, *, index: Path | None = None) -> dict[str, str]:
    """Return variables to add to the environment of git for a sandbox, be it a worktree or a clone.

    `index` replaces the sandbox's own index. Run git with `SAFE`, and in `sandbox.folder`.
    """
    environment = {
        "GIT_DIR": str(sandbox.git_dir),
        "GIT_WORK_TREE": str(sandbox.folder),
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_LITERAL_PATHSPECS": "1",
    }
    return environment if index is None else {**environment, "GIT_INDEX_FILE": str(index)}


class Filters(msgspec.Struct, frozen=True):
    """Variables that keep filters from running, and the names of those without which a file must not be committed."""

    environment: Mapping[str, str]
    required: frozenset[str]


async def filters_off(sandbox: Sandbox) -> Filters:
    """Return settings for commands that read or write files in the tree: no filter runs except git-lfs's own.

    A filter is a command, and can be a script in the tree: `filter.x.clean = tools/clean`.
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
    """Return variables that make git prefer these settings to all others. They follow those already in `inherited`."""
    given = inherited.get("GIT_CONFIG_COUNT", "")
    first = int(given) if given.isdecimal() else 0
    environment = {"GIT_CONFIG_COUNT": str(first + len(settings))}
    for number, (key, value) in enumerate(settings, first):
        environment |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    return environment


async def resolve(sandbox: Sandbox, name: str) -> str | None:
    """Return the commit of `name` in the sandbox's own git directory, or None."""
    asked = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
    done = await run_git(sandbox.repository, *SAFE, *asked, environment=trusted(sandbox))
    return done.stdout.decode().strip() or None if done.returncode == 0 else None


async def is_ancestor(sandbox: Sandbox, ancestor: str, of: str) -> bool:
    asked = ("merge-base", "--is-ancestor", ancestor, of)
    return (await run_git(sandbox.repository, *SAFE, *asked, environment=trusted(sandbox))).returncode == 0


async def ask(sandbox: Sandbox, *arguments: str, stdin: bytes = b"", more: Mapping[str, str] | None = None) -> bytes:
    """Run git on the sandbox's tree with `trusted` and return its output. Raise GitError if it fails."""
    environment = {**trusted(sandbox), **(more or {})}
    return await git_output(sandbox.folder, *SAFE, *arguments, environment=environment, stdin=stdin)


async def settled(sandbox: Sandbox, commit: str) -> None:
    """Record that cuggino itself moved the branch to this commit: the next settling starts there."""
    await ask(sandbox, "update-ref", SETTLED, commit)
