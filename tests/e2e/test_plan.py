"""`cuggino plan` with the real claude in a real terminal, against a model that plays a script."""

from __future__ import annotations

import json
import re
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from tests.e2e.house import ClaudeHouse, claude_house, write
from tests.e2e.loopback import Say, Script
from tests.process.house import COMMAND
from tests.process.pseudo_terminal import Shell, terminal

pytestmark = pytest.mark.e2e

ROLE = "# Your role: project manager"
BEGIN = "Waiting for me: 1 spec issue."
PLAN = (sys.executable, *COMMAND, "plan")


def known(house: ClaudeHouse) -> None:
    """A person's home in which claude has asked what it asks at its first start, and trusts the project."""
    answered = {
        "hasCompletedOnboarding": True,
        "theme": "dark",
        "customApiKeyResponses": {"approved": ["dummy-key"], "rejected": []},
        "projects": {str(house.root): {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True}},
    }
    (house.home / ".claude.json").write_text(json.dumps(answered))


SHELL = ("bash", "--norc", "--noprofile", "--noediting", "-i")


@asynccontextmanager
async def planning(
    folder: Path, claude_path: Path, script: Script, *, program: Sequence[str] = PLAN
) -> AsyncIterator[tuple[ClaudeHouse, Shell]]:
    """A terminal with `cuggino plan` in it, or a shell. An issue waits, and claude plays this script."""
    with claude_house(folder, claude_path, others={BEGIN: script}) as house, trio.fail_after(60):
        known(house)
        house.add = {"TERM": "xterm-256color", "PS1": "ready> "}
        issue = house.state / "spec-issues" / "1.md"
        issue.parent.mkdir(parents=True)
        issue.write_text("Empty names\n")
        async with terminal(house, *program) as shell:
            yield house, shell


async def quit_claude(shell: Shell) -> None:
    """Ctrl+C twice, which claude in its raw mode reads as keys."""
    shell.type(b"\x03")
    await shell.until("again")
    shell.type(b"\x03")


async def until_asked(shell: Shell) -> None:
    """claude shows a question about a permission. What it draws has escape sequences between the words."""
    while b"Do you want" not in re.sub(rb"\x1b\[[0-9;?]*[A-Za-z]", b" ", shell.screen):  # noqa: ASYNC110 - a screen
        await trio.sleep(0.05)


async def test_claude_writes_specs_and_items_unasked_and_asks_for_all_else(tmp_path: Path, claude_path: Path) -> None:
    root = tmp_path / "project"
    script: Script = [
        [write(f"{root}/.specs/names.md", "An empty name counts as none.\n")],
        [write(f"{root}/.cuggino/backlog/010-names.md", "Names, see .specs/names.md\n")],
        [write(f"{root}/code.py", "print()\n")],
        [Say("Not reached.")],
    ]
    async with planning(tmp_path, claude_path, script) as (house, shell):
        before = shell.settings()
        await until_asked(shell)
        assert (root / ".specs" / "names.md").exists()
        assert (house.backlog / "010-names.md").exists()
        assert not (root / "code.py").exists()
        assert shell.settings() != before
        [request, *_] = house.server.requests
        assert ROLE in request.system
        assert str(house.state / "spec-issues") in request.system
        assert request.first_user.startswith(BEGIN)
        shell.process.terminate()
        assert await shell.process.wait() == -signal.SIGTERM
        assert shell.settings() == before
        assert house.left() == []


async def test_a_conversation_ends_as_claude_ends(tmp_path: Path, claude_path: Path) -> None:
    async with planning(tmp_path, claude_path, [[Say("Nothing is planned.")]]) as (house, shell):
        await shell.until("planned")
        await quit_claude(shell)
        assert await shell.process.wait() == 0
        assert house.left() == []


async def test_ctrl_z_gives_the_shell_back_and_fg_goes_on(tmp_path: Path, claude_path: Path) -> None:
    """claude gets it as a key, and stops itself."""
    script: Script = [[Say("Nothing is planned.")]]
    async with planning(tmp_path, claude_path, script, program=SHELL) as (house, shell):
        shell.type(f"{' '.join(PLAN)}\n".encode())
        await shell.until("planned")
        shell.type(b"\x1a")
        await shell.until("Stopped")
        shell.screen = b""
        shell.type(b"fg\n")
        await shell.until("planned")
        shell.screen = b""
        await quit_claude(shell)
        await shell.until("ready> ")
        shell.type(b"echo code-$?; exit\n")
        await shell.until("code-0")
        assert await shell.process.wait() == 0
        assert house.left() == []
