"""What an agent prints while it is being stopped is read, decoded and sent before the stop is over."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import msgspec
import trio

from cuggino.agents.agent import AgentOptions, Launch
from cuggino.agents.claude import ClaudeBackend
from cuggino.agents.headless import LAST_WORDS, HeadlessAgent
from cuggino.clock import uuid7
from cuggino.events import Event, SystemMessage, ToBeDiscussed, UsageReport
from cuggino.process.children import Children
from cuggino.roles import Role

FINDING = {
    "type": "assistant",
    "message": {"id": "m1", "content": [{"type": "text", "text": "<TO_BE_DISCUSSED>the first</TO_BE_DISCUSSED> and "}]},
}
ANOTHER = {
    "type": "assistant",
    "message": {"id": "m2", "content": [{"type": "text", "text": "<TO_BE_DISCUSSED>second</TO_BE_DISCUSSED>"}]},
}
RESULT = {"type": "result", "subtype": "success", "result": "", "total_cost_usd": 0.25}
LATER = [ToBeDiscussed(content="the first"), ToBeDiscussed(content="second")]


class ShellBackend(ClaudeBackend):
    """claude's lines, printed by a shell."""

    def __init__(self, script: str) -> None:
        self.script = script

    def launch(self, options: AgentOptions) -> Launch:  # noqa: ARG002 - the script is all
        return Launch(argv=("/bin/sh", "-c", self.script))


def printing(*lines: object, torn: str = "") -> str:
    whole = "".join(msgspec.json.encode(line).decode() + "\n" for line in lines)
    return f"printf %s {shlex.quote(whole + torn)}"


async def stopped(folder: Path, script: str, *, slow: float = 0.0) -> list[Event]:
    """The events of an agent that is cancelled as soon as it says that it has started."""
    events: list[Event] = []
    scope = trio.CancelScope()

    async def send(event: Event) -> None:
        await trio.sleep(slow)
        events.append(event)
        if isinstance(event, SystemMessage):
            scope.cancel()

    init = {"type": "system", "subtype": "init", "claude_code_version": "1", "model": "m"}
    agent = HeadlessAgent(ShellBackend(f"{script}; {printing(init)}; while :; do sleep 0.01; done"), children())
    options = AgentOptions(role=Role.AUDIT, cwd=folder, prompt="", output=folder / "out", environment=dict(os.environ))
    with trio.fail_after(20), scope:
        await agent.spawn(options, send)
    assert scope.cancelled_caught
    return events


def children() -> Children:
    return Children(marker=uuid7().replace("-", ""))


def findings(events: list[Event]) -> list[Event]:
    return [event for event in events if isinstance(event, ToBeDiscussed)]


async def test_findings_and_cost_that_arrive_during_the_stop_are_sent(tmp_path: Path) -> None:
    words = printing(FINDING, ANOTHER, RESULT)
    events = await stopped(tmp_path, f"trap {shlex.quote(words + '; exit 0')} INT")
    assert findings(events) == LATER
    assert [event.cost_usd for event in events if isinstance(event, UsageReport)] == [0.25]


async def test_an_incomplete_last_line_is_ignored(tmp_path: Path) -> None:
    words = printing(FINDING, torn='{"type": "assist')
    events = await stopped(tmp_path, f"trap {shlex.quote(words + '; exit 0')} INT")
    assert findings(events) == LATER[:1]
    assert len([event for event in events if isinstance(event, SystemMessage)]) == 1, "nobody complains of it"


async def test_no_event_is_sent_twice_if_the_stop_comes_between_two(tmp_path: Path) -> None:
    """All is printed before the stop; each event takes its time, so the stop falls into their midst."""
    lines = [{**FINDING, "message": {"id": f"m{n}", "content": said(n)}} for n in range(200)]
    events = await stopped(tmp_path, f"trap {shlex.quote(printing(*lines) + '; exit 0')} INT")
    assert findings(events) == [ToBeDiscussed(content=str(n)) for n in range(200)]


def said(n: int) -> list[dict[str, str]]:
    return [{"type": "text", "text": f"<TO_BE_DISCUSSED>{n}</TO_BE_DISCUSSED>"}]


async def test_a_slow_receiver_does_not_delay_the_stop(tmp_path: Path) -> None:
    lines = [{**FINDING, "message": {"id": f"m{n}", "content": said(n)}} for n in range(500)]
    started = trio.current_time()
    events = await stopped(tmp_path, f"trap {shlex.quote(printing(*lines) + '; exit 0')} INT", slow=0.05)
    assert trio.current_time() - started < 10 + LAST_WORDS
    assert findings(events) == [ToBeDiscussed(content=str(n)) for n in range(len(findings(events)))]
    assert len(findings(events)) < 500
