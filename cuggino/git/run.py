"""Running git: never asked for a password, never tied to another repository, its refusals as GitErrors.

Everywhere git is in a session of its own: the terminal's Ctrl+C is cuggino's to answer, which lets git end what it has
begun for as long as the work goes on; and nothing that git starts can ask at the terminal.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from subprocess import CompletedProcess

import trio

from cuggino.errors import GitError

# What ties git to another repository than the one at the project root (as in a hook of that one), and what
# gives pathspecs another meaning than ours.
_NOT_INHERITED = frozenset(
    f"GIT_{name}"
    for name in (
        *("DIR", "WORK_TREE", "INDEX_FILE", "OBJECT_DIRECTORY", "ALTERNATE_OBJECT_DIRECTORIES", "COMMON_DIR"),
        *("NAMESPACE", "PREFIX", "LITERAL_PATHSPECS", "GLOB_PATHSPECS", "NOGLOB_PATHSPECS", "ICASE_PATHSPECS"),
    )
)
_WORDS_KEPT = 8000

SAFE = (
    *("-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "core.untrackedCache=false"),
    *("-c", "gc.auto=0", "-c", "maintenance.auto=false", "-c", "protocol.ext.allow=never"),
)
"""For a tree that an agent has written: no hook runs, no daemon starts, nothing is tidied up on the side."""


async def run_git(
    root: Path, *arguments: str, environment: Mapping[str, str] | None = None, stdin: bytes = b""
) -> CompletedProcess[bytes]:
    """git in `root`, to its end, whatever its status. GitError only where it cannot be run.

    `environment` is laid over cuggino's own, without what ties git to another repository. Cancelled, git is ended.
    """
    try:
        return await trio.run_process(
            ["git", *arguments],
            stdin=stdin,
            capture_stdout=True,
            capture_stderr=True,
            check=False,
            cwd=root,
            env={**git_environment(), **(environment or {})},
            start_new_session=True,
        )
    except OSError as error:
        raise cannot_run(error, root) from error


async def git_output(
    root: Path, *arguments: str, environment: Mapping[str, str] | None = None, stdin: bytes = b""
) -> bytes:
    """What git prints. GitError, with git's own words, unless it succeeds."""
    done = await run_git(root, *arguments, environment=environment, stdin=stdin)
    if done.returncode != 0:
        raise refusal(done.returncode, done.stdout + done.stderr)
    return done.stdout


def git_environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in _NOT_INHERITED}
    return {**kept, "GIT_TERMINAL_PROMPT": "0"}


def refusal(status: int, output: bytes) -> GitError:
    words = output.decode(errors="backslashreplace").strip()
    if len(words) > _WORDS_KEPT:
        words = f"…{words[-_WORDS_KEPT:]}"
    return GitError(words or f"git ended with status {status} and said nothing.")


def cannot_run(error: OSError, root: Path) -> GitError:
    if not root.is_dir():
        return GitError(f"{root} is no folder any more.")
    if isinstance(error, FileNotFoundError):
        return GitError("There is no git on this machine.", advice="Install it (git-scm.com), or set commit to false.")
    return GitError(f"git cannot be run: {error.strerror or error}.")
