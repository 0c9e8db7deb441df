"""The commands. Each is imported only when it is called."""

from __future__ import annotations

from collections.abc import Sequence

from cyclopts import App

from cuggino import __version__

_COMMANDS = {
    "setup": "Answer a few questions, and have .cuggino.json.",
    "plan": "Talk with an agent about what to build: specs and backlog items, never code.",
    "run": "Plan, implement and review one focus until the code matches the specs.",
    "watch": "Work through the backlog, item by item or several at a time, and wait for more.",
    "spawn": "Hand one task to an agent in a sandbox, and bring its work home.",
    "ci": "Watch a pull request until it is green, merged or closed.",
    "status": "Show what is going on here, and what is to be done.",
    "log": "List past sessions, or show one again.",
    "backlog": "List, show and add what is to be done.",
    "issues": "List, show and resolve spec issues.",
    "tbd": "List, show and resolve the findings of audits.",
    "doctor": "Look at everything that must be there to work, and say what mends it.",
    "demo": "Work off a small sample project: no key, no network, no cost.",
    "schema": "Print a JSON Schema of the configuration, or of the events.",
}
"""Name → what stands in the list of commands. The module of that name in this package has the function."""


def app_for(arguments: Sequence[str]) -> App:
    """The application, for one call. The command that is called is shown with its own, longer help."""
    app = App(
        name="cuggino",
        help="Turns specifications into reviewed commits: coding agents plan, implement and review until the code "
        "matches the specs.",
        version=__version__,
        help_epilogue="`cuggino COMMAND --help` says more. Exit codes: 0 done, 1 failed, 2 wrong arguments or "
        "configuration, 4 a spec issue, 5 a limit, 130 interrupted. With -v an error shows where in the program "
        "it came from.",
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
    return app
