"""The categories of events: their guards and unions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import get_args

import pytest

from cuggino import events


def leaves(category: type[events.Event]) -> Iterator[type[events.Event]]:
    """The classes below a category that are not categories themselves."""
    for kind in category.__subclasses__():
        if kind.__module__.startswith("cuggino."):
            below = list(leaves(kind))
            yield from below or [kind]


@pytest.mark.parametrize(
    ("category", "union"),
    [
        (events.Event, events.PrintableEvent),
        (events.LlmAgentEvent, events.AgentEvent),
        (events.LlmMarkerEvent, events.MarkerEvent),
        (events.LoopPhaseEvent, events.LoopStep),
        (events.WatchLoopEvent, events.WatchStep),
        (events.SpawnEvent, events.SpawnStep),
        (events.CiEvent, events.CiStep),
    ],
)
def test_each_union_has_every_event_of_its_category(category: type[events.Event], union: object) -> None:
    assert set(get_args(union)) == set(leaves(category))


GUARDS: dict[type[events.Event], Callable[[events.Event], bool]] = {
    events.LlmAgentEvent: events.is_llm_agent_event,
    events.LlmMarkerEvent: events.is_llm_marker_event,
    events.LlmTerminalMarkerEvent: events.is_llm_terminal_marker_event,
    events.LoopPhaseEvent: events.is_loop_phase_event,
    events.LoopTerminalEvent: events.is_loop_terminal_event,
    events.WatchLoopEvent: events.is_watch_loop_event,
    events.SpawnEvent: events.is_spawn_event,
    events.CiEvent: events.is_ci_event,
}


@pytest.mark.parametrize(
    ("event", "categories"),
    [
        (events.PingEvent(), {events.LlmAgentEvent}),
        (events.Note(content=""), {events.LlmMarkerEvent}),
        (events.Done(content=""), {events.LlmMarkerEvent, events.LlmTerminalMarkerEvent}),
        (events.PlanningStart(iteration=1), {events.LoopPhaseEvent}),
        (events.LoopApproved(iteration=1), {events.LoopPhaseEvent, events.LoopTerminalEvent}),
        (events.WatchAuditStarted(), {events.WatchLoopEvent}),
        (events.LLMStarted(agent="", attempt=1), {events.SpawnEvent}),
        (events.CiPushed(branch="", commit=""), {events.CiEvent}),
    ],
)
def test_each_guard_recognizes_the_events_of_its_category_only(
    event: events.Event, categories: set[type[events.Event]]
) -> None:
    assert {category for category, guard in GUARDS.items() if guard(event)} == categories
