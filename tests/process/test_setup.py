"""`cuggino setup` and `cuggino schema` as a person and as a script start them: a real terminal, real files."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import stat
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from cuggino.config import Config, load
from tests.process.house import COMMAND, House

IN_TERMINAL = """
import fcntl, os, sys, termios
os.setsid()
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""

CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\r")


class Talk:
    """A terminal in which cuggino runs, and somebody who types."""

    def __init__(self, process: trio.Process, master: int) -> None:
        self.process = process
        self._master = master
        self._received = b""
        self._seen = 0

    @property
    def text(self) -> str:
        return CONTROL.sub("", self._received.decode())

    async def until(self, words: str) -> str:
        """Wait for `words` after those that were waited for before; returns what came with them."""
        while (found := self.text.find(words, self._seen)) < 0:
            assert await self._read(), f"it ended without {words!r}: {self.text[self._seen :]}"
        begun, self._seen = self._seen, found + len(words)
        return self.text[begun : self._seen]

    async def answer(self, prompt: str, text: str) -> None:
        await self.until(prompt)
        self.type(f"{text}\n")

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    async def at_rest(self) -> None:
        """Wait until it sleeps. Python acts on a signal just before it waits for a key only when one is pressed."""
        stat = Path(f"/proc/{self.process.pid}/stat")
        while stat.read_text().rpartition(")")[2].split()[0] != "S":  # noqa: ASYNC110 - of another process
            await trio.sleep(0.01)

    async def end(self) -> int:
        while await self._read():
            pass
        return await self.process.wait()

    async def _read(self) -> bool:
        """False when cuggino has closed the terminal."""
        await trio.lowlevel.wait_readable(self._master)
        try:
            self._received += os.read(self._master, 65536)
        except OSError:
            return False
        return True


@asynccontextmanager
async def talking(folder: Path, environment: Mapping[str, str]) -> AsyncIterator[Talk]:
    """`cuggino setup` in a terminal of its own, whose keys send signals."""
    master, slave = os.openpty()
    os.set_blocking(master, False)
    try:
        process = await trio.lowlevel.open_process(
            [sys.executable, "-c", IN_TERMINAL, *COMMAND, "setup"],
            cwd=folder,
            env=environment,
            stdin=slave,
            stdout=slave,
            stderr=slave,
        )
        os.close(slave)
        slave = -1
        try:
            with trio.fail_after(20):
                yield Talk(process, master)
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            with trio.CancelScope(shield=True):
                await process.wait()
    finally:
        for fd in (master, slave):
            if fd >= 0:
                os.close(fd)


@pytest.fixture(name="house")
def _house(tmp_path: Path) -> House:
    """With an empty folder next to the project: `empty(house)`."""
    house = House(tmp_path)
    empty(house).mkdir()
    return house


def empty(house: House) -> Path:
    return house.home.parent / "empty"


FIRST = (
    *("specsPath", "maxIterations", "setupCommand", "checkCommand", "validateCommand", "commit", "audit", "agent"),
    "model",
)
"""What is asked at first, in this order."""


# ---- asked ------------------------------------------------------------------------------------


async def test_a_dialogue_in_an_empty_folder_makes_a_project(house: House) -> None:
    async with talking(empty(house), house.environment) as talk:
        said = await talk.until("specsPath [.specs]: ")
        assert f"Setting up {empty(house)}.\n" in said
        assert "does nothing else" in said
        talk.type("/etc\n")
        said = await talk.until("specsPath [.specs]: ")
        assert 'Try again: $.specsPath: got "/etc", which is absolute; expected a relative path' in said
        talk.type("docs/specs\n")
        await talk.answer("maxIterations [10]: ", "many")
        assert 'got "many"; expected an integer ≥ 1.' in await talk.until("maxIterations [10]: ")
        talk.type("3\n")
        await talk.answer("setupCommand [none]: ", "")
        await talk.answer("checkCommand [none]: ", 'make "all of it"')
        await talk.answer("validateCommand [none]: ", "")
        await talk.answer("commit [false]: ", "yes")
        await talk.answer("audit [false]: ", "")
        asked = await talk.until("agent [claude]: ")
        assert "One of claude, codex, gemini, opencode, scripted." in " ".join(asked.split())
        talk.type("cluade\n")
        assert "Did you mean claude?" in await talk.until("agent [claude]: ")
        talk.type("scripted\n")
        assert not (empty(house) / ".cuggino.json").exists()
        await talk.answer("model [none]: ", "")
        await talk.answer("Go through it? [no]: ", "perhaps")
        await talk.answer("Go through it? [no]: ", "yes")
        await talk.answer("Set agents? [no]: ", "")
        await talk.answer("Set limits? [no]: ", "y")
        await talk.answer("limits.idleTimeout [1800]: ", "")
        for key in ("agentTimeout", "commandTimeout", "nudges", "retries", "maxTasks"):
            await talk.answer(f"limits.{key} [", "")
        await talk.answer("limits.maxCostUsd [none]: ", "2.5")
        await talk.answer("limits.maxRuntime [none]: ", "")
        for section in ("spawn", "ci"):
            await talk.answer(f"Set {section}? [no]: ", "no")
        assert list(empty(house).iterdir()) == []
        await talk.answer("Set notify? [no]: ", "")
        assert await talk.end() == 0
        assert '"checkCommand": "make \\"all of it\\""' in talk.text
    written = empty(house) / ".cuggino.json"
    assert json.loads(written.read_text()) == {
        "specsPath": "docs/specs",
        "maxIterations": 3,
        "checkCommand": 'make "all of it"',
        "commit": True,
        "agent": "scripted",
        "limits": {"maxCostUsd": 2.5},
    }
    assert stat.S_IMODE(written.stat().st_mode) == 0o644
    assert (empty(house) / "docs" / "specs").is_dir()
    assert (empty(house) / ".cuggino" / "backlog").is_dir()
    assert sorted(path.name for path in empty(house).iterdir()) == [".cuggino", ".cuggino.json", "docs"]


async def test_what_is_set_is_the_default_and_a_dash_clears_it(house: House) -> None:
    before = {"agent": "scripted", "checkCommand": "make", "commit": True, "limits": {"retries": 1}}
    (house.root / ".cuggino.json").write_text(json.dumps(before))
    (house.root / "src").mkdir()
    async with talking(house.root / "src", house.environment) as talk:
        for key in FIRST:
            shown = {"checkCommand": "make", "commit": "true", "agent": "scripted"}.get(key, "")
            await talk.answer(f"{key} [{shown}", "-" if key == "checkCommand" else "")
        await talk.answer("Go through it? [no]: ", "")
        assert await talk.end() == 0
    after = json.loads((house.root / ".cuggino.json").read_text())
    assert after == {"commit": True, "agent": "scripted", "limits": {"retries": 1}}


async def test_a_line_can_be_edited_and_an_escape_sequence_is_no_answer(house: House) -> None:
    async with talking(empty(house), house.environment) as talk:
        await talk.until("specsPath [.specs]: ")
        talk.type("spacs\x1b[D\x1b[D\x7fe\n")  # two to the left, rub out, e
        await talk.until("maxIterations [10]: ")
        talk.type("\n")
        await talk.until("setupCommand [none]: ")
        talk.type("echo \x16\x1b[2J\n")  # Ctrl+V takes the next key as it is
        assert "Try again: found echo ␛[2J, with characters that" in await talk.until("setupCommand [none]: ")
        talk.type("-\n")
        for key in FIRST[3:]:
            await talk.answer(f"{key} [", "")
        await talk.answer("Go through it? [no]: ", "")
        assert await talk.end() == 0
    assert load(empty(house) / ".cuggino.json") == Config(specs_path="specs")


@pytest.mark.parametrize(("key", "code"), [("\x03", -signal.SIGINT), ("\x04", 1)])
@pytest.mark.parametrize("question", ["specsPath [.specs]: ", "model [none]: "])
async def test_leaving_at_a_question_writes_nothing(house: House, key: str, code: int, question: str) -> None:
    """Ctrl+C and Ctrl+D. The former ends it by the signal, as a shell wants it: 130."""
    async with talking(empty(house), house.environment) as talk:
        for name in FIRST:
            await talk.until(f"{name} [")
            if question.startswith(name):
                await talk.until("]: ")
                break
            talk.type("\n")
        await talk.at_rest()
        talk.type(key)
        assert await talk.end() == code
        assert "othing was written." in talk.text
        assert "Traceback" not in talk.text
    assert list(empty(house).iterdir()) == []


async def test_a_broken_file_is_shown_and_kept_and_the_rest_goes_on_from_it(house: House) -> None:
    broken = '{"commit": "yes", "maxIterations": 4}\n'
    (house.root / ".cuggino.json").write_text(broken)
    (house.root / ".cuggino.json.bak").write_text("an older one")
    async with talking(house.root, house.environment) as talk:
        said = await talk.until("specsPath [.specs]: ")
        assert '$.commit: got "yes"; expected true or false.' in said
        assert f"\n    {broken}" in said
        talk.type("\n")
        await talk.answer("maxIterations [4]: ", "")
        for key in FIRST[2:]:
            await talk.answer(f"{key} [", "")
        await talk.answer("Go through it? [no]: ", "")
        assert await talk.end() == 0
        assert f"kept as {house.root}/.cuggino.json.bak.2." in talk.text
    assert json.loads((house.root / ".cuggino.json").read_text()) == {"maxIterations": 4}
    assert (house.root / ".cuggino.json.bak").read_text() == "an older one"
    assert (house.root / ".cuggino.json.bak.2").read_text() == broken


async def test_a_file_that_somebody_else_changes_meanwhile_is_left_alone(house: House) -> None:
    async with talking(house.root, house.environment) as talk:
        for key in FIRST:
            await talk.answer(f"{key} [", "")
        await talk.until("Go through it? [no]: ")
        (house.root / ".cuggino.json").write_text('{"maxIterations": 2}')
        talk.type("\n")
        assert await talk.end() == 1
        assert "was changed meanwhile: nothing was written." in talk.text
    assert (house.root / ".cuggino.json").read_text() == '{"maxIterations": 2}'


# ---- not asked --------------------------------------------------------------------------------


async def test_yes_takes_defaults_and_leaves_a_file_alone_that_says_the_same(house: House) -> None:
    with trio.fail_after(20):
        assert (await house.run("setup", "--yes", cwd=empty(house))).code == 0
        assert (empty(house) / ".cuggino.json").read_text() == "{}\n"
        assert (empty(house) / ".specs").is_dir()
        written = '{ "limits": {"nudges": 2},\n"commit": false }'
        (empty(house) / ".cuggino.json").write_text(written)
        finished = await house.run("setup", "--yes", cwd=empty(house))
    assert finished.code == 0
    assert finished.err == ""
    assert written in finished.out
    assert (empty(house) / ".cuggino.json").read_text() == written


async def test_set_sets_without_asking(house: House) -> None:
    (house.root / ".cuggino.json").chmod(0o600)
    with trio.fail_after(20):
        finished = await house.run(
            *(
                "setup",
                "--set",
                "limits.retries=3",
                "--set",
                "checkCommand=make a=b",
                "--set",
                "notify.events=Done Note",
            ),
            *("--set", "commit=true", "--yes"),
        )
    assert finished.code == 0, finished.err
    expected = {
        "checkCommand": "make a=b",
        "commit": True,
        "agent": "scripted",
        "limits": {"retries": 3},
        "notify": {"events": ["Done", "Note"]},
    }
    text = (house.root / ".cuggino.json").read_text()
    assert json.loads(text) == expected
    assert list(json.loads(text)) == list(expected)
    assert text in finished.out
    assert stat.S_IMODE((house.root / ".cuggino.json").stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "--yes"),
        (["--set", "comit=true"], "Did you mean commit?"),
        (["--set", "commit"], "--set key=value"),
        (["--set", "limits={}"], "as limits.idleTimeout"),
        (
            ["--set", "commit=true", "--set", "limits.retries=-1"],
            "$.limits.retries: got -1; expected an integer ≥ 0",
        ),
        (["--set", "model=\x1b[2J"], "␛[2J"),
    ],
)
async def test_what_cannot_be_set_ends_with_2_and_nothing_is_written(
    house: House, arguments: list[str], words: str
) -> None:
    with trio.fail_after(20):
        finished = await house.run("setup", *arguments, cwd=empty(house))
    assert finished.code == 2
    assert words in finished.err
    assert "Traceback" not in finished.err
    assert "\x1b" not in finished.err
    assert list(empty(house).iterdir()) == []


async def test_a_file_in_the_place_of_the_specs_is_told_and_no_setting_changes(house: House) -> None:
    before = (house.root / ".cuggino.json").read_text()
    (house.root / "notes").write_text("mine")
    with trio.fail_after(20):
        finished = await house.run("setup", "--set", "specsPath=notes", "--set", "commit=true")
    assert finished.code == 1
    assert f"{house.root}/notes cannot be a folder" in finished.err
    assert (house.root / ".cuggino.json").read_text() == before


async def test_a_folder_in_the_file_s_place_is_told_and_left_alone(house: House) -> None:
    (empty(house) / ".cuggino.json").mkdir()
    with trio.fail_after(20):
        finished = await house.run("setup", "--yes", cwd=empty(house))
    assert finished.code == 2
    assert "a directory; expected a JSON file" in finished.err
    assert [path.name for path in empty(house).iterdir()] == [".cuggino.json"]


# ---- the schema -------------------------------------------------------------------------------


@pytest.mark.parametrize(("arguments", "definition"), [([], "Config"), (["config"], "Config"), (["events"], "LogLine")])
async def test_a_schema_is_printed_as_json_and_nothing_else(
    house: House, arguments: list[str], definition: str
) -> None:
    with trio.fail_after(20):
        finished = await house.run("schema", *arguments)
    assert finished.code == 0
    assert json.loads(finished.out)["$ref"] == f"#/$defs/{definition}"
