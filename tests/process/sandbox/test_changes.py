"""The changes of a branch, with real git."""

from __future__ import annotations

from pathlib import Path

from cuggino.sandbox.changes import changes
from tests.process.sandbox.merge_house import Files, commit, git, lines, new_repository


async def test_each_kind_of_change_is_named(tmp_path: Path) -> None:
    files: Files = {"changed": lines(), "gone": "p\nq\n", "old name": lines(last=99), "picture": b"\0a"}
    root = new_repository(tmp_path / "project", {**files, **dict.fromkeys(["run", "to-link", "quiet", "same"], "x\n")})
    (root / "quiet").chmod(0o755)
    base = commit(root, {})
    git(root, "config", "diff.external", "/bin/false")
    git(root, "mv", "old name", "ñew\nname")
    (root / "ñew\nname").write_text(lines(last=99, after_50="more"))
    (root / "to-link").unlink()
    (root / "to-link").symlink_to("same")
    (root / "link").symlink_to("same")
    (root / "run").chmod(0o755)
    (root / "quiet").chmod(0o644)
    new: Files = {"new": "1\n2\n3\n", "empty": "", "blob": b"\0"}
    tip = commit(root, {"changed": lines(line_5="5\nfive"), "gone": None, "picture": b"\0b", **new})
    found = {change.path: (change.added, change.removed, change.what) for change in await changes(root, base, tip)}
    assert found == {
        "blob": (None, None, "new, binary"),
        "changed": (1, 0, "changed"),
        "empty": (0, 0, "new"),
        "gone": (0, 2, "deleted"),
        "link": (1, 0, "new link"),
        "new": (3, 0, "new"),
        "picture": (None, None, "binary"),
        "quiet": (0, 0, "changed, no longer executable"),
        "run": (0, 0, "changed, now executable"),
        "to-link": (1, 1, "now a link"),
        "ñew\nname": (1, 0, "renamed from old name"),
    }
    assert await changes(root, tip, tip) == ()
