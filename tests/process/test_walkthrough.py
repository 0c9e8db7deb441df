"""Play docs/walkthrough.md in two terminals: type its commands and compare the output with the document.

A `console` block belongs to the first terminal, a `console second` block to the second one. In them

- `$ command` is typed at the shell's prompt, after exactly the output before it,
- `question [default]: answer` is answered when the question appears,
- `^C` is pressed when the lines before it are there,
- other lines are output. `…` is any text, or any lines if it is alone; times, IDs and similar values may differ.

Any other block is a file, if the text before it ends with "into `path`:".
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple
from uuid import uuid4

import pytest
import trio
from markdown_it import MarkdownIt

DOCUMENT = Path(__file__).parent.parent.parent / "docs" / "walkthrough.md"

TIMEOUT = 30.0
"""Maximum seconds for the next output to appear, on a busy machine."""

TOOLS = ("bash", "git", "mkdir", "sh", "sleep", "touch")
"""All programs in PATH besides cuggino, so that no agent of this machine is found."""
MISSING = [name for name in ("tmux", *TOOLS) if shutil.which(name) is None]

PROMPT = r"\$\n\Z"
ANY_LINES = r"(?:.*\n)*?"
QUESTION = re.compile(r"(\w[\w ?]* \[[^]]*\]:)(.*)")
VARIES = (
    r"(?:\d{4}-)?\d\d-\d\d \d\d:\d\d",  # a time
    r"\b(?:\d+h )?(?:\d+m )?\d+s\b",  # a duration
    r"\b[0-9a-f]{8}-[0-9a-f]{4}[0-9a-f-]*",  # a session or a spec issue
    r"\b[0-9a-f]{7}\b",  # a commit
    r"\b\d+[.]\d+[.]\w+",  # a version
    r"\bprocess \d+",
    r"\b[\d.]+ [KMGT]iB\b",
)
PARTS = re.compile("|".join(f"(?:{kind})" for kind in (*VARIES, "…", " {2,}")))


def pattern(line: str) -> str:
    """Return the pattern of the terminal's text for this line of the document."""
    if line == "…":
        return ANY_LINES
    found, place = "", 0
    for part in PARTS.finditer(line):
        found += re.escape(line[place : part.start()])
        place = part.end()
        if part[0] == "…":
            found += ".*"
        elif part[0].isspace():
            found += " +"
        else:
            found += next(kind for kind in VARIES if re.fullmatch(kind, part[0]))
    return f"{found}{re.escape(line[place:])}\n"


# ---- the document -----------------------------------------------------------------------------


class Typed(NamedTuple):
    """Lines for one of the two terminals."""

    second: bool
    lines: list[str]


class Written(NamedTuple):
    """A file to write."""

    path: str
    text: str


def steps() -> Iterator[Typed | Written]:
    """Yield the steps of the document, in order."""
    before = ""
    for token in MarkdownIt().parse(DOCUMENT.read_text(encoding="utf-8")):
        if token.type == "inline":
            before = token.content
        elif token.type == "fence":
            language, *words = token.info.split()
            if language == "console":
                yield Typed(words == ["second"], [line.rstrip() for line in token.content.splitlines()])
            elif into := re.search(r"into `([^`]+)`:\Z", before):
                yield Written(into[1], token.content)


# ---- the terminals ----------------------------------------------------------------------------


class Terminals:
    """A tmux server for this test, with windows of 80 columns."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.canary = f"canary-{uuid4().hex}"
        self._environment = _environment(directory) | {"CANARY": self.canary}

    async def tmux(self, *arguments: str, check: bool = True) -> str:
        done = await trio.run_process(
            ["tmux", "-u", "-L", self.canary, "-f", os.devnull, *arguments],
            cwd=self.directory,
            env=self._environment,
            executable=shutil.which("tmux"),
            capture_stdout=True,
            capture_stderr=True,
            check=check,
        )
        return done.stdout.decode()

    async def open(self, name: str) -> Terminal:
        shell = ("bash", "--norc", "--noprofile")
        await self.tmux("new-session", "-d", "-s", name, "-x", "80", "-y", "24", "-c", str(self.directory), *shell)
        return Terminal(self, name)

    def left(self) -> list[int]:
        """Return the live processes that were started here, directly or not."""
        found = []
        for directory in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if self.canary.encode() in (directory / "environ").read_bytes():
                    found.append(int(directory.name))
        return found

    async def close(self) -> None:
        """End all processes: closing windows hangs up on them; kill those that survive that."""
        socket = (await self.tmux("display-message", "-p", "#{socket_path}", check=False)).strip()
        await self.tmux("kill-server", check=False)
        with trio.move_on_after(10):
            while self.left():  # noqa: ASYNC110 - other processes
                await trio.sleep(0.02)
        for pid in self.left():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if socket:
            Path(socket).unlink(missing_ok=True)


def _environment(directory: Path) -> dict[str, str]:
    """Return an environment with an empty home directory and few programs."""
    (directory / "home").mkdir()
    tools = directory / "bin"
    tools.mkdir()
    for name in TOOLS:
        (tools / name).symlink_to(str(shutil.which(name)))
    (tools / "cuggino").write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m cuggino "$@"\n')
    (tools / "cuggino").chmod(0o755)
    return {
        "PATH": str(tools),
        "HOME": str(directory / "home"),
        "SHELL": str(tools / "bash"),
        "LANG": "C.UTF-8",
        "TERM": "xterm-256color",
        "PS1": "$ ",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_PAGER": "",
    }


class Terminal:
    """A window with a shell, and a person who types and reads."""

    def __init__(self, terminals: Terminals, name: str) -> None:
        self._terminals = terminals
        self._name = name
        self._read = 0
        self._expected: list[str] = []

    async def play(self, lines: list[str]) -> None:
        """Type and read these lines; return when all of their output is there."""
        for line in lines:
            if line.startswith("$ "):
                await self._see(PROMPT)
                await self._press("-l", f"{line[2:]}\n")
            elif question := QUESTION.fullmatch(line):
                await self._see(f"{re.escape(question[1])}\n\\Z")
                await self._press("-l", f"{question[2].strip()}\n")
            elif line.startswith("^C"):
                await self._see()
                await self._press("C-c")
            self._expected.append(line)
        skipped = [self._expected.pop()] if self._expected[-1] == "…" else []
        await self._see()
        self._expected += skipped

    async def at_prompt(self) -> None:
        """Wait for the shell's prompt, with no unexpected output before it."""
        await self._see(PROMPT)

    async def _press(self, *keys: str) -> None:
        await self._terminals.tmux("send-keys", "-t", self._name, *keys)

    async def _see(self, then: str = "") -> None:
        """Wait for the expected output, followed by `then`, which is not consumed."""
        wanted = re.compile(f"({''.join(map(pattern, self._expected))}){then}")
        shown = ""
        with trio.move_on_after(TIMEOUT):
            while True:
                shown = await self._screen()
                if seen := wanted.match(shown, self._read):
                    self._read = seen.end(1)
                    self._expected.clear()
                    return
                await trio.sleep(0.05)
        raise AssertionError(
            "\n".join(
                [f"The {self._name} terminal should show", *self._expected, then, "but shows", shown[self._read :]]
            )
        )

    async def _screen(self) -> str:
        """Return all of the output so far; a line that the terminal wrapped is one line."""
        text = await self._terminals.tmux("capture-pane", "-p", "-J", "-S", "-", "-t", self._name)
        return "\n".join(line.rstrip() for line in text.rstrip().split("\n")) + "\n"


@asynccontextmanager
async def two_terminals() -> AsyncIterator[tuple[Terminals, Terminal, Terminal]]:
    """Open both in an empty directory with a short path; pytest's own are wider than a terminal."""
    with TemporaryDirectory(prefix="walk-") as name:
        terminals = Terminals(Path(name).resolve())
        try:
            yield terminals, await terminals.open("first"), await terminals.open("second")
        finally:
            with trio.CancelScope(shield=True):
                await terminals.close()


# ---- the tests --------------------------------------------------------------------------------


@pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}")
@pytest.mark.skipif(sys.platform != "linux", reason="looks for left processes in /proc")
async def test_the_walkthrough_works_as_documented() -> None:
    with trio.fail_after(110):
        async with two_terminals() as (terminals, first, second):
            for step in steps():
                if isinstance(step, Written):
                    (terminals.directory / "greet" / step.path).write_text(step.text)
                else:
                    await (second if step.second else first).play(step.lines)
            await first.at_prompt()
            await second.at_prompt()
            still_there = [Path(f"/proc/{pid}/comm").read_text().strip() for pid in terminals.left()]
            assert sorted(still_there) == ["bash", "bash", "tmux: server"]


def test_the_document_has_a_script_and_commands_for_both_terminals() -> None:
    """Otherwise the test above could pass without checking anything."""
    found = list(steps())
    assert [step.path for step in found if isinstance(step, Written)] == [".cuggino/script.json"]
    typed = [line for step in found if isinstance(step, Typed) for line in step.lines]
    assert {step.second for step in found if isinstance(step, Typed)} == {False, True}
    commands = {"doctor", "setup", "plan", "watch", "status", "issues resolve 01", "log", "log --follow"}
    assert {f"$ cuggino {command}" for command in commands} <= set(typed)
    assert sum(line.startswith("^C") for line in typed) == 3


@pytest.mark.parametrize(
    ("line", "shown", "agrees"),
    [
        ("at 9b78751", "at 0c1d2e3\n", True),
        ("Time        3s", "Time        1m 12s\n", True),
        ("Items       1 completed", "Items       2 completed\n", False),
        ("[Check] exit 0", "[Check] exit 1\n", False),
        ("(process 1) since 2026-11-21 23:52 (2s)", "(process 99) since 2027-01-01 00:00 (10s)\n", True),
        ("ok  git  2.…", "ok     git    2.50.1\n", True),
        ("Cost $0.00", "Cost $0.10\n", False),
    ],
)
def test_a_line_of_the_document_matches_others_that_differ_only_in_times_and_ids(
    line: str, shown: str, agrees: bool
) -> None:
    assert bool(re.fullmatch(pattern(line), shown)) is agrees
