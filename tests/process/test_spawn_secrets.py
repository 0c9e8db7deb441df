"""Wherever an agent puts a secret that it was lent, cuggino does not write, print or run anything that shows it."""

from __future__ import annotations

import contextlib
import json
import signal
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.process.house import Finished, Step, turn
from tests.process.spawn_house import HELD, WORK, SpawnHouse, answer, tasks

TOKEN = "hunter2/aBcDeF+9876-middle"
OTHER = "middle-zyxWVU=54321"
"""It starts with the end of TOKEN."""
FILED = 'first "line"\nsecond line of it'
UNLENT = "never-lent-0123456789"
VALUES = {"TOKEN": TOKEN, "OTHER": OTHER, "UNLENT": UNLENT}
LENT = ["env:TOKEN", "env:OTHER", "file:~/filed.key"]
SHOW = 'printenv TOKEN; echo "$OTHER" >&2; echo "$FILED"; printf %s "$TOKEN" | base64'


class Vault(SpawnHouse):
    """A house with secrets; the manifest names all except for one."""

    def __init__(self, folder: Path, play: dict[str, Any] | None = None, **config: Any) -> None:
        listed = {"secrets": [*LENT, "env:UNLENT"], **config.pop("spawn", {})}
        super().__init__(folder, play, spawn=listed, **config)
        (self.home / "filed.key").write_text(f"{FILED}\n")
        self.lent = self.given(secrets=LENT)

    @property
    def environment(self) -> dict[str, str]:
        return {**super().environment, **VALUES, "UNLISTED": "unlisted-0123456789", "GH_TOKEN": "gh-0123456789"}

    def assert_no_secret(self, finished: Finished | None = None) -> None:
        """No file of cuggino and nothing that it printed contains a secret, in any form."""
        texts = {str(path): path.read_bytes() for path in self.state.rglob("*") if path.is_file()}
        if finished is not None:
            texts |= {"stdout": finished.out.encode(), "stderr": finished.err.encode()}
        assert texts
        for value in FORMS:
            assert [where for where, text in texts.items() if value.encode() in text] == [], value


FORMS: tuple[str, ...] = (
    *(TOKEN, TOKEN[:-6], OTHER, OTHER[6:], UNLENT),
    *('first "line"', "second line of it", json.dumps(FILED)[1:-1]),
    "aHVudGVyMi9hQmNEZUYrOTg3Ni1taWRkbG",  # base64
)


@asynccontextmanager
async def no_argument_has_one() -> AsyncIterator[None]:
    """Assert that no process has a secret in its command line while the block runs."""
    seen: list[bytes] = []

    async def look() -> None:
        while True:
            for process in Path("/proc").glob("[0-9]*/cmdline"):
                with contextlib.suppress(OSError):
                    words = process.read_bytes()
                    if any(value.encode() in words for value in (TOKEN, OTHER, UNLENT)):
                        seen.append(words)
            await trio.sleep(0.02)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(look)
        yield
        nursery.cancel_scope.cancel()
    assert seen == []


async def test_secrets_are_redacted_wherever_an_agent_or_a_command_puts_them(tmp_path: Path) -> None:
    worker: list[Step] = [
        {"do": "run", "command": f"{SHOW}; env | sort"},
        {"do": "say", "text": f"It is {TOKEN}, {TOKEN[:-6]}{OTHER}."},
        {"do": "tool", "name": "Bash", "input": {"command": f"curl -H {TOKEN}", "more": [{FILED: 1}]}, "output": OTHER},
        {"do": "raw", "line": json.dumps({"type": "unknown", "text": TOKEN})},
        {"do": "raw", "line": f"no JSON: {TOKEN}"},
        {"do": "stderr", "text": f"on stderr: {OTHER}"},
        *WORK,
        {"do": "say", "text": f"Summary: {FILED} and {UNLENT}."},
    ]
    house = Vault(tmp_path, tasks(worker), setupCommand=f"{SHOW} 2>&1", checkCommand=SHOW)
    async with no_argument_has_one():
        finished = await house.spawn(*house.lent, "--integrate", "merge")
    assert finished.code == 0, finished.out
    house.assert_no_secret(finished)
    assert (house.spawned / "setup.txt").read_text().startswith("***\n***\n***\n***")
    assert (house.spawned / "check.txt").read_text().startswith("***\n***\n***\n***")
    assert "It is ***, ***." in finished.out
    assert "Summary: *** and ***." in house.report["Summary"]
    assert "Summary: *** and ***." in house.git("log", "-1", "--format=%b")
    assert [path.name for path in house.spawned.glob(".*")] == []
    assert house.manifest["secrets"] == LENT


async def test_secrets_are_redacted_in_an_error(tmp_path: Path) -> None:
    fail = ({"do": "stderr", "text": f"cannot log in with {TOKEN}"}, {"do": "exit", "code": 3})
    house = Vault(tmp_path, tasks((*WORK, *fail)))
    finished = await house.spawn(*house.lent, code=1)
    assert "cannot log in with ***" in house.report["What went wrong"]
    house.assert_no_secret(finished)


async def test_only_secrets_that_are_listed_and_in_the_manifest_have_a_value(tmp_path: Path) -> None:
    play = tasks(({"do": "run", "command": "env | sort > $HOME/environment; git commit --allow-empty -qm mine"}, *WORK))
    play["evaluator"] = [answer(secrets=["env:TOKEN", "env:UNLISTED"], environment={"COLOUR": "red", "PATH": "/evil"})]
    house = Vault(tmp_path, play)
    finished = await house.spawn()
    assert "The evaluation asked for secrets that spawn.secrets lacks: env:UNLISTED" in finished.out
    has = dict(line.partition("=")[::2] for line in (house.home / "environment").read_text().splitlines())
    assert has["TOKEN"] == TOKEN
    assert has["COLOUR"] == "red"
    assert has["PATH"] == house.environment["PATH"]
    assert {"OTHER", "UNLENT", "UNLISTED", "GH_TOKEN", "CANARY"} & set(has) == set()
    assert has["GIT_TERMINAL_PROMPT"] == "0"
    assert has["GIT_CONFIG_GLOBAL"] == "/dev/null"
    log = house.git("log", "--format=%an|%s", "main..", house.branch, "--not", "main")
    assert log.splitlines()[-1] == "tester|mine"


async def test_a_secret_without_a_value_is_named(tmp_path: Path) -> None:
    house = Vault(tmp_path)
    (house.home / "filed.key").unlink()
    finished = await house.spawn(*house.lent, code=1)
    assert "The secret file:~/filed.key cannot be read." in finished.out
    assert not house.script.with_name("script.json.played").exists()


# ---- in commits -------------------------------------------------------------------------------

COMMIT = "git add -A && git commit -qm"
LEAKS = {
    "a file": ("printenv TOKEN > leak.txt", "(leak.txt)"),
    "a message": (f'touch a && {COMMIT} "it is $TOKEN"', "(its message)"),
    "a commit that was reverted": (
        f"printenv OTHER > leak.txt && {COMMIT} one && rm leak.txt && touch b && {COMMIT} two",
        "(leak.txt)",
    ),
    "a name": ('touch "$OTHER"', "(***)"),
    "a secret that was not lent": (
        f"printf %s {UNLENT[:5]} > leak.txt; printf %s {UNLENT[5:]} >> leak.txt",
        "(leak.txt)",
    ),
}


@pytest.mark.parametrize("where", LEAKS)
async def test_a_secret_in_a_commit_prevents_the_integration(tmp_path: Path, where: str) -> None:
    command, place = LEAKS[where]
    house = Vault(tmp_path, tasks(({"do": "run", "command": command}, {"do": "say", "text": "Done."})))
    before = house.snapshot()
    finished = await house.spawn(*house.lent, "--integrate", "merge", code=1)
    wrong = house.report["What went wrong"]
    assert "A secret is in its commits: " in wrong
    assert place in wrong
    house.assert_no_secret(finished)
    assert house.snapshot() == before
    again = await house.retry(code=1)
    house.assert_no_secret(again)


# ---- stopped in the middle --------------------------------------------------------------------


@pytest.mark.parametrize("phase", ["setup", "agent", "check"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
async def test_no_secret_is_left_after_a_stop_in_any_phase(tmp_path: Path, number: signal.Signals, phase: str) -> None:
    held = f"{SHOW}; {HELD['command']}"
    commands = {f"{phase}Command": held} if phase != "agent" else {}
    worker: tuple[Step, ...] = ({"do": "run", "command": SHOW}, *WORK)
    if phase == "agent":
        worker = (*worker, HELD)
    house = Vault(tmp_path, tasks(worker, turn(*WORK, times=0)), **commands)
    async with house.spawning(*house.lent, "--integrate", "merge") as running:
        await house.held()
        raw = list(house.spawned.glob(".*"))
        assert raw
        assert {stat.S_IMODE(path.stat().st_mode) for path in (*raw, *house.spawned.iterdir())} == {0o600}
        running.send(number)
        code, _ = await running.end()
    assert code == -number
    if number is signal.SIGINT:
        assert list(house.spawned.glob(".*")) == []
        house.assert_no_secret()
        return
    house.release()
    (house.root / ".cuggino.json").write_text(json.dumps({"agent": "scripted", "spawn": {"secrets": LENT}}))
    again = await house.retry()
    assert list(house.spawned.glob(".*")) == []
    house.assert_no_secret(again)
