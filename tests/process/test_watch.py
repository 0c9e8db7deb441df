"""`cuggino watch` with real files, real change notices and real processes of agents."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import trio

from cuggino.events import (
    AgentWaiting,
    ToolResult,
    WatchAuditEnded,
    WatchAuditInterrupted,
    WatchAuditStarted,
    WatchBacklogWaiting,
    WatchEnded,
    WatchIdle,
    WatchItemBlocked,
    WatchItemCompleted,
    WatchItemFailed,
    WatchItemNotRemoved,
    WatchLoopEvent,
    WatchPollFailed,
    WatchProcessingItem,
    WatchSpecIssueWaiting,
    WatchStopping,
    WatchTbdItemFound,
    WatchValidationPassed,
    WatchValidationStarted,
)
from tests.process.house import AT_GATE, DONE, PLAN, House, Running, Step, script, turn

READ_ITEM: Step = {"do": "run", "command": "cat .cuggino/backlog/*"}
NO_CHANGE: Step = {"do": "marker", "name": "DONE", "text": "nothing to change"}
SPEC_ISSUE: Step = {"do": "marker", "name": "SPEC_ISSUE", "text": "Which one?"}


def done(*names: str) -> list[WatchLoopEvent]:
    """The events when these items are done without trouble."""
    return [
        event for name in names for event in (WatchProcessingItem(filename=name), WatchItemCompleted(filename=name))
    ]


def waiting(event: WatchLoopEvent, blocked: int = 0) -> list[WatchLoopEvent]:
    """The events when there is nothing to do."""
    return [event, WatchIdle(wait_seconds=0, blocked=blocked)]


def ended(reason: Any, completed: int, exit_code: int) -> WatchEnded:
    return WatchEnded(reason=reason, completed=completed, exit_code=exit_code)


async def stop(running: Running) -> None:
    """Ctrl+C while it waits."""
    running.send(signal.SIGINT)
    code, seconds = await running.end()
    assert (code, seconds < 2) == (-signal.SIGINT, True)


STOPPED = WatchStopping(stage="drain", active=0)


# ---- items ------------------------------------------------------------------------------------


async def test_items_are_done_in_filename_order_and_new_ones_when_they_arrive(tmp_path: Path) -> None:
    house = House(tmp_path)
    house.item("b.md", "second")
    house.item("a.md", "first")
    with trio.fail_after(30):
        async with house.watching() as running:
            await running.until("WatchIdle")
            house.item("c.md", "third")
            await running.until("WatchIdle", 2)
            await stop(running)
    assert running.reported == [
        *done("a.md", "b.md"),
        *waiting(WatchBacklogWaiting()),
        *done("c.md"),
        *waiting(WatchBacklogWaiting()),
        STOPPED,
        ended("interrupted", 3, 130),
    ]
    assert house.archived == [("a.md", "first"), ("b.md", "second"), ("c.md", "third")]
    assert list(house.backlog.iterdir()) == []
    assert house.wip == []
    assert house.left() == []


async def test_an_item_edited_meanwhile_is_done_again_and_a_deleted_one_is_not(tmp_path: Path) -> None:
    house = House(tmp_path, play=script(implementer=[[READ_ITEM, AT_GATE, NO_CHANGE]] * 2))
    house.item("a.md", "the old words")
    with trio.fail_after(30):
        async with house.watching() as running:
            await house.at_gate()
            house.item("a.md", "the new words")
            house.open_gate()
            await running.until("WatchItemNotRemoved")
            await house.at_gate()
            house.open_gate()
            await running.until("WatchIdle")
            house.play(script(implementer=[[AT_GATE, NO_CHANGE]]))
            house.item("b.md")
            await house.at_gate()
            (house.backlog / "b.md").unlink()
            house.open_gate()
            await running.until("WatchIdle", 2)
            await stop(running)
    assert running.reported == [
        WatchProcessingItem(filename="a.md"),
        WatchItemNotRemoved(filename="a.md", reason="changed"),
        *done("a.md"),
        *waiting(WatchBacklogWaiting()),
        WatchProcessingItem(filename="b.md"),
        WatchItemNotRemoved(filename="b.md", reason="gone"),
        *waiting(WatchBacklogWaiting()),
        STOPPED,
        ended("interrupted", 1, 130),
    ]
    outputs = [event.output for event in running.events if isinstance(event, ToolResult)]
    assert [words for words in outputs if words.startswith("the ")] == ["the old words", "the new words"]
    assert house.archived == [("a.md", "the new words")]
    assert house.wip == []


async def test_no_file_in_the_backlog_ends_the_watch(tmp_path: Path) -> None:
    house = House(tmp_path, play=script(implementer=[turn(NO_CHANGE, times=0)]))
    backlog, outside = house.backlog, tmp_path / "outside.md"
    outside.write_text("Not yours.\n")
    (backlog / "a folder.md").mkdir()
    (backlog / "dangling.md").symlink_to("nowhere")
    for name in (".hidden.md", "a.md~", ".a.md.swp", "a.swp", "a.tmp", "4913", "#a.md#"):
        house.item(name)
    ignored = {path.name for path in backlog.iterdir()}
    house.item("empty.md", "\n")
    (backlog / "no text.md").write_bytes(b"fine\nnot \xff fine\n")
    (backlog / "outside.md").symlink_to(outside)
    (backlog / "\udcff.md").touch()  # the one byte 0xff
    set_aside = {path.name for path in backlog.iterdir()} - ignored
    good = {
        "-5 MB.md": "x" * 5_000_000,
        "@a 'quoted' \"name\" $(id).md": "quotes",
        "two\nlines.md": "a line feed",
        "ü" * 126 + ".md": "as long as a name can be, in bytes",
    }
    for name, text in good.items():
        house.item(name, text)
    (backlog / "link.md").symlink_to("two\nlines.md")
    shutil.rmtree(house.state / "archive", ignore_errors=True)
    with trio.fail_after(40):
        finished = await house.watch_until_idle()
    assert finished.code == 1, finished.err
    blocked = {event.filename: event.reason for event in finished.reported if isinstance(event, WatchItemBlocked)}
    assert blocked == {
        "empty.md": "it is empty",
        "no text.md": "it is not valid UTF-8: byte 0xff in line 2",
        "outside.md": "it is a link out of the project",
        "\\udcff.md": "its name is not valid UTF-8",
    }
    assert {path.name for path in backlog.iterdir()} == ignored | set_aside
    completed = [event.filename for event in finished.reported if isinstance(event, WatchItemCompleted)]
    assert completed == sorted([*good, "link.md"])
    [link] = [path for path in (house.state / "archive").iterdir() if path.is_symlink()]
    assert link.name.endswith("-link.md")
    link.unlink()
    kept = dict(house.archived)
    long = next(name for name in kept if name.startswith("ü"))
    assert len(long.encode()) <= 255 - 37
    kept["ü" * 126 + ".md"] = kept.pop(long)
    assert kept == good
    assert outside.read_text() == "Not yours.\n"


# ---- folders ----------------------------------------------------------------------------------


async def test_folders_that_are_deleted_are_made_again(tmp_path: Path) -> None:
    house = House(tmp_path, play=script(implementer=[[AT_GATE, NO_CHANGE]]))
    with trio.fail_after(30):
        async with house.watching() as running:
            await running.until("WatchIdle")
            shutil.rmtree(house.state / "backlog")
            while not (house.state / "backlog").exists():  # noqa: ASYNC110 - made by another process
                await trio.sleep(0.01)
            house.item("a.md", "words")
            await house.at_gate()
            shutil.rmtree(house.state / "archive")
            house.open_gate()
            await running.until("WatchIdle", 2)
            await stop(running)
    assert running.reported[2:-2] == [*done("a.md"), *waiting(WatchBacklogWaiting())]
    assert house.archived == [("a.md", "words")]


async def test_a_backlog_that_cannot_be_read_three_times_in_a_row_ends_the_watch(tmp_path: Path) -> None:
    house = House(tmp_path)
    folder, aside = house.backlog, house.state / "aside"

    def spoil() -> None:
        folder.rename(aside)
        folder.write_text("no folder")

    with trio.fail_after(30):
        async with house.watching() as running:
            await running.until("WatchIdle")
            spoil()
            await running.until("WatchPollFailed", 2)
            folder.unlink()
            aside.rename(folder)
            (house.state / "spec-issues" / "one.md").write_text("Which?")  # shows when it was read again
            await running.until("WatchSpecIssueWaiting")
            spoil()
            code, _ = await running.end()
    assert code == 3
    message = f"{folder} cannot be read: Not a directory."
    assert running.reported[2:] == [
        *(WatchPollFailed(attempt=attempt, message=message) for attempt in (1, 2)),
        WatchSpecIssueWaiting(),
        *(WatchPollFailed(attempt=attempt, message=message) for attempt in (1, 2, 3)),
        ended("poll-failed", 0, 3),
    ]


# ---- the audit --------------------------------------------------------------------------------


def finding(text: str) -> Step:
    return {"do": "marker", "name": "TO_BE_DISCUSSED", "text": text}


STRAYS: Sequence[dict[str, Any]] = (
    {"setsid": True},
    {"setsid": True, "ignoreSignals": True},
    {"setsid": True, "doubleFork": True, "ignoreSignals": True, "emptyEnvironment": True},
)


async def test_work_ends_an_audit_and_all_of_its_processes(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    strays: list[Step] = [{"do": "leave", "pids": str(pids), **way} for way in STRAYS]
    count = f"for p in $(cat {pids}); do test -e /proc/$p && echo alive; done; echo counted"
    house = House(
        tmp_path,
        play=script(
            audit=[[*strays, finding("one"), AT_GATE, finding("two"), finding("three"), {"do": "hang"}]],
            planner=[[{"do": "run", "command": count}, *PLAN]],
            implementer=[[NO_CHANGE]],
        ),
        audit=True,
    )
    tbd = house.state / "tbd"
    with trio.fail_after(30):
        async with house.watching() as running:
            await running.until("WatchTbdItemFound")
            assert [path.read_text() for path in tbd.iterdir()] == ["one\n"]
            await house.at_gate()
            house.open_gate()
            await running.until("WatchTbdItemFound", 3)
            assert len(pids.read_text().split()) == len(STRAYS)
            house.item("a.md")
            await running.until("WatchItemCompleted")
            await running.until("WatchAuditEnded")
            running.send(signal.SIGINT)
            await running.end()
    found = [event for event in running.events if isinstance(event, WatchTbdItemFound)]
    assert [event.content for event in found] == ["one", "two", "three"]
    assert [(path.name, path.read_text()) for path in sorted(tbd.iterdir())] == [
        (event.filename, f"{event.content}\n") for event in found
    ]
    assert [event for event in running.reported if not isinstance(event, WatchTbdItemFound | WatchIdle)] == [
        WatchBacklogWaiting(),
        WatchAuditStarted(),
        WatchAuditInterrupted(),
        *done("a.md"),
        WatchBacklogWaiting(),
        WatchAuditStarted(),
        WatchAuditEnded(),
        STOPPED,
        ended("interrupted", 1, 130),
    ]
    assert "counted" in [event.output.strip() for event in running.events if isinstance(event, ToolResult)]
    assert house.left() == []


async def until_recorded(house: House, *, besides: str | None = None) -> str:
    """Wait until state.json has the fingerprint of an audit."""
    while True:
        audited = json.loads((house.state / "state.json").read_text())["audited"]
        if audited not in (None, besides):
            assert isinstance(audited, str)
            return audited
        await trio.sleep(0.01)


async def test_an_audit_is_repeated_only_when_something_has_changed(tmp_path: Path) -> None:
    """The debounce leaves time for an audit to start that should not."""
    play = script(audit=[[finding("one")]], implementer=[[NO_CHANGE], DONE, [AT_GATE, NO_CHANGE]])
    house = House(tmp_path, play=play, audit=True)
    with trio.fail_after(40):
        async with house.watching() as running:
            await running.until("WatchAuditEnded")
            audited = await until_recorded(house)
            await stop(running)
        async with house.watching(debounce=0.5) as running:
            await running.until("WatchIdle")
            house.item("a.md")  # changes nothing
            await running.until("WatchIdle", 2)
            house.item("b.md")  # changes a file
            await running.until("WatchItemCompleted", 2)
            assert running.names.count("WatchAuditStarted") == 0
            audited = await until_recorded(house, besides=audited)
            house.item("c.md")
            await house.at_gate()
            for path in (house.state / "tbd").iterdir():
                path.unlink()
            house.open_gate()
            await running.until("WatchItemCompleted", 3)
            assert running.names.count("WatchAuditStarted") == 1
            await until_recorded(house, besides=audited)
            await stop(running)
    assert running.names.count("WatchAuditStarted") == running.names.count("WatchAuditEnded") == 2


# ---- failures ---------------------------------------------------------------------------------


def about(item: str, *steps: Step) -> dict[str, Any]:
    """A planner's turn for this item, any number of times."""
    return turn(*steps, times=0, when={"contains": f"backlog/{item}"})


async def test_items_that_fail_or_cost_too_much_are_blocked_and_the_rest_is_done(tmp_path: Path) -> None:
    says_nothing = about("a.md", {"do": "say", "text": "I am lost."})
    expensive = about("b.md", {"do": "usage", "cost": 3.0}, {"do": "say", "text": "Ha."})
    house = House(
        tmp_path, play=script(planner=[says_nothing, expensive]), limits={"nudges": 0, "maxCostUsd": 2}, audit=True
    )
    for name in ("a.md", "b.md", "c.md"):
        house.item(name)
    with trio.fail_after(30):
        finished = await house.watch_until_idle()
    assert finished.code == 1, finished.err
    failed = [event for event in finished.reported if isinstance(event, WatchItemFailed)]
    assert [(event.attempt, event.retry_in) for event in failed] == [(1, 0.05), (2, 0.1), (3, None)]
    assert all("I am lost" in event.message for event in failed)
    taken = WatchProcessingItem(filename="a.md")
    assert finished.reported == [
        *(event for one in failed for event in (taken, one)),
        WatchItemBlocked(filename="a.md", reason=f"it failed 3 times: {failed[0].message}"),
        WatchProcessingItem(filename="b.md"),
        WatchItemBlocked(filename="b.md", reason="its loop has reached maxCostUsd (3)"),
        *done("c.md"),
        ended("idle", 1, 1),
    ]
    state = json.loads((house.state / "state.json").read_text())["items"]
    assert {name: trouble["attempts"] for name, trouble in state.items()} == {"a.md": 3, "b.md": 0}
    assert all(trouble["blocked"] for trouble in state.values())


async def test_a_provider_that_is_down_is_waited_for(tmp_path: Path) -> None:
    house = House(
        tmp_path,
        play=script(implementer=[[{"do": "fail", "kind": kind}] for kind in ("overloaded", "network")]),
        limits={"retries": 0},
    )
    house.item("a.md")
    with trio.fail_after(20):
        finished = await house.watch_until_idle()
    assert finished.reported == [*done("a.md"), ended("idle", 1, 0)]
    assert len([event for event in finished.events if isinstance(event, AgentWaiting)]) == 2
    assert finished.names.count("PlanningStart") == 1
    assert finished.names.count("ImplementingStart") == 3


# ---- validation -------------------------------------------------------------------------------


async def test_validation_runs_alone_every_n_items_and_at_the_end(tmp_path: Path) -> None:
    house = House(tmp_path, validateCommand="ls .cuggino/archive | wc -l >> .cuggino/validated")
    names = [f"{number}.md" for number in range(5)]
    for name in names:
        house.item(name)
    with trio.fail_after(30):
        finished = await house.watch_until_idle("--validate-every", "2")
    assert finished.code == 0

    def validated(completed: int) -> list[WatchLoopEvent]:
        return [WatchValidationStarted(completed=completed), WatchValidationPassed(completed=completed)]

    assert finished.reported == [
        *done(*names[:2]),
        *validated(2),
        *done(*names[2:4]),
        *validated(4),
        *done(names[4]),
        *validated(5),
        ended("idle", 5, 0),
    ]
    assert (house.state / "validated").read_text().split() == ["2", "4", "5"]


# ---- the command ------------------------------------------------------------------------------


async def test_the_exit_code_of_until_idle_shows_what_is_left(tmp_path: Path) -> None:
    """With the real intervals."""
    house = House(tmp_path)
    house.item("a.md")
    house.item("b.md")
    with trio.fail_after(30):
        finished = await house.run("watch", "--until-idle", "--json")
        assert finished.code == 0
        assert finished.reported == [*done("a.md", "b.md"), ended("idle", 2, 0)]
        house.item("empty.md", "")
        assert (await house.run("watch", "--until-idle")).code == 1
        (house.state / "spec-issues" / "one.md").write_text("Which?")
        finished = await house.run("watch", "--until-idle", "--json")
    assert (finished.code, finished.reported) == (4, [ended("idle", 0, 4)])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--validate-every", "0"), "--validate-every: expected an integer ≥ 1, got 0."),
        (("--jobs", "0"), "--jobs: expected an integer ≥ 1, got 0."),
    ],
)
async def test_invalid_arguments_are_refused(tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    house = House(tmp_path)
    with trio.fail_after(20):
        finished = await house.run("watch", *arguments)
    assert (finished.code, finished.out) == (2, "")
    assert message in finished.err


async def test_a_project_has_one_loop_at_a_time_except_for_dead_ones(tmp_path: Path) -> None:
    house = House(tmp_path)
    with trio.fail_after(30):
        async with house.watching() as running:
            await running.until("WatchIdle")
            for arguments in (("watch",), ("run", "--focus", "x")):
                refused = await house.run(*arguments)
                assert refused.code == 1
                assert (
                    f"`cuggino watch` (process {running.process.pid}) has been working in {house.root}" in refused.err
                )
            running.send(signal.SIGKILL)
            await running.end()
        assert "cuggino watch" in (house.state / "lock").read_text()
        assert (await house.watch_until_idle()).code == 0


@pytest.mark.skipif(os.environ.get("CUGGINO_SLOW") != "1", reason="waits half a minute: CUGGINO_SLOW=1 runs it")
async def test_the_real_debounce_is_half_a_minute(tmp_path: Path) -> None:
    house = House(tmp_path)
    with trio.fail_after(50):
        async with house.started("watch") as running:
            await running.until("WatchIdle")
            begun = trio.current_time()
            house.item("a.md")
            await running.until("WatchProcessingItem")
            assert 29.5 <= trio.current_time() - begun < 33
            await running.until("WatchIdle", 2)
            await stop(running)
