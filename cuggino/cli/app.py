"""The commands. Each is imported only when it is called."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from cyclopts import App

from cuggino import __version__

if TYPE_CHECKING:
    from rich.console import Console

DOCS_URL = "https://github.com/cuggino/cuggino"

_COMMANDS = {
    "plan": "Start here: discuss with an agent what to build. It writes specs and backlog items, never code.",
    "setup": "Answer a few questions to create .cuggino.json.",
    "run": "Plan, implement and review one focus until the code matches the specs.",
    "watch": "Work through the backlog, one item or several at a time, and wait for more.",
    "spawn": "Hand one task to an agent in a sandbox, and integrate its work.",
    "ci": "Watch a pull request until it is green, merged or closed.",
    "status": "Show what is running here, and what is left to do.",
    "log": "List past sessions, or replay one.",
    "backlog": "List, show and add backlog items.",
    "issues": "List, show and resolve spec issues.",
    "tbd": "List, show and resolve findings of audits.",
    "doctor": "Check everything that cuggino needs, and say how to fix what is missing.",
    "demo": "Work through a small sample project: no key, no network, no cost.",
    "schema": "Print a JSON Schema of the configuration or of the events.",
}
"""Name → summary in the list of commands. The module with that name in this package has the function."""


def app_for(arguments: Sequence[str]) -> App:
    """Return the application for one call. The called command is shown with its own, longer help."""
    app = App(
        name="cuggino",
        help="Turn specifications into reviewed commits: one agent plans, one implements, one reviews, until the code "
        "matches your specs.",
        version=__version__,
        help_epilogue="Exit codes: 0 done, 1 failed, 2 wrong arguments or configuration, 4 a spec issue, 5 a limit, "
        "130 interrupted. Use -v to print tracebacks.\n\n"
        f"Help on a command: cuggino help COMMAND. Documentation: {DOCS_URL}",
    )
    for place, (name, summary) in enumerate(_COMMANDS.items()):
        own_help = None if name in arguments[:1] else summary
        app.command(f"cuggino.cli.{name}:{name}", help=own_help, sort_key=place)
    app.command(
        "cuggino.cli.completion:install",
        name="--install-completion",
        help=None if "--install-completion" in arguments[:1] else "Install completion for your shell.",
        sort_key=len(_COMMANDS),
    )
    if "--help" in arguments or "-h" in arguments:
        app.console = _help_console()
    return app


def _help_console() -> Console:
    """Return a console that leaves a closed pipe to `main`, which ends silently; rich would exit with 1."""
    from rich.console import Console

    class HelpConsole(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError

    return HelpConsole()
