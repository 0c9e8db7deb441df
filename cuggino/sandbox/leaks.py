"""Search for secrets in every commit that would be pushed, whoever made it.

A secret that a later commit removed counts: it would be pushed as well. The secrets are never arguments of a command.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from subprocess import DEVNULL, PIPE

import msgspec
import trio

from cuggino.git.run import SAFE, git_environment, git_output, refusal
from cuggino.sandbox.secrets import Redaction

_PIECE = 1 << 18


class Leak(msgspec.Struct, frozen=True):
    """A commit with a secret in a file or in the file's name, which is redacted. `path` is None for its message."""

    commit: str
    path: str | None


async def leaks(repository: Path, base: str, tip: str, values: Iterable[str]) -> list[Leak]:
    """Return the secrets found in base..tip: in messages, authors, paths and contents, binary ones included.

    Each content is read once, in pieces: the time is proportional to the size, and memory stays small.
    """
    redaction = Redaction(values)
    if redaction.longest == 0:
        return []
    asked = {"GIT_NO_REPLACE_OBJECTS": "1"}
    listed = await git_output(repository, *SAFE, "rev-list", "--reverse", tip, f"^{base}", environment=asked)
    commits = listed.decode().split()
    options = ("--stdin", "-r", "-m", "-z", "--root", "--no-renames", "--raw", "--no-abbrev")
    diff = await git_output(repository, *SAFE, "diff-tree", *options, environment=asked, stdin=listed)
    found: dict[Leak, None] = {}
    places: dict[str, list[tuple[str, bytes]]] = {}
    commit = ""
    fields = iter(diff.split(b"\0")[:-1])
    for field in fields:
        if not field.startswith(b":"):
            commit = field.decode()
            continue
        path = next(fields)
        mode, name = field.decode().split(" ")[1:4:2]
        if redaction.finds(path):
            found[_leak(redaction, commit, path)] = None
        if mode not in ("000000", "160000"):
            places.setdefault(name, []).append((commit, path))
    hits = await _search(repository, [*commits, *places], redaction)
    for name in hits:
        for commit, path in places.get(name, ()):
            found[_leak(redaction, commit, path)] = None
        if name not in places:
            found[Leak(name, None)] = None
    rank = {commit: number for number, commit in enumerate(commits)}
    return sorted(found, key=lambda leak: (rank.get(leak.commit, 0), leak.path or ""))


def _leak(redaction: Redaction, commit: str, path: bytes) -> Leak:
    return Leak(commit, redaction.text(redaction.bytes(path).decode(errors="backslashreplace")))


async def _search(repository: Path, names: Sequence[str], redaction: Redaction) -> list[str]:
    """Return the objects that contain a secret. They are read one after the other, in pieces."""
    process = await trio.lowlevel.open_process(
        ["git", *SAFE, "cat-file", "--batch", "--buffer"],
        stdin=PIPE,
        stdout=PIPE,
        stderr=DEVNULL,
        cwd=repository,
        env={**git_environment(), "GIT_NO_REPLACE_OBJECTS": "1"},
        start_new_session=True,
    )
    hits: list[str] = []
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_ask_for, process, names)
            assert process.stdout is not None
            reader = _Reader(process.stdout)
            for name in names:
                header = (await reader.line()).split()
                if len(header) != 3:
                    raise refusal(process.returncode or 0, f"{name}: {b' '.join(header).decode()}".encode())
                if await _holds(reader, int(header[2]), redaction):
                    hits.append(name)
    finally:
        process.kill()
        with trio.CancelScope(shield=True):
            await process.wait()
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    await stream.aclose()
    return hits


async def _ask_for(process: trio.Process, names: Sequence[str]) -> None:
    assert process.stdin is not None
    try:
        async with process.stdin:
            await process.stdin.send_all("".join(f"{name}\n" for name in names).encode())
    except trio.BrokenResourceError:  # git has ended: the reader raises
        return


async def _holds(reader: _Reader, size: int, redaction: Redaction) -> bool:
    """Read `size` bytes and the line feed after them; whether they contain a secret."""
    rest, found = b"", False
    left = size
    while left:
        piece = await reader.some(left)
        left -= len(piece)
        if not found:
            rest += piece
            found = redaction.finds(rest)
            rest = rest[-(redaction.longest - 1) :] if redaction.longest > 1 else b""
    await reader.some(1)
    return found


class _Reader:
    """Lines and pieces from a pipe. Raises GitError at its end, since more was expected."""

    def __init__(self, stream: trio.abc.ReceiveStream) -> None:
        self._stream = stream
        self._ready = b""
        self._at = 0

    async def _more(self) -> None:
        piece = await self._stream.receive_some(_PIECE)
        if not piece:
            raise refusal(0, b"git cat-file ended before its output was complete.")
        self._ready = self._ready[self._at :] + piece
        self._at = 0

    async def line(self) -> bytes:
        while (end := self._ready.find(b"\n", self._at)) == -1:
            await self._more()
        line = self._ready[self._at : end]
        self._at = end + 1
        return line

    async def some(self, most: int) -> bytes:
        if self._at == len(self._ready):
            await self._more()
        piece = self._ready[self._at : self._at + most]
        self._at += len(piece)
        return piece
