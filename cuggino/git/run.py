"""Run git so that it never asks for a password and is never tied to another repository; its refusals are GitErrors.

git always runs in a session of its own. So only cuggino reacts to the terminal's Ctrl+C, git can finish what it started
while work continues, and nothing that git starts can ask a question at the terminal.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from subprocess import CompletedProcess

import trio

from cuggino.errors import GitError

# Variables that tie git to another repository than the one at the project root (as in a hook of that repository),
# and variables that change the meaning of pathspecs.
_NOT_INHERITED = frozenset(
    f"GIT_{name}"
    for name in (
        *("DIR", "WORK_TREE", "INDEX_FILE", "OBJECT_DIRECTORY", "ALTERNATE_OBJECT_DIRECTORIES", "COMMON_DIR"),
        *("NAMESPACE", "PREFIX", "LITERAL_PATHSPECS", "GLOB_PATHSPECS", "NOGLOB_PATHSPECS", "ICASE_PATHSPECS"),
    )
)
_LONGEST_MESSAGE = 8000

SAFE = (
    *("-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "core.untrackedCache=false"),
    *("-c", "gc.auto=0", "-c", "maintenance.auto=false", "-c", "protocol.ext.allow=never"),
)
"""Options for a tree that an agent wrote: no hook runs, no daemon starts, no maintenance happens."""


async def run_git(
    root: Path, *arguments: str, environment: Mapping[str, str] | None = None, stdin: bytes = b""
) -> CompletedProcess[bytes]:
    """Run git in `root` to its end, whatever its status. Raise GitError only if it cannot be started.

    `environment` overrides cuggino's own, except for variables that tie git to another repository. When cancelled,
    git is killed.
    """
    try:
        return await run_apart(("git", *arguments), root, {**git_environment(), **(environment or {})}, stdin)
    except OSError as error:
        raise cannot_run(error, root) from error


async def run_apart(
    argv: Sequence[str], cwd: Path, environment: Mapping[str, str], stdin: bytes
) -> CompletedProcess[bytes]:
    """Run a program to its end in a session of its own, and capture its output. When cancelled, kill it."""
    return await trio.run_process(
        argv,
        stdin=stdin,
        capture_stdout=True,
        capture_stderr=True,
        check=False,
        cwd=cwd,
        env=environment,
        start_new_session=True,
    )


async def git_output(
    root: Path, *arguments: str, environment: Mapping[str, str] | None = None, stdin: bytes = b""
) -> bytes:
    """Return what git prints. Raise GitError with git's own message if it fails."""
    done = await run_git(root, *arguments, environment=environment, stdin=stdin)
    if done.returncode != 0:
        raise refusal(done.returncode, done.stdout + done.stderr)
    return done.stdout


def git_environment() -> dict[str, str]:
    """Return cuggino's environment without the variables that tie git to another repository."""
    kept = {name: value for name, value in os.environ.items() if name not in _NOT_INHERITED}
    return {**kept, "GIT_TERMINAL_PROMPT": "0"}


def refusal(status: int, output: bytes) -> GitError:
    """Return the error for a failed git command: its output, cut to the last 8000 characters."""
    message = output.decode(errors="backslashreplace").strip()
    if len(message) > _LONGEST_MESSAGE:
        message = f"…{message[-_LONGEST_MESSAGE:]}"
    return GitError(message or f"git exited with status {status} and printed nothing.")


def cannot_run(error: OSError, root: Path) -> GitError:
    """Return the error for a git that could not be started."""
    if not root.is_dir():
        return GitError(f"The directory {root} no longer exists.")
    if isinstance(error, FileNotFoundError):
        return GitError("git is not installed.", advice="Install it (git-scm.com), or set `commit` to false.")
    return GitError(f"git cannot be started: {error.strerror or error}.")
