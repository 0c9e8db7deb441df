"""`cuggino issues`: questions that the specs do not answer."""

from __future__ import annotations

from cyclopts import App

from cuggino.cli.inbox import add_list_and_show, add_resolve

issues = App(
    name="issues",
    help="Manage the spec issues in `.cuggino/spec-issues/`. A watch waits while there are any.\n\n"
    "Change the specs first, then resolve the issue: after the last one, work continues.\n\n"
    "Example: cuggino issues show 0199",
)
add_list_and_show(issues, lambda project: project.spec_issues, "spec issue")
add_resolve(issues, lambda project: project.spec_issues, "spec issue")
