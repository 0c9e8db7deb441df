"""Build the environment of agents and commands in a sandbox; it is never inherited as a whole.

It holds the person's PATH, HOME and locale, the variables of the agent's login, those of the manifest, and the secrets
that were lent. Nothing in it leads git or gh to the person's credentials. Only a launcher keeps an agent from files in
the home directory.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from cuggino.git.run import SAFE, run_git
from cuggino.manifest import SandboxManifest
from cuggino.sandbox.git import NOBODY, configuration
from cuggino.sandbox.sandbox import Sandbox

_INHERITED = (
    *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "TMPDIR", "TZ", "TERM", "COLORTERM", "NO_COLOR"),
    *("LANG", "LANGUAGE", "LC_*", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"),
)
_NEVER_INHERITED = ("GH_*", "GITHUB_*", "GIT_*", "SSH_*", "GPG_*")
"""Not even if an agent's login patterns match them."""
_NEVER_FROM_A_MANIFEST = (
    *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "TMPDIR", "XDG_*", "LD_*", "DYLD_*", "GIT_*", "GH_*", "SSH_*"),
    *("NODE_OPTIONS", "BASH_ENV", "ENV", "SHELLOPTS", "BASHOPTS", "PS4", "IFS", "PROMPT_COMMAND", "CUGGINO_*"),
)
"""Variables that change which programs run, or what runs inside them: a task must not set those."""

_SECRET_NAMES = ("*KEY*", "*TOKEN*", "*SECRET*", "*PASSWORD*")
_SHORTEST_LOGIN = 8

_SETTINGS = (
    ("credential.helper", ""),  # an empty value cancels those before it
    ("core.askPass", ""),
    ("core.hooksPath", "/dev/null"),
    ("commit.gpgSign", "false"),
    ("tag.gpgSign", "false"),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
)


def build_environment(
    login: Collection[str],
    manifest: SandboxManifest,
    secrets: Mapping[str, str],
    inherited: Mapping[str, str],
    git: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Return the whole environment.

    `login` are the patterns of an agent's login variables, `secrets` maps references to values, and `git` is what
    `git_variables` returned.
    """
    named = {name: value for name, value in inherited.items() if _is_one_of(name, _INHERITED)}
    reserved = (*_NEVER_FROM_A_MANIFEST, *login)
    requested = {name: value for name, value in manifest.environment.items() if _may_be_set(name, value, reserved)}
    lent = {secret_name(reference): value for reference, value in secrets.items()}
    variables = isolated_git() if git is None else git
    return {**named, **requested, **_login_variables(login, inherited), **variables, **lent}


def login_values(login: Collection[str], inherited: Mapping[str, str]) -> list[str]:
    """Return the secret values among an agent's login variables: those of keys, tokens and passwords."""
    return [
        value
        for name, value in _login_variables(login, inherited).items()
        if _is_one_of(name.upper(), _SECRET_NAMES) and len(value) >= _SHORTEST_LOGIN
    ]


def _login_variables(login: Collection[str], inherited: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value
        for name, value in inherited.items()
        if _is_one_of(name, login) and not _is_one_of(name, _NEVER_INHERITED)
    }


def isolated_git() -> dict[str, str]:
    """Return variables that limit git to the repository's configuration, without prompts and credentials."""
    return {
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ASKPASS": "",
        "GIT_ALLOW_PROTOCOL": "file:git:http:https",  # ssh would take the keys in the home folder
        **configuration(list(_SETTINGS), {}),
    }


async def git_variables(sandbox: Sandbox) -> dict[str, str]:
    """Return the variables of `isolated_git`, plus the person's name and email address.

    Headers with a token, which some tools write into a repository's configuration, are reset one by one.
    """
    settings = list(_SETTINGS)
    if not sandbox.cloned:  # a clone has its own list
        settings.append(("core.excludesFile", str(sandbox.exclude_file)))
    listed = await run_git(
        sandbox.repository, *SAFE, "config", "-z", "--name-only", "--get-regexp", r"^http\..*header$"
    )
    settings += [(os.fsdecode(name), "") for name in sorted(set(listed.stdout.split(b"\0")[:-1]))]
    return {**isolated_git(), **await _identity(sandbox.repository), **configuration(settings, {})}


async def _identity(repository: Path) -> dict[str, str]:
    """Return the person's identity for commits; `cuggino` if git knows none."""
    found: dict[str, str] = {}
    for kind in ("AUTHOR", "COMMITTER"):
        printed = await run_git(repository, *SAFE, "var", f"GIT_{kind}_IDENT")
        known = re.match(r"(.*) <(.*)> \d+ [+-]\d+$", os.fsdecode(printed.stdout).strip())
        name, email = known.groups() if known is not None else NOBODY
        found |= {f"GIT_{kind}_NAME": name, f"GIT_{kind}_EMAIL": email}
    return found


def secret_name(reference: str) -> str:
    """Return the variable for a secret: NAME for `env:NAME`, NPM_TOKEN for `file:a/npm-token.txt`."""
    kind, _, name = reference.partition(":")
    if kind == "env":
        return name
    stem = re.sub(r"\W+", "_", Path(name).stem.lstrip("."), flags=re.ASCII).strip("_").upper() or "SECRET"
    return f"SECRET_{stem}" if stem[0].isdecimal() or _is_one_of(stem, _NEVER_FROM_A_MANIFEST) else stem


def launcher(words: Sequence[str], sandbox: Sandbox, home: Path | None = None) -> tuple[str, ...]:
    """Return `spawn.launcher` with `{sandbox}` and `{home}` replaced by the sandbox's folder and the home directory."""
    places = {"{sandbox}": str(sandbox.folder), "{home}": str(home or Path.home())}
    pattern = re.compile("|".join(map(re.escape, places)))
    return tuple(pattern.sub(lambda found: places[found[0]], word) for word in words)


def _is_one_of(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _may_be_set(name: str, value: str, reserved: Iterable[str]) -> bool:
    return name != "" and "=" not in name and "\0" not in name + value and not _is_one_of(name, reserved)
