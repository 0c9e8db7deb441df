"""What an agent in a sandbox finds in its environment: built from little, so that nothing of the person's comes along.

Nothing in it lets git or gh find the person's credentials by themselves. What lies in the home folder is another
matter: only a launcher keeps an agent from that.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from cuggino.agents.agent import Backend
from cuggino.git.run import SAFE, run_git
from cuggino.manifest import SandboxManifest
from cuggino.sandbox.git import NOBODY, configuration
from cuggino.sandbox.provision import EXCLUDE
from cuggino.sandbox.sandbox import Sandbox

_INHERITED = (
    *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "TMPDIR", "TZ", "TERM", "COLORTERM", "NO_COLOR"),
    *("LANG", "LANGUAGE", "LC_*", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"),
)
_NEVER_INHERITED = ("GH_*", "GITHUB_*", "GIT_*", "SSH_*", "GPG_*")
"""Though a backend's own patterns name them."""
_NEVER_FROM_A_MANIFEST = (
    *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "TMPDIR", "XDG_*", "LD_*", "DYLD_*", "GIT_*", "GH_*", "SSH_*"),
    *("NODE_OPTIONS", "BASH_ENV", "ENV", "SHELLOPTS", "BASHOPTS", "PS4", "IFS", "PROMPT_COMMAND", "CUGGINO_*"),
)
"""What changes which programs run, or what runs within them; that is not a task's to wish for."""

_SETTINGS = (
    ("credential.helper", ""),  # an empty one takes back those before it
    ("core.askPass", ""),
    ("core.hooksPath", "/dev/null"),
    ("commit.gpgSign", "false"),
    ("tag.gpgSign", "false"),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
)


def built(
    backend: Backend,
    manifest: SandboxManifest,
    secrets: Mapping[str, str],
    inherited: Mapping[str, str],
    git: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """The whole environment. `secrets` are references and their values; `git` is what `git_variables` gives."""
    named = {name: value for name, value in inherited.items() if _is_one_of(name, _INHERITED)}
    login = {
        name: value
        for name, value in inherited.items()
        if _is_one_of(name, backend.login_environment) and not _is_one_of(name, _NEVER_INHERITED)
    }
    reserved = (*_NEVER_FROM_A_MANIFEST, *backend.login_environment)
    wished = {name: value for name, value in manifest.environment.items() if _may_be_wished(name, value, reserved)}
    lent = {secret_name(reference): value for reference, value in secrets.items()}
    return {**named, **wished, **login, **(git_alone() if git is None else git), **lent}


def git_alone() -> dict[str, str]:
    """Variables with which git has no configuration but the repository's, asks nobody, and finds no credentials."""
    return {
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ASKPASS": "",
        "GIT_ALLOW_PROTOCOL": "file:git:http:https",  # ssh would take the keys in the home folder
        **configuration(list(_SETTINGS), {}),
    }


async def git_variables(sandbox: Sandbox) -> dict[str, str]:
    """The same, with the person's name and address for commits, and with what git is not to see in this sandbox.

    Headers with a token, which some tools write into a repository's own configuration, are taken back one by one.
    """
    settings = list(_SETTINGS)
    if not sandbox.cloned:  # a clone has its own list
        settings.append(("core.excludesFile", str(sandbox.git_dir / EXCLUDE)))
    listed = await run_git(
        sandbox.repository, *SAFE, "config", "-z", "--name-only", "--get-regexp", r"^http\..*header$"
    )
    settings += [(os.fsdecode(name), "") for name in sorted(set(listed.stdout.split(b"\0")[:-1]))]
    return {**git_alone(), **await _identity(sandbox.repository), **configuration(settings, {})}


async def _identity(repository: Path) -> dict[str, str]:
    """Who the person is to git; `cuggino` where git does not know."""
    found: dict[str, str] = {}
    for who in ("AUTHOR", "COMMITTER"):
        said = await run_git(repository, *SAFE, "var", f"GIT_{who}_IDENT")
        known = re.match(r"(.*) <(.*)> \d+ [+-]\d+$", os.fsdecode(said.stdout).strip())
        name, email = known.groups() if known is not None else NOBODY
        found |= {f"GIT_{who}_NAME": name, f"GIT_{who}_EMAIL": email}
    return found


def secret_name(reference: str) -> str:
    """The variable for a secret: `env:NAME` has its name; of `file:a/npm-token.txt` it is NPM_TOKEN."""
    kind, _, name = reference.partition(":")
    if kind == "env":
        return name
    stem = re.sub(r"\W+", "_", Path(name).stem.lstrip("."), flags=re.ASCII).strip("_").upper() or "SECRET"
    return f"SECRET_{stem}" if stem[0].isdecimal() or _is_one_of(stem, _NEVER_FROM_A_MANIFEST) else stem


def launcher(words: Sequence[str], sandbox: Sandbox, home: Path | None = None) -> tuple[str, ...]:
    """`spawn.launcher` for this sandbox: `{sandbox}` is its folder, `{home}` the person's home, wherever they stand."""
    places = {"{sandbox}": str(sandbox.folder), "{home}": str(home or Path.home())}
    pattern = re.compile("|".join(map(re.escape, places)))
    return tuple(pattern.sub(lambda found: places[found[0]], word) for word in words)


def _is_one_of(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _may_be_wished(name: str, value: str, reserved: Iterable[str]) -> bool:
    return name != "" and "=" not in name and "\0" not in name + value and not _is_one_of(name, reserved)
