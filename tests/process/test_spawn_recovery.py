"""Recovery from denied permissions: more permissions and another round, or the end of the spawn."""

from __future__ import annotations

import os
import pty
import sys
from pathlib import Path
from typing import Any

import pytest
import trio

from cuggino.events import PermissionError as Denied
from cuggino.events import RecoveryAttempt
from tests.process.house import Step, turn
from tests.process.spawn_house import SpawnHouse, tasks


def denied(command: str, tool: str = "Bash") -> Step:
    """A tool that the agent's permissions deny."""
    return {"do": "tool", "name": tool, "input": {"command": command}, "output": "Permission denied.", "denied": True}


def attempt(number: int, *steps: Step) -> dict[str, Any]:
    """One attempt of the agent: the first in a new conversation, later ones with the message about permissions."""
    write: Step = {"do": "append", "path": "work.txt", "text": f"{number}\n"}
    when = {"resumed": True, "contains": "is allowed now"} if number > 1 else {"resumed": False}
    return turn(write, *steps, {"do": "say", "text": f"Attempt {number}."}, when=when)


async def test_one_round_allows_all_that_was_denied_in_the_same_conversation(tmp_path: Path) -> None:
    first = attempt(1, denied("make build"), denied("ls -l | tee log.txt"), denied("make build"))
    house = SpawnHouse(tmp_path, tasks(first, attempt(2)))
    finished = await house.spawn("--json", *house.given())
    assert [event for event in finished.events if isinstance(event, Denied)] == [
        Denied(error="Bash: make build", fix="allow the command `make build`"),
        Denied(error="Bash: ls -l | tee log.txt", fix="allow the command `ls -l | tee log.txt`"),
    ]
    assert [event for event in finished.events if isinstance(event, RecoveryAttempt)] == [
        RecoveryAttempt(attempt=1, max=1)
    ]
    assert finished.names.count("LLMStarted") == 2
    assert house.manifest["allowedCommands"] == ["make build", "ls -l | tee log.txt"]
    report = house.report
    assert report["Recovery"].splitlines() == [
        "- round 1: allow the command `make build`",
        "- round 1: allow the command `ls -l | tee log.txt`",
    ]
    assert report["Summary"] == "Attempt 2."
    assert house.shown(f"{house.branch}:work.txt") == "1\n2\n"


async def test_a_retry_after_the_limit_of_escalations_has_new_rounds(tmp_path: Path) -> None:
    house = SpawnHouse(tmp_path, tasks(attempt(1, denied("make a")), attempt(2, denied("make b"))))
    await house.spawn(*house.given(), code=5)
    report = house.report
    assert "**Status:** Stopped: permission denied" in report[""]
    assert "The limit of permission escalations is reached (1)." in report["What went wrong"]
    assert house.shown(f"{house.branch}:work.txt") == "1\n2\n"
    assert house.manifest["allowedCommands"] == ["make a"]
    house.play(tasks(turn(denied("make b"), when={"resumed": True}), turn({"do": "say", "text": "Now it is done."})))
    await house.retry()
    assert house.manifest["allowedCommands"] == ["make a", "make b"]


async def test_without_escalations_the_first_denial_ends_it(tmp_path: Path) -> None:
    house = SpawnHouse(tmp_path, tasks(attempt(1, denied("make a"))))
    await house.spawn(*house.given(), "--max-permission-escalations", "0", code=5)
    assert house.names.count("RecoveryAttempt") == 0


async def test_aggressive_continues_until_a_denial_cannot_be_fixed(tmp_path: Path) -> None:
    rounds = [attempt(number, denied(f"make {number}")) for number in range(1, 4)]
    never = attempt(4, denied("make 5"), denied("git push origin main"))
    house = SpawnHouse(tmp_path, tasks(*rounds, never))
    finished = await house.spawn("--json", *house.given(), "--recovery", "aggressive", code=1)
    assert [event for event in finished.events if isinstance(event, RecoveryAttempt)] == [
        RecoveryAttempt(attempt=number, max=None) for number in (1, 2, 3)
    ]
    assert finished.events.count(Denied(error="Bash: git push origin main", fix=None)) == 1
    report = house.report
    assert "`git push`, which spawn.neverAllow denies" in report["What went wrong"]
    assert len(report["Recovery"].splitlines()) == 3
    assert house.manifest["allowedCommands"] == ["make 1", "make 2", "make 3"]
    assert house.shown(f"{house.branch}:work.txt") == "1\n2\n3\n4\n"


async def test_a_tools_output_is_not_taken_for_a_denial(tmp_path: Path) -> None:
    output: Step = {"do": "tool", "name": "Bash", "output": "Permission denied: operation not permitted", "error": True}
    house = SpawnHouse(tmp_path, tasks(attempt(1, output)))
    finished = await house.spawn("--json", *house.given())
    assert not any(isinstance(event, Denied) for event in finished.events)


async def test_a_person_is_asked_about_each_denial(tmp_path: Path) -> None:
    first = attempt(1, denied("make a"), denied("make b"), denied("make c"), denied("make d"))
    house = SpawnHouse(tmp_path, tasks(first, attempt(2, denied("make b"), denied("make e"))))
    answers = ["what?", "allow", "deny", "all", "stop"]
    code, shown = await _in_terminal(house, answers, *house.given(), "--recovery", "interactive")
    assert code == 1, shown
    assert "Bash: make a: allow the command `make a`?" in shown
    assert "[a]llow, [d]eny, allow [all], [s]top:" in shown
    assert "You stopped it." in shown
    assert house.manifest["allowedCommands"] == ["make a", "make c", "make d"]


@pytest.mark.parametrize(("answer", "code"), [("d", 0), ("\x03", -2)], ids=["deny", "ctrl-c"])
async def test_a_person_who_denies_accepts_the_work_and_ctrl_c_keeps_it(tmp_path: Path, answer: str, code: int) -> None:
    house = SpawnHouse(tmp_path, tasks(attempt(1, denied("make a"))))
    ended, shown = await _in_terminal(house, [answer], *house.given(), "--recovery", "interactive")
    assert ended == code, shown
    assert house.shown(f"{house.branch}:work.txt") == "1\n"
    assert house.left() == []


async def _in_terminal(house: SpawnHouse, answers: list[str], *arguments: str) -> tuple[int, str]:
    """Run `cuggino spawn` in a terminal of its own, and answer each question with the next answer."""
    master, slave = pty.openpty()
    os.set_blocking(master, False)
    process = await trio.lowlevel.open_process(
        [sys.executable, "-c", f"import fcntl, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); {_RUN}", *arguments],
        cwd=house.root,
        env=house.environment,
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
    )
    os.close(slave)
    shown, asked = b"", 0
    with trio.fail_after(30):
        while True:
            await trio.lowlevel.wait_readable(master)
            try:
                shown += os.read(master, 65536)
            except OSError:  # the terminal is closed
                break
            if shown.count(b"[s]top: ") > asked and answers:
                answer = answers.pop(0)
                asked += 1
                os.write(master, answer.encode() + (b"" if answer == "\x03" else b"\n"))
        code = await process.wait()
    os.close(master)
    assert answers == []
    return code, shown.decode(errors="replace")


_RUN = "import sys; from cuggino import main; sys.exit(main.run(['spawn', 'Do it.', *sys.argv[1:]]))"
