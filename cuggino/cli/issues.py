"""`cuggino issues`: what an agent could not go on with, because the specs did not say."""

from __future__ import annotations

from cyclopts import App

from cuggino.cli.inbox import add_list_and_show, add_resolve

issues = App(
    name="issues",
    help="The spec issues in `.cuggino/spec-issues/`. As long as there are any, a watch waits.\n\n"
    "Change the specs first, then resolve the issue: with the last one the work goes on.\n\n"
    "Example: cuggino issues show 0199",
)
add_list_and_show(issues, lambda project: project.spec_issues, "spec issue", "spec issues")
add_resolve(issues, lambda project: project.spec_issues, "spec issue")
