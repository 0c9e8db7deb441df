"""The watch with the real claude: items to their end, an audit beside the waiting, Ctrl+C where claude is at work."""

from __future__ import annotations

import json
import signal
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import trio

from cuggino.events import (
    AgentWaiting,
    ToolCall,
    ToolResult,
    WatchBacklogWaiting,
    WatchEnded,
    WatchIdle,
    WatchItemCompleted,
    WatchProcessingItem,
    WatchStopping,
    WatchTbdItemFound,
)
from tests.e2e.house import APPROVE, CHANGES, DONE, bash, claude_house, read, write
from tests.e2e.loopback import Say, Script, Stall, usage_limit
from tests.e2e.test_run_stopping import HIDDEN, LATEST

pytestmark = pytest.mark.e2e

STOPPED = [
    WatchStopping(stage="drain", active=0),
    WatchEnded(reason="interrupted", completed=0, exit_code=130),
]


def adding(name: str) -> Script:
    """An implementer that is done with a file of this name."""
    return [[bash(f"echo {name} > {name}.txt")], [Say(f"<DONE>Add {name}</DONE>")]]


async def test_items_are_planned_implemented_reviewed_committed_and_archived(tmp_path: Path, claude_path: Path) -> None:
    with claude_house(
        tmp_path,
        claude_path,
        implementer=[adding("one"), adding("more"), adding("two")],
        reviewer=[CHANGES, APPROVE],
        commit=True,
    ) as house:
        first, second = house.item("1.md", "The first wish.\n"), house.item("2.md", "The second wish.\n")
        with trio.fail_after(90):
            finished = await house.run("watch", "--until-idle", "--json")
        assert finished.code == 0, finished.err
        assert finished.reported == [
            *(WatchProcessingItem(filename="1.md"), WatchItemCompleted(filename="1.md")),
            *(WatchProcessingItem(filename="2.md"), WatchItemCompleted(filename="2.md")),
            WatchEnded(reason="idle", completed=2, exit_code=0),
        ]
        loop = ["planner", "implementer", "reviewer"]
        assert house.agents == loop * 3
        assert finished.names.count("LoopApproved") == 2
        assert house.commits == ["Add one\n", "Add more\n", "Add two\n"]
        assert house.archived == [("1.md", "The first wish.\n"), ("2.md", "The second wish.\n")]
        assert [*house.backlog.iterdir(), *house.wip, *house.left()] == []

        # an agent is given the item's path, and claude itself puts what it says beside that
        one, again, two = (json.dumps(request.body["messages"]) for request in house.requests("planner"))
        for wish, path, asked in ("first", first, one), ("first", first, again), ("second", second, two):
            assert f"@{path}" in asked
            assert f"The {wish} wish." in asked
        assert "first wish" not in two


async def test_an_audit_reads_raises_what_it_finds_and_can_write_nothing(tmp_path: Path, claude_path: Path) -> None:
    auditor: Script = [
        [Say("I look."), read("{project}/.specs/app.md")],
        [Say("<TO_BE_DISCUSSED>No title\n\napp.md has", " none.</TO_BE_DISCUSSED>"), bash("ls")],
        [write("{project}/fixed.md", "x\n"), write("{findings}/mine.md", "x\n")],
        [Say("I may not.\n\n<TO_BE_DISCUSSED>No code</TO_BE_DISCUSSED>\n\nThat is all.")],
    ]
    with claude_house(tmp_path, claude_path, auditor=[auditor], audit=True) as house, trio.fail_after(30):
        async with house.started("watch") as running:
            await running.until("WatchAuditEnded")
            await running.until("WatchIdle")
            running.send(signal.SIGINT)
            code, seconds = await running.end()
        assert (code, seconds < 2) == (-signal.SIGINT, True)
        assert running.reported[-2:] == STOPPED

        found = [event for event in running.reported if isinstance(event, WatchTbdItemFound)]
        assert [event.content for event in found] == ["No title\n\napp.md has none.", "No code"]
        files = {path.name: path.read_text() for path in (house.state / "tbd").iterdir()}
        assert files == {event.filename: f"{event.content}\n" for event in found}

        calls = [event for event in running.events if isinstance(event, ToolCall)]
        assert [call.name for call in calls] == ["Read", "Bash", "Write", "Write"]
        assert running.events.index(found[0]) < running.events.index(calls[2]), "it is saved as soon as it is raised"
        results = [event for event in running.events if isinstance(event, ToolResult)]
        assert [result.is_error for result in results] == [False, False, True, True]
        assert not (house.root / "fixed.md").exists()
        assert "# App" in house.requests("auditor")[1].tool_results[0]
        assert house.agents == ["auditor"]
        assert [*house.wip, *house.left()] == []


async def test_ctrl_c_interrupts_an_audit_and_the_command_that_hides_from_it(tmp_path: Path, claude_path: Path) -> None:
    """Raised before, a finding is kept; cut off, it is none."""
    auditor: Script = [
        [Say("<TO_BE_DISCUSSED>Raised</TO_BE_DISCUSSED>"), bash("true")],
        [Say("<TO_BE_DISCUSSED>Not quite"), bash(HIDDEN)],
        [Stall()],
    ]
    with claude_house(tmp_path, claude_path, auditor=[auditor], audit=True) as house, trio.fail_after(30):
        async with house.started("watch") as running:
            await running.until("WatchTbdItemFound")  # what was printed and not yet read when it is stopped is lost
            while not (house.root / "begun").exists():  # noqa: ASYNC110 - a file of another process
                await trio.sleep(0.01)
            assert [words for words in house.left() if "sleep 300" in words]
            running.send(signal.SIGINT)
            code, seconds = await running.end()
        assert (code, seconds < LATEST) == (-signal.SIGINT, True)
        reported = [
            type(event).__name__ for event in running.reported if not isinstance(event, WatchBacklogWaiting | WatchIdle)
        ]
        assert reported[:2] == ["WatchAuditStarted", "WatchTbdItemFound"]
        assert sorted(reported[2:4]) == ["WatchAuditInterrupted", "WatchStopping"]
        assert reported[4:] == ["WatchEnded"]
        assert [path.read_text() for path in (house.state / "tbd").iterdir()] == ["Raised\n"]
        assert [*house.wip, *house.left()] == []


async def test_a_usage_limit_is_waited_for_and_after_ctrl_c_the_next_watch_goes_on(
    tmp_path: Path, claude_path: Path
) -> None:
    resets_at = datetime.now(UTC).replace(microsecond=0) + timedelta(hours=1)
    limited: Script = [[usage_limit(resets_at)]]
    with claude_house(tmp_path, claude_path, implementer=[limited, DONE], commit=True) as house, trio.fail_after(60):
        house.add |= {"ANTHROPIC_API_KEY": "", "CLAUDE_CODE_OAUTH_TOKEN": "dummy-token"}
        house.item("1.md")
        async with house.started("watch") as running:
            await running.until("AgentWaiting")
            running.send(signal.SIGINT)
            code, seconds = await running.end()
        assert (code, seconds < 2) == (-signal.SIGINT, True)
        assert running.reported == [WatchProcessingItem(filename="1.md"), *STOPPED]
        [waiting] = [event for event in running.events if isinstance(event, AgentWaiting)]
        assert waiting.until > resets_at
        assert [path.name for path in house.backlog.iterdir()] == ["1.md"]
        assert house.left() == []

        finished = await house.run("watch", "--until-idle", "--json")
        assert finished.code == 0, finished.err
        assert "LoopApproved" in finished.names
        assert house.agents == ["planner", "implementer", "implementer", "reviewer"]
        assert house.commits == ["The work\n"]
        assert house.archived == [("1.md", "Do it.\n")]
        assert [*house.backlog.iterdir(), *house.wip, *house.left()] == []
