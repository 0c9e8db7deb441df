"""The commands. Each is imported only when it is called."""

from __future__ import annotations

from cyclopts import App

from cuggino import __version__

app = App(
    name="cuggino",
    help="Turns specifications into reviewed commits: coding agents plan, implement and review until the code "
    "matches the specs.",
    version=__version__,
    help_epilogue="`cuggino COMMAND --help` says more. Exit codes: 0 done, 1 failed, 2 wrong arguments or "
    "configuration, 4 a spec issue, 5 a limit, 130 interrupted. "
    "With -v an error shows where in the program it came from.",
)
app.command("cuggino.cli.run:run")
app.command("cuggino.cli.watch:watch")
app.command("cuggino.cli.demo:demo")
