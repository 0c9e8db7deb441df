"""Splitting pieces into lines, and the delays of following a file, on the virtual clock."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock

from cuggino.process.follow import CHUNK, LAST_DELAY, Follower, LineSplitter


def fed(chunks: list[bytes]) -> tuple[list[bytes], bytes]:
    lines = LineSplitter()
    found = [line for chunk in chunks for line in lines.feed(chunk)]
    return found, lines.rest()


@pytest.mark.parametrize(
    ("chunks", "lines", "rest"),
    [
        ([], [], b""),
        ([b""], [], b""),
        ([b"a\nb\n"], [b"a", b"b"], b""),
        ([b"a\nb"], [b"a"], b"b"),
        ([b"a", b"b", b"\n"], [b"ab"], b""),
        ([b"\n\n"], [b"", b""], b""),
        ([b"a\r\nb\rc\r\n"], [b"a", b"b\rc"], b""),
        ([b"a\r", b"\nb\r"], [b"a"], b"b\r"),
        ([b"a", b"\n", b"b"], [b"a"], b"b"),
        (["a\u2028b\x0b\x0c\x85\n".encode()], ["a\u2028b\x0b\x0c\x85".encode()], b""),
    ],
)
def test_lines_end_at_line_feeds_only(chunks: list[bytes], lines: list[bytes], rest: bytes) -> None:
    assert fed(chunks) == (lines, rest)


@given(st.lists(st.binary(max_size=8) | st.sampled_from([b"\n", b"\r\n", b"\r"])))
def test_lines_do_not_depend_on_where_pieces_are_cut(chunks: list[bytes]) -> None:
    assert fed(chunks) == fed([b"".join(chunks)])


def test_a_long_line_takes_linear_time() -> None:
    """Joining each piece to the earlier ones would take 64 times the time for eight times the length."""

    def seconds(size: int) -> float:
        best = 1e9
        for _ in range(5):
            started = time.perf_counter()
            lines, rest = fed([b"x" * 1024] * (size // 1024) + [b"\n"])
            best = min(best, time.perf_counter() - started)
            assert [len(line) for line in lines] == [size]
            assert rest == b""
        return best

    assert seconds(16 << 20) < 30 * seconds(2 << 20)


class Written:
    """A file, and the chunks of it that were fed, with their times."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.gone = trio.Event()
        self.chunks: list[bytes] = []
        self.times: list[float] = []

    def append(self, data: bytes) -> None:
        with self.path.open("ab") as file:
            file.write(data)

    async def feed(self, chunk: bytes) -> None:
        self.chunks.append(chunk)
        self.times.append(trio.current_time())

    async def follow(self) -> None:
        await Follower(self.path).until(self.gone, self.feed)

    @property
    def content(self) -> bytes:
        return b"".join(self.chunks)


@pytest.fixture
def written(tmp_path: Path) -> Written:
    return Written(tmp_path / "out")


async def test_bytes_that_keep_coming_are_noticed_within_20_ms(clock: MockClock, written: Written) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(written.follow)
        sent = []
        for n in range(10):
            await trio.sleep(0.013)
            sent.append(trio.current_time())
            written.append(b"%d\n" % n)
        written.gone.set()
    assert written.content == b"".join(b"%d\n" % n for n in range(10))
    assert all(any(0 <= seen - at <= 0.0201 for seen in written.times) for at in sent)


async def test_after_a_long_silence_bytes_are_noticed_within_500_ms(clock: MockClock, written: Written) -> None:
    written.append(b"a")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(written.follow)
        await trio.sleep(60.1)
        written.append(b"b")
        sent = trio.current_time()
        await trio.sleep(1)
        assert written.content == b"ab"
        assert 0.02 < written.times[-1] - sent <= LAST_DELAY
        written.gone.set()


async def test_the_end_is_noticed_at_once_with_all_bytes_before_it(clock: MockClock, written: Written) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(written.follow)
        await trio.sleep(60.1)
        written.append(b"last words")
        written.gone.set()
        at = trio.current_time()
    assert written.content == b"last words"
    assert trio.current_time() == at


@pytest.mark.parametrize("content", [b"late", b""])
async def test_a_missing_file_is_waited_for_until_gone(clock: MockClock, written: Written, content: bytes) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(written.follow)
        await trio.sleep(3)
        if content:
            written.append(content)
        await trio.sleep(1)
        assert written.content == content
        written.gone.set()


async def test_a_file_that_shrinks_is_read_from_its_new_beginning(clock: MockClock, written: Written) -> None:
    """The torn line gets a line feed, so that it does not corrupt the first line of the new content."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(written.follow)
        written.append(b"one\nto")
        await trio.sleep(1)
        written.path.write_bytes(b"new\n")
        await trio.sleep(1)
        written.append(b"more\n")
        await trio.sleep(1)
        written.path.write_bytes(b"")
        await trio.sleep(1)
        written.append(b"end\n")
        written.gone.set()
    assert written.content == b"one\nto\nnew\nmore\nend\n"


async def test_bytes_written_after_the_end_are_not_read(written: Written) -> None:
    size = 3 * CHUNK
    written.append(b"x" * size)
    written.gone.set()

    async def feed_and_extend(chunk: bytes) -> None:
        await written.feed(chunk)
        written.append(b"y" * CHUNK)

    await Follower(written.path).until(written.gone, feed_and_extend)
    assert written.content == b"x" * size


async def test_endless_output_is_cut_when_gone_is_set(written: Written) -> None:
    written.append(b"x")

    async def feed_and_extend(chunk: bytes) -> None:
        await written.feed(chunk)
        written.append(b"y" * CHUNK)
        if len(written.chunks) == 10:
            written.gone.set()

    with trio.fail_after(5):
        await Follower(written.path).until(written.gone, feed_and_extend)
    assert len(written.content) == 10 * CHUNK + 1


async def test_chunks_are_bounded_and_other_tasks_run_between_them(written: Written) -> None:
    written.append(b"x" * (4 * CHUNK + 1))
    written.gone.set()
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(others)
        await written.follow()
        nursery.cancel_scope.cancel()
    assert [len(chunk) for chunk in written.chunks] == [CHUNK] * 4 + [1]
    assert turns >= 4
