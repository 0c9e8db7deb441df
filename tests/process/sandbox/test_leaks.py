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
from tests.process.sandbox.person import Person, git, write

CANARY = "canary-3f9c2a7b"
OTHER = "b-another-one"  # starts with the end of the canary


def head(person: Person) -> str:
    return git(person.top, "rev-parse", "HEAD").strip()


@pytest.fixture
def base(person: Person) -> str:
    return head(person)


def committed(person: Person, name: str = "new", content: str | bytes = b"harmless", message: str = "work") -> str:
    path = person.top / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    git(person.top, "add", "--all")
    git(person.top, "commit", "-qm", message)
    return head(person)


async def found(person: Person, base: str) -> list[Leak]:
    return await leaks(person.top, base, head(person), [CANARY, OTHER])


async def test_harmless_commits_have_no_leaks(person: Person, base: str) -> None:
    committed(person, "harmless")
    assert await found(person, base) == []
    assert await found(person, head(person)) == []
    assert await leaks(person.top, base, head(person), []) == []


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
async def test_a_secret_in_a_file_is_found(person: Person, base: str, content: bytes) -> None:
    committed(person)
    commit = committed(person, "deep/down here", content)
    committed(person, "later")
    assert await found(person, base) == [Leak(commit, "deep/down here")]


@pytest.mark.parametrize("size", [1, 7, 20])
async def test_a_secret_across_pieces_is_found(
    person: Person, base: str, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = committed(person, "new", b"x" * 50 + CANARY.encode() + b"y" * 50)
    monkeypatch.setattr("cuggino.sandbox.leaks._PIECE", size)
    assert await found(person, base) == [Leak(commit, "new")]


async def test_a_secret_that_a_later_commit_removed_is_found(person: Person, base: str) -> None:
    commit = committed(person, "new", CANARY)
    committed(person, "new")
    assert await found(person, base) == [Leak(commit, "new")]


async def test_secrets_in_messages_authors_and_names_are_found(person: Person, base: str) -> None:
    message = committed(person, "one", message=f"work\n\nwith {CANARY}")
    git(person.top, "commit", "-q", "--allow-empty", "-m", "x", "--author", f"{CANARY} <x@example.org>")
    author = head(person)
    name = committed(person, f"folder {CANARY}/file")
    (person.top / "link").symlink_to(f"/home/{CANARY}")
    link = committed(person, "four")
    removed = git(person.top, "rm", "-rq", f"folder {CANARY}") or committed(person, "five")
    assert await found(person, base) == [
        Leak(message, None),
        Leak(author, None),
        Leak(name, "folder ***/file"),
        Leak(link, "link"),
        Leak(removed, "folder ***/file"),
    ]


async def test_a_secret_in_a_file_that_moves_is_found(person: Person) -> None:
    base = committed(person, "old", CANARY)
    assert await found(person, base) == []
    git(person.top, "mv", "old", "new")
    git(person.top, "commit", "-qm", "moved")
    assert await found(person, base) == [Leak(head(person), "new")]


async def test_secrets_in_a_merge_and_on_its_other_side_are_found(person: Person, base: str) -> None:
    git(person.top, "checkout", "-qb", "side")
    side = committed(person, "side", CANARY)
    git(person.top, "checkout", "-q", "main")
    committed(person, "here")
    git(person.top, "merge", "-q", "--no-commit", "side")
    merge = committed(person, "evil", OTHER)
    assert {Leak(side, "side"), Leak(merge, "evil")} <= set(await found(person, base))


async def test_a_secret_in_a_root_commit_is_found(person: Person, base: str) -> None:
    git(person.top, "checkout", "-q", "--orphan", "over")
    commit = committed(person, "new", CANARY)
    assert await found(person, base) == [Leak(commit, "new")]


async def test_replacing_a_commit_does_not_hide_a_secret(person: Person, base: str) -> None:
    commit = committed(person, "new", CANARY)
    git(person.top, "reset", "-q", "--hard", base)
    harmless = committed(person, "new")
    git(person.top, "reset", "-q", "--hard", commit)
    git(person.top, "replace", commit, harmless)
    assert await found(person, base) == [Leak(commit, "new")]


async def test_submodules_are_not_searched(person: Person, base: str, tmp_path: Path) -> None:
    library = Person(tmp_path / "library")
    git(person.top, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(library.top), "library")
    committed(person)
    assert await found(person, base) == []


async def test_an_unknown_commit_is_an_error(person: Person) -> None:
    with pytest.raises(GitError):
        await leaks(person.top, "0" * 40, head(person), [CANARY])


async def test_thousands_of_commits_are_searched_in_seconds(person: Person, base: str) -> None:
    """One process for each of 3,000 commits and files would take minutes."""
    lines = []
    for number in range(3000):
        text = CANARY if number == 2000 else f"harmless {number}"
        lines.append(f"commit refs/heads/many\ncommitter A <a@b> {number} +0000\ndata 1\nx")
        lines += [f"from {base}"] if number == 0 else []
        lines.append(f"M 644 inline f{number}\ndata {len(text)}\n{text}\n")
    command = ["git", "fast-import", "--quiet"]
    await trio.run_process(command, cwd=person.top, stdin="\n".join(lines).encode())
    git(person.top, "checkout", "-q", "many")
    assert [leak.path for leak in await found(person, base)] == ["f2000"]


async def test_no_argument_or_variable_of_a_command_contains_a_secret(
    person: Person, base: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    committed(person, "new", CANARY)
    real = shutil.which("git")
    trace = tmp_path / "trace"
    script = f"#!{sys.executable}\nimport os, sys\n"
    script += f'open({str(trace)!r}, "a").write(repr((sys.argv, dict(os.environ))))\n'
    write(tmp_path / "bin" / "git", f'{script}os.execv({real!r}, ["git", *sys.argv[1:]])\n').chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    assert len(await found(person, base)) == 1
    assert "cat-file" in trace.read_text()
    assert CANARY not in trace.read_text()
