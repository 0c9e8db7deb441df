"""Following the output of a real child, on the real clock."""

from __future__ import annotations

import os
import sys
import time
import uuid
from pathlib import Path

import trio

from cuggino.process.children import Children, Command
from cuggino.process.follow import Follower, LineSplitter


class Reader:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines: list[bytes] = []
        self.seen_at: list[float] = []
        self._splitter = LineSplitter()

    async def feed(self, chunk: bytes) -> None:
        new = self._splitter.feed(chunk)
        self.lines += new
        self.seen_at += [time.monotonic()] * len(new)

    async def run(self, *argv: str) -> None:
        """Run a program and follow its output until its tree is gone."""
        command = Command(argv=argv, cwd=self.path.parent, environment={"PATH": os.environ["PATH"]}, stdout=self.path)
        with trio.fail_after(10):
            async with Children(marker=str(uuid.uuid4())).start(command) as child:
                await Follower(self.path).until(child.gone, self.feed)
                assert child.gone.is_set()


async def test_lines_are_noticed_soon_after_they_are_printed(tmp_path: Path) -> None:
    """Each line contains its time; the fastest lines show the delay of following, not of a busy machine."""
    program = "import time\nfor _ in range(20): print(time.monotonic(), flush=True); time.sleep(0.011)"
    reader = Reader(tmp_path / "out")
    await reader.run(sys.executable, "-c", program)
    assert len(reader.lines) == 20
    delays = sorted(seen - float(line) for line, seen in zip(reader.lines, reader.seen_at, strict=True))
    assert delays[0] >= 0
    assert delays[10] < 0.05


async def test_ten_megabytes_in_one_line_arrive_whole(tmp_path: Path) -> None:
    program = "import sys; sys.stdout.write('x' * (10 << 20)); sys.stdout.write('\\nend\\n')"
    reader = Reader(tmp_path / "out")
    await reader.run(sys.executable, "-c", program)
    assert [len(line) for line in reader.lines] == [10 << 20, 3]


async def test_the_rest_is_read_after_a_tool_truncated_dev_stdout(tmp_path: Path) -> None:
    """The shell appends its own output, so the file has no hole afterwards."""
    script = "echo a first and rather long line; sleep 0.7; echo two > /dev/stdout; echo three"
    reader = Reader(tmp_path / "out")
    await reader.run("sh", "-c", script)
    assert reader.lines == [b"a first and rather long line", b"two", b"three"]


async def test_a_process_that_keeps_writing_is_not_waited_for(tmp_path: Path) -> None:
    reader = Reader(tmp_path / "out")
    before = time.monotonic()
    await reader.run("sh", "-c", "(setsid yes &) ; echo end")
    assert time.monotonic() - before < 5
    assert b"end" in reader.lines
