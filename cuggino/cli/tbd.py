"""`cuggino tbd`: findings of audits that only a person can decide."""

from __future__ import annotations

from cyclopts import App

from cuggino.cli.inbox import add_list_and_show, add_resolve

tbd = App(
    name="tbd",
    help="Manage the findings of audits in `.cuggino/tbd/`, which only you can judge. They do not block work.\n\n"
    "Put your decision into the specs or the backlog, then resolve the finding.\n\n"
    "Example: cuggino tbd show 0199",
)
add_list_and_show(tbd, lambda project: project.tbd, "finding")
add_resolve(tbd, lambda project: project.tbd, "finding")
