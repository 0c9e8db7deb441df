"""`cuggino setup` and `cuggino schema` as processes, in a terminal and without one."""

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
from tests.process.house import COMMAND, Finished, House

IN_TERMINAL = """
import fcntl, os, sys, termios
os.setsid()
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""

CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\r")


class Talk:
    """A terminal in which cuggino runs, and a person who types."""

    def __init__(self, process: trio.Process, master: int) -> None:
        self.process = process
        self._master = master
        self._received = b""
        self._seen = 0

    @property
    def text(self) -> str:
        return CONTROL.sub("", self._received.decode())

    async def until(self, words: str) -> str:
        """Wait for `words` in the output since the last call; return that output up to them."""
        while (found := self.text.find(words, self._seen)) < 0:
            assert await self._read(), f"it ended without {words!r}: {self.text[self._seen :]}"
        start, self._seen = self._seen, found + len(words)
        return self.text[start : self._seen]

    async def answer(self, prompt: str, text: str = "") -> str:
        """Type `text` when the prompt is there; return the output up to the prompt."""
        output = await self.until(prompt)
        self.type(f"{text}\n")
        return output

    async def keep(self, *keys: str) -> None:
        """Keep the values of these settings."""
        for key in keys:
            await self.answer(f"{key} [")

    async def finish(self) -> None:
        """Skip the sections; setup must succeed."""
        await self.answer("Change them? [no]: ")
        assert await self.end() == 0

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    async def at_rest(self) -> None:
        """Wait until it sleeps: Python handles a signal just before it reads a key only with the next key."""
        stat = Path(f"/proc/{self.process.pid}/stat")
        while stat.read_text().rpartition(")")[2].split()[0] != "S":  # noqa: ASYNC110 - of another process
            await trio.sleep(0.01)

    async def end(self) -> int:
        while await self._read():
            pass
        return await self.process.wait()

    async def _read(self) -> bool:
        """Return False when cuggino has closed the terminal."""
        await trio.lowlevel.wait_readable(self._master)
        try:
            self._received += os.read(self._master, 65536)
        except OSError:
            return False
        return True


@asynccontextmanager
async def talking(directory: Path, environment: Mapping[str, str]) -> AsyncIterator[Talk]:
    """Run `cuggino setup` in a terminal of its own, whose keys send signals."""
    master, slave = os.openpty()
    os.set_blocking(master, False)
    try:
        process = await trio.lowlevel.open_process(
            [sys.executable, "-c", IN_TERMINAL, *COMMAND, "setup"],
            cwd=directory,
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
    """A project with an empty directory next to it: `empty(house)`."""
    house = House(tmp_path)
    empty(house).mkdir()
    return house


def empty(house: House) -> Path:
    return house.home.parent / "empty"


async def run(house: House, *arguments: str, cwd: Path | None = None) -> Finished:
    with trio.fail_after(20):
        return await house.run(*arguments, cwd=cwd)


FIRST = (
    *(
        "specsPath",
        "maxIterations",
        "setupCommand",
        "checkCommand",
        "validateCommand",
        "gate",
        "commit",
        "audit",
        "agent",
    ),
    "model",
)
"""The settings asked first, in this order."""


# ---- in a terminal ----------------------------------------------------------------------------


async def test_a_dialogue_in_an_empty_directory_makes_a_project(house: House) -> None:
    async with talking(empty(house), house.environment) as talk:
        assert f"Setting up {empty(house)}.\n" in await talk.answer("specsPath [.specs]: ", "/etc")
        again = await talk.answer("specsPath [.specs]: ", "docs/specs")
        assert "Try again: $.specsPath" in again
        await talk.answer("maxIterations [10]: ", "3")
        await talk.keep("setupCommand")
        await talk.answer("checkCommand [none]: ", 'make "all of it"')
        await talk.keep("validateCommand", "gate")
        await talk.answer("commit [false]: ", "yes")
        await talk.keep("audit")
        asked = await talk.answer("agent [claude]: ", "cluade")
        assert "One of claude, codex, gemini, opencode, scripted." in " ".join(asked.split())
        assert "Did you mean claude?" in await talk.answer("agent [claude]: ", "scripted")
        await talk.keep("model")
        await talk.answer("Change them? [no]: ", "yes")
        await talk.answer("Set agents? [no]: ")
        await talk.answer("Set limits? [no]: ", "y")
        await talk.answer("limits.idleTimeout [1800]: ", "60")
        while "Set notify? [no]: " not in await talk.answer("]: "):
            assert list(empty(house).iterdir()) == []
        assert await talk.end() == 0
        assert '"checkCommand": "make \\"all of it\\""' in talk.text
    written = empty(house) / ".cuggino.json"
    assert json.loads(written.read_text()) == {
        "specsPath": "docs/specs",
        "maxIterations": 3,
        "checkCommand": 'make "all of it"',
        "commit": True,
        "agent": "scripted",
        "limits": {"idleTimeout": 60},
    }
    assert stat.S_IMODE(written.stat().st_mode) == 0o644
    assert (empty(house) / "docs" / "specs").is_dir()
    assert (empty(house) / ".cuggino" / "backlog").is_dir()
    assert sorted(path.name for path in empty(house).iterdir()) == [".cuggino", ".cuggino.json", "docs"]


async def test_the_current_values_are_offered_and_a_dash_resets_one(house: House) -> None:
    before = {"agent": "scripted", "checkCommand": "make", "commit": True, "limits": {"retries": 1}}
    (house.root / ".cuggino.json").write_text(json.dumps(before))
    (house.root / "src").mkdir()
    async with talking(house.root / "src", house.environment) as talk:
        for key in FIRST:
            shown = {"checkCommand": "make", "commit": "true", "agent": "scripted"}.get(key, "")
            await talk.answer(f"{key} [{shown}", "-" if key == "checkCommand" else "")
        await talk.finish()
    after = json.loads((house.root / ".cuggino.json").read_text())
    assert after == {"commit": True, "agent": "scripted", "limits": {"retries": 1}}


async def test_a_line_can_be_edited_and_an_escape_sequence_is_refused(house: House) -> None:
    async with talking(empty(house), house.environment) as talk:
        await talk.answer("specsPath [.specs]: ", "spacs\x1b[D\x1b[D\x7fe")  # two to the left, rub out, e
        await talk.keep("maxIterations")
        await talk.answer("setupCommand [none]: ", "echo \x16\x1b[2J")  # Ctrl+V takes the next key literally
        assert "Try again: expected plain text, got echo ␛[2J" in await talk.answer("setupCommand [none]: ", "-")
        await talk.keep(*FIRST[3:])
        await talk.finish()
    assert load(empty(house) / ".cuggino.json") == Config(specs_path="specs")


@pytest.mark.parametrize(("key", "code"), [("\x03", -signal.SIGINT), ("\x04", 1)])
@pytest.mark.parametrize("last", ["specsPath", "model"])
async def test_ctrl_c_or_ctrl_d_at_a_question_writes_nothing(house: House, key: str, code: int, last: str) -> None:
    """Ctrl+C ends it by the signal, as shells expect: 130."""
    async with talking(empty(house), house.environment) as talk:
        await talk.keep(*FIRST[: FIRST.index(last)])
        await talk.until(f"{last} [")
        await talk.until("]: ")
        await talk.at_rest()
        talk.type(key)
        assert await talk.end() == code
        assert "othing was written." in talk.text
        assert "Traceback" not in talk.text
    assert list(empty(house).iterdir()) == []


async def test_an_invalid_file_is_shown_and_kept_and_its_valid_settings_are_offered(house: House) -> None:
    invalid = '{"commit": "yes", "maxIterations": 4}\n'
    (house.root / ".cuggino.json").write_text(invalid)
    (house.root / ".cuggino.json.bak").write_text("an older one")
    async with talking(house.root, house.environment) as talk:
        printed = await talk.answer("specsPath [.specs]: ")
        assert "$.commit: " in printed
        assert f"\n    {invalid}" in printed
        await talk.answer("maxIterations [4]: ")
        await talk.keep(*FIRST[2:])
        await talk.finish()
        assert f"Kept the invalid file as {house.root}/.cuggino.json.bak.2." in talk.text
    assert json.loads((house.root / ".cuggino.json").read_text()) == {"maxIterations": 4}
    assert (house.root / ".cuggino.json.bak").read_text() == "an older one"
    assert (house.root / ".cuggino.json.bak.2").read_text() == invalid


async def test_a_file_that_changes_in_the_meantime_is_left_unchanged(house: House) -> None:
    async with talking(house.root, house.environment) as talk:
        await talk.keep(*FIRST)
        await talk.until("Change them? [no]: ")
        (house.root / ".cuggino.json").write_text('{"maxIterations": 2}')
        talk.type("\n")
        assert await talk.end() == 1
        assert "changed in the meantime; nothing was written." in talk.text
    assert (house.root / ".cuggino.json").read_text() == '{"maxIterations": 2}'


# ---- without a terminal -----------------------------------------------------------------------


async def test_yes_takes_defaults_and_leaves_a_file_with_the_same_settings_unchanged(house: House) -> None:
    written = empty(house) / ".cuggino.json"
    assert (await run(house, "setup", "--yes", cwd=empty(house))).code == 0
    assert written.read_text() == "{}\n"
    assert (empty(house) / ".specs").is_dir()
    own_style = '{ "limits": {"nudges": 2},\n"commit": false }'
    written.write_text(own_style)
    finished = await run(house, "setup", "--yes", cwd=empty(house))
    assert (finished.code, finished.err) == (0, "")
    assert own_style in finished.out
    assert written.read_text() == own_style


async def test_set_sets_without_asking(house: House) -> None:
    (house.root / ".cuggino.json").chmod(0o600)
    assignments = ("limits.retries=3", "checkCommand=make a=b", "notify.events=Done Note", "commit=true")
    finished = await run(house, "setup", *(word for each in assignments for word in ("--set", each)), "--yes")
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
    ("arguments", "message"),
    [
        ([], "--yes"),
        (["--set", "commit"], "--set key=value"),
        (["--set", "commit=true", "--set", "limits.retries=-1"], "$.limits.retries: "),
        (["--set", "model=\x1b[2J"], "␛[2J"),
    ],
)
async def test_a_wrong_call_exits_with_2_and_writes_nothing(house: House, arguments: list[str], message: str) -> None:
    finished = await run(house, "setup", *arguments, cwd=empty(house))
    assert finished.code == 2
    assert message in finished.err
    assert "Traceback" not in finished.err
    assert "\x1b" not in finished.err
    assert list(empty(house).iterdir()) == []


async def test_a_directory_in_place_of_the_file_is_reported_and_left_alone(house: House) -> None:
    (empty(house) / ".cuggino.json").mkdir()
    finished = await run(house, "setup", "--yes", cwd=empty(house))
    assert finished.code == 2
    assert "JSON file" in finished.err
    assert [path.name for path in empty(house).iterdir()] == [".cuggino.json"]


# ---- the schema -------------------------------------------------------------------------------


@pytest.mark.parametrize(("arguments", "definition"), [([], "Config"), (["config"], "Config"), (["events"], "LogLine")])
async def test_a_schema_is_printed_as_json_and_nothing_else(
    house: House, arguments: list[str], definition: str
) -> None:
    finished = await run(house, "schema", *arguments)
    assert finished.code == 0
    assert json.loads(finished.out)["$ref"] == f"#/$defs/{definition}"
