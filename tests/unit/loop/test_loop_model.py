"""The loop against a plain model: agents that end in every way, in every order, interrupted anywhere."""

from __future__ import annotations

import tempfile
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock

from cuggino.agents.agent import AgentOptions, AgentResult
from cuggino.config import Config, Limits
from cuggino.errors import LlmSessionError, LlmSessionErrorKind, LoopError
from cuggino.events import (
    AgentMessage,
    Approved,
    Done,
    LlmTerminalMarkerEvent,
    PlanComplete,
    Progress,
    RequestChanges,
    Send,
    SpecIssue,
    ToolCall,
)
from cuggino.loop.loop import run_loop
from cuggino.loop.session import Session, find_session
from cuggino.roles import Role
from tests.unit.stage import START, Performance, Stage, Troupe, plans, says

LIMITS = Limits(nudges=1, retries=2, max_tasks=3)
CONFIG = Config(max_iterations=3, commit=True, limits=LIMITS)

HARMLESS = ["silent", "mute", "overloaded", "limit", "interrupt"]
ENDINGS = {
    Role.PLANNER: ["plan", "spec issue", "refused", *HARMLESS],
    Role.IMPLEMENTER: ["progress", "progress", "done", "spec issue", "idle progress", *HARMLESS],
    Role.REVIEWER: ["approve", "changes", "spec issue", *HARMLESS],
}
GOOD = {Role.PLANNER: "plan", Role.IMPLEMENTER: "done", Role.REVIEWER: "approve"}

parts = st.fixed_dictionaries(
    {role: st.lists(st.sampled_from(endings), max_size=8) for role, endings in ENDINGS.items()}
)


# ---- the model --------------------------------------------------------------------------------


class Over(Exception):
    """How the model's loop ended."""


class Model:
    """The loop as the specification describes it, without any state except for its position."""

    def __init__(self, parts: dict[Role, list[str]]) -> None:
        self._parts = {role: iter([*part, *[GOOD[role]] * 99]) for role, part in parts.items()}
        self.started: list[Role] = []
        self.commits = 0

    def run(self) -> str:
        try:
            for _ in range(CONFIG.max_iterations):
                self._iterate()
        except Over as over:
            return str(over)
        return "LoopMaxIterations"

    def _iterate(self) -> None:
        self._agent(Role.PLANNER)
        tasks = idle = 0
        while True:
            ending = self._agent(Role.IMPLEMENTER)
            self.commits += 1
            tasks += 1
            idle = idle + 1 if ending == "idle progress" else 0
            if ending == "done":
                break
            if tasks > LIMITS.max_tasks or idle == 3:
                raise Over("LoopFailed")
        if self._agent(Role.REVIEWER) == "approve":
            raise Over("LoopApproved")

    def _agent(self, role: Role) -> str:
        """Return the final ending, after those that made the agent start again."""
        nudges = retries = 0
        for ending in self._parts[role]:
            self.started.append(role)
            match ending:
                case "silent" | "mute" if (nudges := nudges + 1) > LIMITS.nudges:
                    raise Over("LoopFailed")
                case "overloaded" if (retries := retries + 1) > LIMITS.retries:
                    raise Over("LoopFailed")
                case "refused":
                    raise Over("LoopFailed")
                case "spec issue":
                    raise Over("LoopSpecIssue")
                case "interrupt":
                    nudges = retries = 0
                case "silent" | "mute" | "overloaded" | "limit":
                    pass
                case _:
                    return ending
        raise AssertionError


# ---- the real one -----------------------------------------------------------------------------


class Interruptions:
    """The scope that the agents' ending "interrupt" cancels."""

    def __init__(self) -> None:
        self.scope = trio.CancelScope()

    async def perform(self, _options: AgentOptions, send: Send) -> AgentResult:
        await send(ToolCall(id="t", name="Bash"))
        self.scope.cancel()
        await trio.sleep_forever()
        raise AssertionError


async def hush(_options: AgentOptions, send: Send) -> AgentResult:
    await send(AgentMessage(text="let me think"))
    await trio.sleep_forever()
    raise AssertionError


def performance(ending: str, interruptions: Interruptions) -> Performance:
    markers: dict[str, LlmTerminalMarkerEvent] = {
        "spec issue": SpecIssue(content="unclear"),
        "progress": Progress(content="p"),
        "idle progress": Progress(content="p"),
        "done": Done(content="d"),
        "approve": Approved(content="a"),
        "changes": RequestChanges(content="c"),
    }
    match ending:
        case "plan":
            return plans(PlanComplete(content=""))
        case "silent":
            return hush
        case "mute":
            return says()
        case "overloaded":
            return says(then=LlmSessionError("529", LlmSessionErrorKind.OVERLOADED))
        case "refused":
            return says(then=LlmSessionError("400", LlmSessionErrorKind.REFUSED))
        case "limit":
            return until_reset
        case "interrupt":
            return interruptions.perform
    return says(markers[ending])


async def until_reset(_options: AgentOptions, _send: Send) -> AgentResult:
    now = START + timedelta(seconds=trio.current_time())
    raise LlmSessionError("limit", LlmSessionErrorKind.USAGE_LIMIT, resets_at=now + timedelta(minutes=10))


async def play(parts: dict[Role, list[str]], root: Path) -> tuple[str, list[Role], int, list[str]]:
    interruptions = Interruptions()
    troupe = Troupe(
        **{
            role.value: [performance(ending, interruptions) for ending in [*part, GOOD[role]]]
            for role, part in parts.items()
        }
    )
    stage = Stage(root, troupe, CONFIG)
    stage.git.implementers_work = False
    endings = [*parts[Role.IMPLEMENTER], *["done"] * 99]

    async def fingerprint(exclude: object) -> str:
        del exclude
        played = troupe.roles.count(Role.IMPLEMENTER)
        return str(sum(ending not in ("idle progress", *HARMLESS) for ending in endings[:played]))

    stage.git.tree_fingerprint = fingerprint  # type: ignore[method-assign]
    session = Session.create(stage.project, "focus")
    while True:
        interruptions.scope = trio.CancelScope()
        with interruptions.scope:
            with suppress(LoopError):
                await run_loop(stage.context, session, stage.send)
            break
        session = find_session(stage.project)
    if session.state.ended is not None:
        session.delete()
    return stage.names[-1], troupe.roles, len(stage.git.commits), stage.wip


@given(parts)
def test_the_loop_behaves_like_the_model(parts: dict[Role, list[str]]) -> None:
    model = Model(parts)
    outcome = model.run()
    with tempfile.TemporaryDirectory() as folder:
        played, started, commits, wip = trio.run(play, parts, Path(folder), clock=MockClock(autojump_threshold=0))
    assert (played, started, commits) == (outcome, model.started, model.commits)
    assert (wip == []) is (outcome != "LoopFailed")
