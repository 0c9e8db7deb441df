"""The files that the real claude keeps of a conversation can all be found and deleted."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import pytest

from tests.e2e.contract import Case, Stage, shell
from tests.e2e.messages import Say

pytestmark = pytest.mark.e2e


@pytest.mark.parametrize("name", ["a link", "dots.and_signs [x] ünï €", "emoji 😀", "long"])
@pytest.mark.parametrize("temporary", ["CLAUDE_CODE_TMPDIR", "TMPDIR"])
async def test_no_file_with_the_conversations_name_is_left(tmp_path: Path, name: str, temporary: str) -> None:
    stage = Stage(Case(name="claude"), tmp_path)
    cwd = tmp_path / name
    if name == "a link":
        (tmp_path / "real.folder").mkdir()
        cwd.symlink_to("real.folder")
    elif name == "long":
        cwd = cwd.joinpath(*(letter * 90 for letter in "abc"))
    cwd.mkdir(parents=True, exist_ok=True)
    (tmp_path / "t").mkdir()
    conversation = str(uuid4())
    changes = {"CLAUDE_CODE_TMPDIR": "", temporary: str(tmp_path / "t")}
    with stage.serving([[shell("echo hi")], [Say("Done.")], [Say("Again.")]]) as served:
        first = await stage.run(served.url, cwd=cwd, environment=changes, session_id=conversation)
        second = await stage.run(served.url, cwd=cwd, environment=changes, resume_session_id=conversation)
        environment = stage.environment(served.url, **changes)
    assert (first.text, second.text) == ("Done.", "Again.")
    projects = stage.home / ".claude" / "projects"
    assert [path for path in projects.rglob("*") if conversation in path.name]
    stage.agent.delete_conversation(conversation, cwd=cwd, environment=environment)
    assert [path for path in tmp_path.rglob("*") if conversation in path.name] == []
    assert [path for path in projects.rglob("*") if path.is_file()] == []
