"""What the real claude keeps of a conversation, and that all of it is found and can be removed."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from uuid import uuid4

import pytest

from cuggino.agents.agent import AgentOptions
from cuggino.agents.claude import ClaudeBackend
from cuggino.roles import Role
from tests.e2e.loopback import Say, Use, always, claude_environment, loopback

pytestmark = pytest.mark.e2e


@pytest.mark.parametrize("name", ["a link", "dots.and_signs [x] ünï €", "emoji 😀", "long"])
@pytest.mark.parametrize("temporary", ["CLAUDE_CODE_TMPDIR", "TMPDIR"])
def test_nothing_that_bears_its_name_is_left(
    claude: Path, home: Path, tmp_path: Path, name: str, temporary: str
) -> None:
    cwd = tmp_path / name
    if name == "a link":
        (tmp_path / "real.folder").mkdir()
        cwd.symlink_to("real.folder")
    elif name == "long":
        cwd = cwd.joinpath(*(letter * 90 for letter in "abc"))
    cwd.mkdir(parents=True, exist_ok=True)
    conversation = str(uuid4())
    with loopback(always([Use("Bash", {"command": "echo hi"})], [Say("Done.")])) as server:
        environment = {**claude_environment(home, server.url), "CLAUDE_CODE_TMPDIR": "", temporary: str(tmp_path / "t")}
        (tmp_path / "t").mkdir()
        for options in ({"session_id": conversation}, {"resume_session_id": conversation}):
            start = ClaudeBackend().launch(
                AgentOptions(
                    role=Role.IMPLEMENTER,
                    cwd=cwd,
                    prompt="Go.",
                    output=tmp_path / "out",
                    skip_permissions=True,
                    session_id=options.get("session_id"),
                    resume_session_id=options.get("resume_session_id"),
                )
            )
            subprocess.run(
                [claude, *start.argv[1:]],
                cwd=cwd,
                env=environment,
                input=start.stdin,
                capture_output=True,
                timeout=60,
                check=True,
            )
    kept = ClaudeBackend().history(environment, cwd, conversation)
    assert any(path.is_relative_to(home / ".claude" / "projects") for path in kept)
    for path in kept:
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert [path for path in tmp_path.rglob("*") if conversation in path.name] == []
    assert [path for path in (home / ".claude" / "projects").rglob("*") if path.is_file()] == []
