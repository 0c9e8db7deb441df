"""One agent's turn: start it, watch it, and start it again until it has sent a terminal marker or cannot."""

from __future__ import annotations

from datetime import datetime, timedelta
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
from cuggino.config import Limits
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
from cuggino.loop.context import LoopContext
from cuggino.loop.session import Session
from cuggino.roles import Role

EXIT_GRACE = 10.0
"""Seconds that an agent has to exit after its terminal marker."""

QUOTED = 300
"""Characters of an agent's last message that an error quotes."""

LONGEST_SLEEP = 60.0
"""Seconds after which a wait for a time of day checks the clock again, since the machine may have been suspended."""


class LimitReached(Exception):
    """A limit of the whole loop is reached. No further agent is started."""

    def __init__(self, limit: str, value: float) -> None:
        self.limit = limit
        self.value = value


async def take_turn(
    context: LoopContext, session: Session, role: Role, prompt: Prompt, send: Send
) -> LlmTerminalMarkerEvent:
    """Have an agent of this role work on the prompt, and return its first terminal marker.

    Markers are in the session's progress log before they are sent. Raise LoopError if the agent never sends one,
    LimitReached if the cost limit is reached. When cancelled, leave no process alive.
    """
    limits = context.config.limits
    iteration = session.state.course.iteration
    attempts = Attempts()
    conversation: str | None = None
    text = prompt.task
    while True:
        budget = budget_left(limits, session)
        fresh = conversation is None
        conversation = conversation or str(uuid4())
        options = AgentOptions(
            role=role,
            cwd=context.project.root,
            prompt=prompt.task if fresh else text,
            output=session.next_output(role),
            system_prompt=prompt.standing,
            skip_permissions=not role.read_only,
            session_id=conversation if fresh else None,
            resume_session_id=None if fresh else conversation,
            model=context.config.model,
            writable=prompt.writable,
            budget_usd=budget,
        )
        run = _AgentRun(session, limits, send)
        ending = await run.watch(context.agent(role), options)
        if run.marker is not None:
            ending = _plan_missing(run.marker, session)
            if ending is None:
                return run.marker
        budget_left(limits, session)
        assert ending is not None
        if fresh and not run.active:
            conversation = None
        match decide_retry(ending, attempts, limits, now=context.now(), jitter=context.random.random()):
            case GiveUp() as give_up:
                raise LoopError(give_up.message, role, advice=give_up.advice, kind=give_up.kind)
            case AskAgain() as again:
                attempts, text = again.attempts, ask_again(role)
                await send(AgentRetry(iteration=iteration, attempt=attempts.nudges, reason=again.reason, delay=0.0))
            case RetryAfter() as retry:
                attempts, text = retry.attempts, resume(role)
                await send(
                    AgentRetry(iteration=iteration, attempt=attempts.retries, reason=retry.reason, delay=retry.delay)
                )
                await context.sleep(retry.delay)
            case WaitUntil() as wait:
                attempts, text = wait.attempts, resume(role)
                await send(AgentWaiting(iteration=iteration, until=wait.until, reason=wait.reason))
                await sleep_until(wait.until, context)


class _AgentRun:
    """One start of an agent, as the turn observes it."""

    def __init__(self, session: Session, limits: Limits, send: Send) -> None:
        self.marker: LlmTerminalMarkerEvent | None = None
        self.active = False
        self._session = session
        self._activity = ActivityTimeout(ActivityLimits.of(limits), send)
        self._last_message = ""

    async def watch(self, agent: Agent, options: AgentOptions) -> Unfinished | None:
        """Run the agent. Return how it ended, or None if it sent a terminal marker (`marker`) and exited."""
        self._activity.begin()
        try:
            with self._activity.scope:
                result = await agent.spawn(options, self._handle)
        except LlmSessionError as error:
            return error
        if (verdict := self._activity.verdict()) is not None:
            return verdict
        return NoMarker(result.exit_status, self._last_message or result.final_text[-QUOTED:])

    async def _handle(self, event: Event) -> None:
        if isinstance(event, LlmMarkerEvent):
            self.active = True
            if isinstance(event, LlmTerminalMarkerEvent):
                if self.marker is not None:
                    return
                self.marker = event
                self._activity.finish_within(EXIT_GRACE)
            self._session.record(event)
        elif isinstance(event, ToolCall):
            self.active = True
        elif isinstance(event, AgentMessage):
            self.active = True
            self._last_message = event.text.strip()[-QUOTED:]
        elif isinstance(event, UsageReport) and event.cost_usd is not None:
            self._session.update(cost_usd=self._session.state.cost_usd + event.cost_usd)
        await self._activity.pass_on(event)


def _plan_missing(marker: LlmTerminalMarkerEvent, session: Session) -> NoPlan | None:
    if isinstance(marker, PlanComplete) and not session.adopt_plan(marker.content):
        return NoPlan(str(session.draft))
    return None


def budget_left(limits: Limits, session: Session) -> float | None:
    """Return the dollars that are left, None without a limit. Raise LimitReached if nothing is left."""
    if limits.max_cost_usd is None:
        return None
    left = limits.max_cost_usd - session.state.cost_usd
    if left <= 0:
        raise LimitReached("maxCostUsd", session.state.cost_usd)
    return left


async def sleep_until(until: datetime, context: LoopContext) -> None:
    """Wait for a time of day. Raise what `context.sleep` raises."""
    while (left := until - context.now()) > timedelta(0):
        await context.sleep(min(left.total_seconds(), LONGEST_SLEEP))
