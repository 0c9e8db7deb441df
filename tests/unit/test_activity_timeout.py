"""Why an agent was stopped, whatever it printed last."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from cuggino.agents.activity_timeout import ActivityLimits, ActivityTimeout
from cuggino.agents.retry import IdleTimeout, TotalTimeout
from cuggino.events import AgentMessage, Event, ToolCall

LIMITS = ActivityLimits(idle=10, total=100)


async def nothing(_event: Event) -> None:
    """Nobody listens."""


async def last_words(activity: ActivityTimeout, *, finishing: bool) -> None:
    """An agent that is being stopped prints something, some seconds later."""
    try:
        await trio.sleep_forever()
    finally:
        with trio.CancelScope(shield=True):
            await trio.sleep(3)
            await activity.pass_on(AgentMessage(text="I go"))
            if finishing:
                activity.finish_within(10)


@pytest.mark.parametrize("finishing", [False, True])
@pytest.mark.parametrize("busy", [False, True])
async def test_last_words_do_not_change_why_it_was_stopped(
    autojump_clock: MockClock, *, busy: bool, finishing: bool
) -> None:
    activity = ActivityTimeout(LIMITS, nothing)
    activity.begin()
    with activity.scope:
        if busy:
            await activity.pass_on(ToolCall(id="1", name="Bash"))
        await last_words(activity, finishing=finishing)
    assert activity.verdict() == (TotalTimeout(100) if busy else IdleTimeout(10))
