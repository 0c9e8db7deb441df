"""Which checks of a head count: the newest run of each, and suites that no run speaks for."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Literal, TypeAlias

from cuggino.ci.pull_request import Check, PullRequestSnapshot, Suite

Identity: TypeAlias = tuple[str, ...]
System: TypeAlias = Literal["github-actions", "buildkite", "unknown"]


def current_checks(pull: PullRequestSnapshot, system: System = "unknown") -> tuple[Check, ...]:
    """Return the checks of the head that count, those of suites included."""
    checks = newest_runs(pull.checks)
    return drop_build_summary((*checks, *_ended_suites(pull.suites, checks)), system)


def newest_runs(checks: Iterable[Check]) -> tuple[Check, ...]:
    """Return the newest run of each check: by attempt, then by the number of its workflow's run, then by ID.

    Times do not decide: they may be missing. Two jobs of one name in one attempt both count, and so does a run whose
    attempt is not known.
    """
    return tuple(check for group in _by_identity(checks).values() for check in _newest(group))


def ambiguous_runs(checks: Iterable[Check]) -> tuple[Check, ...]:
    """Return the runs of which only their attempts show which one is the newest."""
    groups = (group for group in _by_identity(checks).values() if len(group) > 1)
    return tuple(check for group in groups for check in group if check.run is not None)


def _by_identity(checks: Iterable[Check]) -> dict[Identity, list[Check]]:
    groups: dict[Identity, list[Check]] = {}
    for check in checks:
        groups.setdefault(identity(check), []).append(check)
    return groups


def identity(check: Check) -> Identity:
    """Return what a check is. The workflow's ID counts, not its name: two files may have the same name."""
    if check.is_status:
        return ("status", check.name)
    workflow = check.workflow if check.workflow_id is None else str(check.workflow_id)
    return ("run", check.app, workflow, check.name, check.event)


def label(check: Check) -> str:
    """Return the check's name as the state file has it, with what distinguishes equal names."""
    origin = ", ".join(part for part in (check.workflow or check.app, check.event) if part)
    return " ".join(f"{check.name} ({origin})".split()) if origin and not check.is_status else check.name


def _newest(runs: Sequence[Check]) -> list[Check]:
    best = max((run.attempt, run.number) for run in runs)
    left = [run for run in runs if run.attempt == 0 or (run.attempt, run.number) == best]
    newest = max(run.id or 0 for run in left)
    return [run for run in left if run.run is not None or (run.id or 0) == newest]


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
        workflow_id=suite.workflow_id,
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
