"""Shell completion: installing it, and the suggestions that depend on the project."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from cuggino.errors import CugginoError, StorageError, UsageError
from cuggino.project import Project
from cuggino.trust import find_project

if TYPE_CHECKING:
    from cyclopts.completion import CompletionContext

_NEXT = {
    "bash": "Start a new shell, or: source ~/.bashrc",
    "zsh": "Start a new shell: exec zsh. Your ~/.zshrc must call compinit, as most do.",
    "fish": "Start a new shell: exec fish.",
}


def install(shell: Literal["bash", "zsh", "fish"] | None = None) -> int:
    """Install shell completion for cuggino.

    Writes a script to your home directory, and a line to ~/.bashrc or ~/.zshrc that loads it. Run it again after an
    update.

    Example: cuggino --install-completion zsh

    Parameters
    ----------
    shell
        Your shell; by default, the one that runs this command.
    """
    from cyclopts.completion.detect import ShellDetectionError, detect_shell

    from cuggino.cli.app import app_for

    try:
        found = shell or detect_shell()
    except ShellDetectionError as error:
        raise UsageError("The shell was not recognized.", advice="Name it: bash, zsh or fish.") from error
    if found not in _NEXT:
        raise UsageError(f"{found} is not supported.", advice="Name another shell: bash, zsh or fish.")
    try:
        path = app_for(()).install_completion(shell=found)
    except OSError as error:
        raise StorageError(f"{error.filename or 'The script'} cannot be written: {error.strerror}.") from error
    print(f"Written to {path}. {_NEXT[found]}")
    return 0


# ---- suggestions: looked up while a person types, so they must not fail or create anything ---------------------


def names_in(folder: Callable[[Project], Path]) -> Callable[[CompletionContext], list[str]]:
    """Return a completer for the names of the items in a directory of the project."""

    def names(_context: CompletionContext) -> list[str]:
        from cuggino.items import is_item_name

        with contextlib.suppress(OSError, CugginoError):
            found = folder(find_project()).iterdir()
            return sorted(path.name for path in found if is_item_name(path.name) and path.is_file())
        return []

    return names


def sessions(_context: CompletionContext) -> list[tuple[str, str]]:
    """Return the IDs of the unfinished sessions, latest first, each with its focus."""
    from cuggino.loop.session import all_sessions

    with contextlib.suppress(OSError, CugginoError):
        kept = [it for it in all_sessions(find_project()) if it.state.ended is None]
        return [(it.id, it.state.focus) for it in reversed(kept)]
    return []
