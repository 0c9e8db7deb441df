"""`cuggino tbd`: what an audit came upon, and only a person can decide."""

from __future__ import annotations

from cyclopts import App

from cuggino.cli.inbox import add_list_and_show, add_resolve

tbd = App(
    name="tbd",
    help="The findings of audits in `.cuggino/tbd/`, which a person must judge. They hold nothing up.\n\n"
    "A decision belongs into the specs or the backlog; then resolve the finding.\n\n"
    "Example: cuggino tbd show 0199",
)
add_list_and_show(tbd, lambda project: project.tbd, "finding", "findings")
add_resolve(tbd, lambda project: project.tbd, "finding")
