"""One agent's turn: it is started, watched, and asked again until it says how it ended, or cannot."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from random import Random
from typing import Protocol
from uuid import uuid4

from cuggino.agents.activity_timeout import ActivityLimits, ActivityTimeout
from cuggino.agents.agent import Agent, AgentOptions
from cuggino.agents.prompts import Prompt, ask_again, resume
from cuggino.agents.retry import (
    AskAgain,
    Attempts,
    GiveUp,
    NoMarker,
    NoPlan,
    RetryAfter,
    Unfinished,
    WaitUntil,
    decide_retry,
)
from cuggino.config import Config, Limits
from cuggino.errors import LlmSessionError, LoopError
from cuggino.events import (
    AgentMessage,
    AgentRetry,
    AgentWaiting,
    Event,
    LlmMarkerEvent,
    LlmTerminalMarkerEvent,
    PlanComplete,
    Send,
    ToolCall,
    UsageReport,
)
from cuggino.loop.session import Session
from cuggino.project import Project
from cuggino.roles import Role

AFTER_MARKER = 10.0
"""Seconds that an agent has to exit after its terminal marker."""

WORDS_SHOWN = 300
"""Characters of an agent's last words that an error quotes."""

LONGEST_NAP = 60.0
"""A wait for a time of day looks at the clock this often: a machine that slept must not oversleep."""


class TurnContext(Protocol):
    """What a turn needs of the world."""

    @property
    def project(self) -> Project: ...
    @property
    def config(self) -> Config: ...
    @property
    def agent(self) -> Callable[[Role], Agent]: ...
    @property
    def now(self) -> Callable[[], datetime]: ...
    @property
    def random(self) -> Random: ...
    @property
    def sleep(self) -> Callable[[float], Awaitable[None]]: ...


class LimitReached(Exception):
    """A limit of the whole loop is used up; no agent is started any more."""

    def __init__(self, limit: str, value: float) -> None:
        self.limit = limit
        self.value = value


async def take_turn(
    context: TurnContext, session: Session, role: Role, prompt: Prompt, send: Send
) -> LlmTerminalMarkerEvent:
    """Have an agent of this role do what the prompt says; returns its first terminal marker.

    Its markers are in the session's progress log before they are sent. Raises LoopError when it cannot be
    brought to an end, LimitReached when the cost is used up. After cancellation nothing of it is alive.
    """
    limits = context.config.limits
    iteration = session.state.course.iteration
    attempts = Attempts()
    conversation: str | None = None
    words = prompt.task
    while True:
        budget = _budget(limits, session)
        fresh = conversation is None
        conversation = conversation or str(uuid4())
        options = AgentOptions(
            role=role,
            cwd=context.project.root,
            prompt=prompt.task if fresh else words,
            output=session.next_output(role),
            system_prompt=prompt.standing,
            skip_permissions=not role.read_only,
            session_id=conversation if fresh else None,
            resume_session_id=None if fresh else conversation,
            model=context.config.model,
            writable=prompt.writable,
            budget_usd=budget,
        )
        run = _Run(session, limits, send)
        ending = await run.watch(context.agent(role), options)
        if run.marker is not None:
            ending = _plan_missing(run.marker, session)
            if ending is None:
                return run.marker
        _budget(limits, session)
        assert ending is not None
        if fresh and not run.spoke:
            conversation = None
        match decide_retry(ending, attempts, limits, now=context.now(), jitter=context.random.random()):
            case GiveUp() as give_up:
                raise LoopError(give_up.message, role, advice=give_up.advice, kind=give_up.kind)
            case AskAgain() as again:
                attempts, words = again.attempts, ask_again(role)
                await send(AgentRetry(iteration=iteration, attempt=attempts.nudges, reason=again.reason, delay=0.0))
            case RetryAfter() as retry:
                attempts, words = retry.attempts, resume(role)
                await send(
                    AgentRetry(iteration=iteration, attempt=attempts.retries, reason=retry.reason, delay=retry.delay)
                )
                await context.sleep(retry.delay)
            case WaitUntil() as wait:
                attempts, words = wait.attempts, resume(role)
                await send(AgentWaiting(iteration=iteration, until=wait.until, reason=wait.reason))
                await sleep_until(wait.until, context)


class _Run:
    """One start of an agent, seen from outside."""

    def __init__(self, session: Session, limits: Limits, send: Send) -> None:
        self.marker: LlmTerminalMarkerEvent | None = None
        self.spoke = False
        self._session = session
        self._activity = ActivityTimeout(ActivityLimits.of(limits), send)
        self._words = ""

    async def watch(self, agent: Agent, options: AgentOptions) -> Unfinished | None:
        """Run it. None: it said a terminal marker (however it ended then); else how it ended without one."""
        self._activity.begin()
        try:
            with self._activity.scope:
                result = await agent.spawn(options, self._see)
        except LlmSessionError as error:
            return error
        return self._activity.verdict() or NoMarker(result.exit_status, self._words or result.final_text[-WORDS_SHOWN:])

    async def _see(self, event: Event) -> None:
        if isinstance(event, LlmMarkerEvent):
            self.spoke = True
            if isinstance(event, LlmTerminalMarkerEvent):
                if self.marker is not None:
                    return
                self.marker = event
                self._activity.finish_within(AFTER_MARKER)
            self._session.record(event)
        elif isinstance(event, ToolCall):
            self.spoke = True
        elif isinstance(event, AgentMessage):
            self.spoke = True
            self._words = event.text.strip()[-WORDS_SHOWN:]
        elif isinstance(event, UsageReport) and event.cost_usd is not None:
            self._session.update(cost_usd=self._session.state.cost_usd + event.cost_usd)
        await self._activity.pass_on(event)


def _plan_missing(marker: LlmTerminalMarkerEvent, session: Session) -> NoPlan | None:
    if isinstance(marker, PlanComplete) and not session.adopt_plan(marker.content):
        return NoPlan(str(session.draft))
    return None


def _budget(limits: Limits, session: Session) -> float | None:
    """What may still be spent; raises LimitReached when it is nothing."""
    if limits.max_cost_usd is None:
        return None
    left = limits.max_cost_usd - session.state.cost_usd
    if left <= 0:
        raise LimitReached("maxCostUsd", session.state.cost_usd)
    return left


async def sleep_until(until: datetime, context: TurnContext) -> None:
    """Wait for a time of day. Raises what `context.sleep` raises."""
    while (left := until - context.now()) > timedelta(0):
        await context.sleep(min(left.total_seconds(), LONGEST_NAP))
