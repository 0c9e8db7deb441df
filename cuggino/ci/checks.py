"""Which checks of a head count: the newest run of each, and suites that no run speaks for."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from typing import Literal, TypeAlias

from cuggino.ci.pull_request import Check, PullRequestSnapshot, Suite

System: TypeAlias = Literal["github-actions", "buildkite", "unknown"]


def current_checks(pull: PullRequestSnapshot, system: System = "unknown") -> tuple[Check, ...]:
    """Return the checks of the head that count, those of suites included."""
    checks = newest_runs(pull.checks)
    return drop_build_summary((*checks, *_ended_suites(pull.suites, checks)), system)


def newest_runs(checks: Iterable[Check]) -> tuple[Check, ...]:
    """Return the newest run of each name, workflow and event; one that has not started is newer than all others."""
    found: dict[tuple[str, str, str], Check] = {}
    for check in checks:
        key = (check.name, check.workflow, check.event)
        if key not in found or _age(check) >= _age(found[key]):
            found[key] = check
    return tuple(found.values())


def _age(check: Check) -> tuple[float, int]:
    started = check.started.timestamp() if check.started is not None else math.inf
    return started, check.id or 0


def drop_build_summary(checks: Sequence[Check], system: System) -> tuple[Check, ...]:
    """Drop Buildkite's failed check of a whole build if there are checks of its steps, which say the same."""
    names = [check.name for check in checks if check.outcome != "ignored"]

    def is_summary(check: Check) -> bool:
        has_steps = any(name.startswith(f"{check.name}/") for name in names)
        return check.outcome == "failed" and has_steps and re.fullmatch(r"buildkite/[^/]+", check.name) is not None

    return tuple(check for check in checks if system != "buildkite" or not is_summary(check))


# ---- suites -----------------------------------------------------------------------------------


def _ended_suites(suites: Sequence[Suite], checks: Sequence[Check]) -> tuple[Check, ...]:
    """Return a check for each suite that ended badly although none of its runs did.

    Such a workflow waits for approval, has a broken file, or was cancelled in the queue. A later run of the workflow
    for the same event replaces it.
    """
    latest: dict[tuple[str, int | None, str], int] = {}
    for suite in suites:
        latest[_origin(suite)] = max(suite.number, latest.get(_origin(suite), 0))
    bad = {check.suite for check in checks if check.outcome in ("failed", "cancelled")}
    return tuple(
        _as_check(suite) for suite in suites
        if suite.outcome in ("failed", "cancelled") and suite.id not in bad and suite.number == latest[_origin(suite)]
    )  # fmt: skip


def _origin(suite: Suite) -> tuple[str, int | None, str]:
    return suite.app, suite.workflow_id, suite.event


def _as_check(suite: Suite) -> Check:
    return Check(
        name=suite.title,
        outcome=suite.outcome,
        word=suite.word,
        suite=suite.id,
        app=suite.app,
        workflow=suite.workflow,
        event=suite.event,
        run=suite.run,
    )


def running(pull: PullRequestSnapshot, checks: Sequence[Check]) -> tuple[str, ...]:
    """Return names for the suites that have not ended and have no pending check: some of their checks may be missing.

    GitHub creates a suite for each installed app, whether that ever reports anything or not. So a queued suite without
    a run counts only if it is a workflow's.
    """
    pending = {check.suite for check in checks if check.outcome == "pending"}
    with_runs = {check.suite for check in pull.checks}
    return tuple(
        f"(the rest of {suite.workflow})" if suite.workflow else suite.title for suite in pull.suites
        if suite.outcome == "pending" and suite.id not in pending
        and (suite.run is not None or suite.word != "QUEUED" or suite.id in with_runs)
    )  # fmt: skip
