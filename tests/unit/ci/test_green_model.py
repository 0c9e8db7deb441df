"""Green against a plain model: the true state of a pull request's checks, and a function that says green or not.

The model keeps, for each check, what its newest run came to. GitHub's answer shows all runs, in any order, with times
that may be missing. A view that is green is green in the model; and where nothing is in the way, it is green.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Literal, NamedTuple, TypeAlias

from hypothesis import given, settings
from hypothesis import strategies as st

from cuggino.ci.checks import label
from cuggino.ci.decide import PollContext, view
from cuggino.ci.pull_request import Check, Suite
from cuggino.ci.query import OUTCOMES
from cuggino.ci.state import CiState
from tests.unit.ci.world import HEAD, PULL, START, check, replace, suite

Word: TypeAlias = str
WORDS = (*OUTCOMES, "QUEUED", "IN_PROGRESS", "WAITING", "A_NEW_WORD")
HARMLESS = ("SUCCESS", "SKIPPED", "NEUTRAL", "STALE")

likely_green = st.one_of(st.just("SUCCESS"), st.sampled_from(HARMLESS), st.sampled_from(WORDS))


class Attempt(NamedTuple):
    """One attempt of a workflow's run: what its jobs of one name, at least one, came to."""

    words: tuple[Word, ...]


class Truth(NamedTuple):
    """What is true of one head."""

    runs: dict[tuple[int, str, str], tuple[Attempt, ...]]
    """Workflow, job and event → the attempts of its newest run; the last one counts."""
    statuses: dict[str, Word]
    suites: dict[int, Word]
    """Workflows without a check run → what their suites came to."""
    gone: bool
    """A check that an earlier head had is gone."""
    mergeable: Literal["MERGEABLE", "CONFLICTING", "UNKNOWN"]
    lagging: bool
    """The view is that of another head."""


def is_green(truth: Truth) -> bool:
    """The model."""
    newest = [word for attempts in truth.runs.values() for word in attempts[-1].words]
    words = [*newest, *truth.statuses.values(), *truth.suites.values()]
    has_results = any(word not in ("SKIPPED", "NEUTRAL", "STALE") for word in (*newest, *truth.statuses.values()))
    return (
        all(word in HARMLESS for word in words)
        and has_results
        and not truth.gone
        and not truth.lagging
        and truth.mergeable == "MERGEABLE"
    )


attempts = st.lists(
    st.lists(likely_green, min_size=1, max_size=2).map(lambda words: Attempt(tuple(words))), min_size=1, max_size=3
).map(tuple)
truths = st.builds(
    Truth,
    runs=st.dictionaries(
        st.tuples(st.integers(1, 2), st.sampled_from(("a", "b")), st.sampled_from(("push", "pull_request"))),
        attempts,
        max_size=3,
    ),
    statuses=st.dictionaries(st.sampled_from(("a", "c")), likely_green, max_size=2),
    suites=st.dictionaries(st.integers(3, 4), likely_green, max_size=2),
    gone=st.sampled_from((False, False, False, True)),
    mergeable=st.sampled_from(("MERGEABLE", "MERGEABLE", "MERGEABLE", "CONFLICTING", "UNKNOWN")),
    lagging=st.sampled_from((False, False, False, True)),
)


def shown(truth: Truth, ids: list[int], times: list[int | None]) -> tuple[list[Check], list[Suite]]:
    """Return what GitHub answers: all attempts. All workflows have one name; `times` are the runs' in any order."""
    checks: list[Check] = []

    def started() -> Any:
        minutes = times[len(checks) % len(times)]
        return None if minutes is None else START + timedelta(minutes=minutes)

    for (workflow, job, event), all_attempts in truth.runs.items():
        for number, attempt in enumerate(all_attempts, 1):
            for word in attempt.words:
                more: dict[str, Any] = {
                    "id": ids[len(checks) % len(ids)],
                    "attempt": number,
                    "number": 1,
                    "run": workflow,
                }
                more |= {"workflow_id": workflow, "event": event, "workflow": "CI", "started": started()}
                checks.append(check(job, word, **more))
    for name, word in truth.statuses.items():
        status: dict[str, Any] = {
            "app": "",
            "workflow": "",
            "event": "",
            "run": None,
            "is_status": True,
            "started": started(),
        }
        checks.append(check(name, word, **status))
    suites = [suite("CI", word, id=str(number), workflow_id=number) for number, word in truth.suites.items()]
    return checks, suites


@settings(max_examples=200)
@given(
    truth=truths,
    first=st.integers(0, 22),
    times=st.lists(st.none() | st.integers(0, 9), min_size=1, max_size=6),
    backwards=st.booleans(),
)
def test_a_view_is_green_exactly_when_the_truth_is(
    truth: Truth, first: int, times: list[int | None], backwards: bool
) -> None:
    checks, suites = shown(truth, [(first + 7 * place) % 23 + 1 for place in range(23)], times)
    if backwards:
        checks.reverse()
        suites.reverse()
    expected = (*(label(each) for each in checks), *(("deploy (CI, push)",) if truth.gone else ()))
    pull = replace(PULL, checks=tuple(checks), suites=tuple(suites), mergeable=truth.mergeable)
    pull = replace(pull, head="b" * 40 if truth.lagging else HEAD)
    state = CiState(number=12, head=HEAD, started=START, expected=expected)
    assert view(pull, state, PollContext()).green == is_green(truth)
