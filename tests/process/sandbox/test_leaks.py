"""A secret in a commit is found, wherever it is and whoever made the commit. Real git."""

from __future__ import annotations

import base64
import os
import shutil
import sys
from pathlib import Path

import pytest
import trio

from cuggino.errors import GitError
from cuggino.sandbox.leaks import Leak, leaks
from tests.process.sandbox.merge_house import commit, git, new_repository, write

CANARY = "canary-3f9c2a7b"
OTHER = "b-another-one"  # starts with the end of the canary


@pytest.fixture
def base(repository: Path) -> str:
    return head(repository)


def head(repository: Path) -> str:
    return git(repository, "rev-parse", "HEAD")


async def found(repository: Path, base: str) -> list[Leak]:
    return await leaks(repository, base, head(repository), [CANARY, OTHER])


async def test_harmless_commits_have_no_leaks(repository: Path, base: str) -> None:
    commit(repository, {"harmless": "harmless"})
    assert await found(repository, base) == []
    assert await found(repository, head(repository)) == []
    assert await leaks(repository, base, head(repository), []) == []


@pytest.mark.parametrize(
    "content",
    [
        CANARY.encode(),
        b"\0\1\2" + CANARY.encode() + b"\xff",
        b"Authorization: Basic " + base64.b64encode(f"ada:{CANARY}".encode()),
        b"x" * 999_990 + CANARY.encode() + b"y" * 999_990,
        f"{CANARY[:-1]}{OTHER}".encode(),
        CANARY.encode("utf-16"),
    ],
    ids=["text", "binary", "base64", "large", "overlapping", "utf-16"],
)
async def test_a_secret_in_a_file_is_found(repository: Path, base: str, content: bytes) -> None:
    commit(repository, {"new": "harmless"})
    leaky = commit(repository, {"deep/down here": content})
    commit(repository, {"later": "harmless"})
    assert await found(repository, base) == [Leak(leaky, "deep/down here")]


@pytest.mark.parametrize("size", [1, 7, 20])
async def test_a_secret_across_pieces_is_found(
    repository: Path, base: str, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    leaky = commit(repository, {"new": b"x" * 50 + CANARY.encode() + b"y" * 50})
    monkeypatch.setattr("cuggino.sandbox.leaks._PIECE", size)
    assert await found(repository, base) == [Leak(leaky, "new")]


@pytest.mark.parametrize("start", [("checkout", "-q", "-b", "side"), ("checkout", "-q", "--orphan", "over")])
async def test_a_secret_that_a_later_commit_removed_is_found(
    repository: Path, base: str, start: tuple[str, ...]
) -> None:
    """Also in a root commit."""
    git(repository, *start)
    leaky = commit(repository, {"new": CANARY})
    commit(repository, {"new": "harmless"})
    assert await found(repository, base) == [Leak(leaky, "new")]


async def test_secrets_in_messages_authors_and_names_are_found(repository: Path, base: str) -> None:
    message = commit(repository, {"one": "harmless"}, f"work\n\nwith {CANARY}")
    git(repository, "commit", "-q", "--allow-empty", "-m", "x", "--author", f"{CANARY} <x@example.org>")
    author = head(repository)
    name = commit(repository, {f"folder {CANARY}/file": "harmless"})
    (repository / "link").symlink_to(f"/home/{CANARY}")
    link = commit(repository, {"four": "harmless"})
    removed = git(repository, "rm", "-rq", f"folder {CANARY}") or commit(repository, {"five": "harmless"})
    assert await found(repository, base) == [
        Leak(message, None),
        Leak(author, None),
        Leak(name, "folder ***/file"),
        Leak(link, "link"),
        Leak(removed, "folder ***/file"),
    ]


async def test_a_secret_in_a_file_that_moves_is_found(repository: Path) -> None:
    base = commit(repository, {"old": CANARY})
    assert await found(repository, base) == []
    git(repository, "mv", "old", "new")
    git(repository, "commit", "-qm", "moved")
    assert await found(repository, base) == [Leak(head(repository), "new")]


async def test_secrets_in_a_merge_and_on_its_other_side_are_found(repository: Path, base: str) -> None:
    git(repository, "checkout", "-qb", "side")
    side = commit(repository, {"side": CANARY})
    git(repository, "checkout", "-q", "main")
    commit(repository, {"here": "harmless"})
    git(repository, "merge", "-q", "--no-commit", "side")
    merge = commit(repository, {"evil": OTHER})
    assert {Leak(side, "side"), Leak(merge, "evil")} <= set(await found(repository, base))


async def test_replacing_a_commit_does_not_hide_a_secret(repository: Path, base: str) -> None:
    leaky = commit(repository, {"new": CANARY})
    git(repository, "reset", "-q", "--hard", base)
    harmless = commit(repository, {"new": "harmless"})
    git(repository, "reset", "-q", "--hard", leaky)
    git(repository, "replace", leaky, harmless)
    assert await found(repository, base) == [Leak(leaky, "new")]


async def test_submodules_are_not_searched(repository: Path, base: str, tmp_path: Path) -> None:
    library = new_repository(tmp_path / "library", {})
    git(repository, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(library), "library")
    commit(repository, {"new": "harmless"})
    assert await found(repository, base) == []


async def test_an_unknown_commit_is_an_error(repository: Path) -> None:
    with pytest.raises(GitError):
        await leaks(repository, "0" * 40, head(repository), [CANARY])


async def test_thousands_of_commits_are_searched_in_seconds(repository: Path, base: str) -> None:
    """One process for each of 3,000 commits and files would take minutes."""
    lines = []
    for number in range(3000):
        text = CANARY if number == 2000 else f"harmless {number}"
        lines.append(f"commit refs/heads/many\ncommitter A <a@b> {number} +0000\ndata 1\nx")
        lines += [f"from {base}"] if number == 0 else []
        lines.append(f"M 644 inline f{number}\ndata {len(text)}\n{text}\n")
    command = ["git", "fast-import", "--quiet"]
    await trio.run_process(command, cwd=repository, stdin="\n".join(lines).encode())
    git(repository, "checkout", "-q", "many")
    assert [leak.path for leak in await found(repository, base)] == ["f2000"]


async def test_no_argument_or_variable_of_a_command_contains_a_secret(
    repository: Path, base: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit(repository, {"new": CANARY})
    real = shutil.which("git")
    trace = tmp_path / "trace"
    script = f"#!{sys.executable}\nimport os, sys\n"
    script += f'open({str(trace)!r}, "a").write(repr((sys.argv, dict(os.environ))))\n'
    write(tmp_path / "bin", {"git": f'{script}os.execv({real!r}, ["git", *sys.argv[1:]])\n'})
    (tmp_path / "bin" / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    assert len(await found(repository, base)) == 1
    assert "cat-file" in trace.read_text()
    assert CANARY not in trace.read_text()
