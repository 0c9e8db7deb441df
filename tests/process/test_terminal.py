"""Displays on real terminals, pipes and files, on the real clock."""

from __future__ import annotations

import contextlib
import fcntl
import math
import os
import pty
import re
import termios
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
import trio
import trio.testing
import wcwidth
from trio_util import RepeatedEvent

from cuggino import events as e
from cuggino.errors import StorageError
from cuggino.output import hub as hub_module
from cuggino.output.hub import Display, EventHub, open_hub
from cuggino.output.stream import OutputClosed, Stream
from cuggino.output.summary import RunTally, render_summary
from cuggino.output.terminal import open_display

XTERM = {"TERM": "xterm-256color"}
CONTROL = re.compile("\r|\n|\x1b\\[K|\x1b\\[[0-9;]*m")
START = e.PlanningStart(iteration=1)
SPINNER = re.compile("[⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏] W")


class Terminal:
    """A pty with a reader. `screen` is what is visible, including the scrollback and wrapped lines."""

    def __init__(self, columns: int) -> None:
        self.master, self.slave = pty.openpty()
        self.resize(columns)
        os.set_blocking(self.master, False)
        self.received = b""
        self._news = RepeatedEvent()

    def resize(self, columns: int) -> None:
        self.columns = columns
        termios.tcsetwinsize(self.slave, (24, columns))

    async def read(self) -> None:
        while True:
            await trio.lowlevel.wait_readable(self.master)
            try:
                self.received += os.read(self.master, 65536)
            except OSError:
                return
            self._news.set()

    async def until(self, pattern: str) -> None:
        """Wait until the text received so far contains `pattern`."""
        with trio.fail_after(10):
            while not re.search(pattern, self.text):
                await self._news.wait()

    @property
    def text(self) -> str:
        return self.received.decode("utf-8", "ignore")

    def read_rest(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                self.received += os.read(self.master, 65536)

    @property
    def screen(self) -> list[str]:
        rows: list[list[str]] = [[]]
        column = 0
        for part in re.split(f"({CONTROL.pattern})", self.text):
            if part == "\r":
                column = 0
            elif part == "\n":
                rows.append([])
            elif part == "\x1b[K":
                del rows[-1][column:]
            elif not CONTROL.fullmatch(part):
                assert part == "" or "\x1b" not in part
                for grapheme in wcwidth.iter_graphemes(part):
                    wide = wcwidth.width(grapheme)
                    if column + wide > self.columns:
                        rows.append([])
                        column = 0
                    rows[-1][column:] = [grapheme, *[""] * (wide - 1)]
                    column += wide
        return ["".join(row) for row in rows]

    def close(self) -> None:
        for fd in (self.master, self.slave):
            with contextlib.suppress(OSError):
                os.close(fd)


@pytest.fixture(name="terminal")
def _terminal(request: pytest.FixtureRequest) -> Iterator[Terminal]:
    terminal = Terminal(getattr(request, "param", 80))
    yield terminal
    terminal.close()


@pytest.fixture(name="pipe")
def _pipe() -> Iterator[list[int]]:
    """The read end and the write end."""
    ends = list(os.pipe())
    yield ends
    for fd in ends:
        with contextlib.suppress(OSError):
            os.close(fd)


@pytest.fixture(autouse=True)
def _nothing_stays_open() -> Iterator[None]:
    before = set(os.listdir("/dev/fd"))  # noqa: PTH208
    yield
    after = set(os.listdir("/dev/fd"))  # noqa: PTH208
    assert after <= before  # an earlier test's descriptors may be closed meanwhile
    assert after & {"0", "1", "2"} == before & {"0", "1", "2"}  # these are never closed


class Run(NamedTuple):
    """A hub and its display."""

    display: Display
    hub: EventHub

    async def send(self, *events: e.Event) -> None:
        send = self.hub.sender("s")
        for event in events:
            await send(event)


@asynccontextmanager
async def run_on(
    out: int | Terminal,
    *,
    err: int | None = None,
    read: bool = True,
    as_json: bool = False,
    log: Path | None = None,
    environment: Mapping[str, str] = XTERM,
) -> AsyncIterator[Run]:
    """A run with this stdout, and stderr if given; a terminal is read meanwhile unless `read` is false."""
    fd = out.slave if isinstance(out, Terminal) else out
    async with trio.open_nursery() as nursery:
        if isinstance(out, Terminal) and read:
            nursery.start_soon(out.read)
        try:
            err = fd if err is None else err
            with open_display(as_json=as_json, out=fd, err=err, environment=environment) as display:
                async with open_hub(log=log, display=display) as hub:
                    yield Run(display, hub)
        finally:
            nursery.cancel_scope.cancel()
            if isinstance(out, Terminal):
                out.read_rest()


# ---- a terminal -------------------------------------------------------------------------------


@pytest.mark.parametrize("terminal", [60, 80, 140], indirect=True)
async def test_nothing_is_garbled_whatever_the_width(terminal: Terminal) -> None:
    family = "👨‍👩‍👧‍👦"
    async with run_on(terminal) as run:
        for text in ("x" * 300, "中文" * 300, family * 300, "e\u0301" * 300, "a\tb" * 300):
            await run.send(e.ToolCall(id="1", name="Bash", input={"command": text}), e.ToolResult(id="1", output=text))
            await trio.lowlevel.checkpoint()
        await run.send(
            e.ToolResult(id="1", output="\x1b[2J\x1b]0;title\x07 50%\r60%\x9b1A"), e.LoopApproved(iteration=1)
        )
    *rows, last = terminal.screen
    assert last == ""
    assert len(rows) == 12  # nothing was wrapped
    for row in rows[:10]:
        assert row.endswith("…")
        apart = sum(max(wcwidth.wcwidth(char), 0) for char in row)  # as on terminals that show clusters' parts
        assert terminal.columns - (8 if family in row else 2) <= max(apart, wcwidth.width(row)) <= terminal.columns
    assert rows[10:] == ["   1  ␛[2J␛]0;title␇ 50%␍60%\\x9b1A", "[Loop] Approved in iteration 1"]


async def test_the_terminal_wraps_a_message_and_the_status_line_is_below_it(terminal: Terminal) -> None:
    async with run_on(terminal) as run:
        await run.send(START, e.AgentMessage(text="中" * 60))
        await terminal.until("中\r\n.*Working")
        assert terminal.screen[:3] == ["[Planning] Starting...", "中" * 40, "中" * 20]
        assert SPINNER.match(terminal.screen[-1])
        await run.send(e.AgentMessage(text="next"))
    assert terminal.screen == ["[Planning] Starting...", "中" * 40, "中" * 20, "next", ""]


async def test_the_status_line_counts_from_the_last_event_shown(terminal: Terminal) -> None:
    async with run_on(terminal) as run:
        await run.send(START)
        async with trio.open_nursery() as nursery:

            @nursery.start_soon
            async def signs_of_life() -> None:
                while True:
                    await run.send(e.PingEvent())
                    await trio.sleep(0.1)

            await terminal.until(r"Working… \(1s\)")
            nursery.cancel_scope.cancel()
        await run.send(e.AgentMessage(text="here"))
        await terminal.until(r"here\r\n[^\n]*Working… \(0s\)")
        assert sum(SPINNER.search(row) is not None for row in terminal.screen) == 1


async def test_the_spinner_moves_with_signs_of_life_only(terminal: Terminal) -> None:
    async with run_on(terminal) as run:
        await run.send(START)
        await terminal.until("Working")
        await trio.sleep(0.6)  # one tick for the start itself, and at least one without a sign of life
        quiet = "".join(set(re.findall("(.) Working", terminal.text)))
        await terminal.until(r"Working… \(1s\)")
        assert set(re.findall("(.) Working", terminal.text)) == set(quiet)
        await run.send(e.PingEvent())
        await terminal.until(f"[^{quiet}] Working")


@pytest.mark.parametrize(
    ("start", "ends"),
    [
        (START, [e.LoopApproved(iteration=1)]),
        (
            e.WatchProcessingItem(filename="a"),
            [e.WatchItemCompleted(filename="a"), e.WatchIdle(wait_seconds=0, blocked=None)],
        ),
    ],
)
async def test_without_activity_there_is_no_status_line_and_no_tick(
    terminal: Terminal, start: e.Event, ends: list[e.Event]
) -> None:
    async with run_on(terminal) as run:
        assert run.display.due == math.inf
        await run.send(start)
        await terminal.until("Working")
        assert run.display.due < math.inf
        await run.send(*ends)
        await terminal.until("Approved|Idle")
        assert run.display.due == math.inf
        assert terminal.screen[-1] == ""


async def test_a_marker_has_one_empty_line_around_it(terminal: Terminal) -> None:
    async with run_on(terminal) as run:
        await run.send(e.Note(content="a"), e.Note(content="b"), e.AgentMessage(text="c"), e.Note(content="d"))
    assert terminal.screen == ["[NOTE] a", "", "[NOTE] b", "", "c", "", "[NOTE] d", "", ""]


@pytest.mark.parametrize("error", [None, ZeroDivisionError, KeyboardInterrupt])
async def test_no_status_line_remains_however_a_run_ends(terminal: Terminal, error: type[BaseException] | None) -> None:
    expected = pytest.RaisesGroup(error, flatten_subgroups=True) if error else contextlib.nullcontext()
    with expected, trio.CancelScope() as scope:
        async with run_on(terminal) as run:
            await run.send(START)
            await terminal.until("Working")
            if error is not None:
                raise error
            scope.cancel()
            await trio.sleep_forever()
    assert terminal.screen == ["[Planning] Starting...", ""]


async def test_no_status_line_remains_when_the_hub_did_not_finish(terminal: Terminal) -> None:
    line = e.LogLine(at="2026-11-21T21:52:44.962Z", session=None, event=START)
    with open_display(as_json=False, out=terminal.slave, environment=XTERM) as display:
        await display.show([line], b"")
        terminal.read_rest()
        assert SPINNER.match(terminal.screen[-1])
    terminal.read_rest()
    assert terminal.screen == ["[Planning] Starting...", ""]


async def test_a_resize_takes_effect_at_once(terminal: Terminal) -> None:
    call = e.ToolCall(id="1", name="Bash", input={"command": "x" * 500})
    async with run_on(terminal) as run:
        await run.send(START)
        for n, columns in enumerate((80, 60, 140, 30), 1):
            terminal.resize(columns)
            await run.send(call)
            await terminal.until(f"(?s)(x….*){{{n}}}")
    widths = [len(row) for row in re.findall("▶ Bash: x+…", terminal.text)]
    assert widths == [80, 60, 140, 30]


async def test_the_summary_is_printed_after_the_hub_has_ended(terminal: Terminal) -> None:
    tally = RunTally()
    tally.add(e.LoopApproved(iteration=1))
    with open_display(as_json=False, out=terminal.slave, environment=XTERM) as display:
        async with open_hub(log=None, display=display) as hub:
            await hub.sender(None)(START)
        terminal.read_rest()
        assert terminal.screen == ["[Planning] Starting...", ""]
        await display.print(lambda page: render_summary(tally.summary(seconds=90), page)[:2])
        terminal.read_rest()
        assert terminal.screen == ["[Planning] Starting...", "", "Outcome     approved", ""]
    assert b"\x1b[1;32mOutcome" in terminal.received


@pytest.mark.parametrize("terminal", [60, 80, 140], indirect=True)
async def test_long_names_and_reasons_of_a_watch_are_wrapped_and_not_garbled(terminal: Terminal) -> None:
    name = "輸出" * 50 + ".md"
    async with run_on(terminal) as run:
        await run.send(e.WatchProcessingItem(filename=name))
        await terminal.until("Working")
        await run.send(e.WatchStopping(stage="drain", active=1))
        await terminal.until("interrupts")
        await run.send(e.WatchItemBlocked(filename=name, reason="because " * 40 + "\x1b[2Jof that"))
    rows = terminal.screen
    shown = "".join(rows)
    assert shown.startswith(f"[Watch] Processing {name}[Watch] Stopping: finishing 1 item")
    assert f"[Watch] {name} is set aside: {'because ' * 40}␛[2Jof thatEdit it" in shown
    assert max(map(wcwidth.width, rows)) <= terminal.columns
    assert not SPINNER.search(shown)


# ---- the bell ---------------------------------------------------------------------------------

NEED_A_PERSON = [e.WatchSpecIssueWaiting(), e.WatchBacklogWaiting()]


@pytest.mark.parametrize("event", NEED_A_PERSON)
@pytest.mark.parametrize("environment", [XTERM, {"TERM": "dumb"}])
async def test_the_bell_rings_once_in_the_write_that_asks_for_a_person(
    terminal: Terminal, event: e.Event, environment: Mapping[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[bytes] = []
    write = Stream.write

    async def recorded(stream: Stream, data: bytes) -> None:
        written.append(data)
        await write(stream, data)

    monkeypatch.setattr(Stream, "write", recorded)
    async with run_on(terminal, environment=environment) as run:
        await run.send(e.WatchProcessingItem(filename="a"))
        await terminal.until("Processing a")
        await run.send(e.WatchItemCompleted(filename="a"), event)
        await terminal.until("Waiting for")
        await run.send(e.WatchIdle(wait_seconds=0, blocked=None))
        await terminal.until("Idle")
    [rung] = [data for data in written if b"\a" in data]
    assert b"Waiting for" in rung
    assert terminal.received.count(b"\a") == 1
    assert terminal.text.index("Waiting for") < terminal.text.index("\a") < terminal.text.index("Idle")


async def test_events_shown_in_one_write_ring_once(terminal: Terminal) -> None:
    async with run_on(terminal) as run:
        await run.send(*NEED_A_PERSON)
    assert terminal.received.count(b"\a") == 1


async def test_no_other_event_rings_whatever_agents_write(terminal: Terminal) -> None:
    bell = "\a\x1b]0;title\a"
    async with run_on(terminal) as run:
        await run.send(
            e.AgentMessage(text=bell),
            e.ToolCall(id="1", name=bell, input=bell),
            e.ToolResult(id="1", output=bell),
            e.Note(content=bell),
            e.WatchProcessingItem(filename=bell),
            e.WatchItemBlocked(filename=bell, reason=bell),
            e.WatchTbdItemFound(filename=bell, content=bell),
            e.WatchStopping(stage="kill", active=1),
        )
    assert b"\a" not in terminal.received


@pytest.mark.parametrize("as_json", [False, True])
async def test_the_bell_never_rings_in_files_pipes_and_json(
    tmp_path: Path, pipe: list[int], terminal: Terminal, as_json: bool
) -> None:
    with open_output(tmp_path / "out") as file:
        outputs: list[int | Terminal] = [file, pipe[1], *([terminal] if as_json else [])]
        for out in outputs:
            async with run_on(out, as_json=as_json, environment={**XTERM, "FORCE_COLOR": "1"}) as run:
                await run.send(*NEED_A_PERSON)
    written = [(tmp_path / "out").read_bytes(), os.read(pipe[0], 65536), *([terminal.received] if as_json else [])]
    for received in written:
        assert received.count(b"\n") == 2
        assert b"\a" not in received


@contextlib.contextmanager
def open_output(path: Path) -> Iterator[int]:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        yield fd
    finally:
        os.close(fd)


# ---- colour -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("environment", "colour", "live"),
    [
        (XTERM, True, True),
        ({**XTERM, "NO_COLOR": "1"}, False, True),
        ({**XTERM, "NO_COLOR": ""}, True, True),
        ({**XTERM, "NO_COLOR": "1", "FORCE_COLOR": "1"}, False, True),
        ({"TERM": "dumb"}, False, False),
        ({}, False, False),
        ({"TERM": "dumb", "FORCE_COLOR": "1"}, True, False),
    ],
)
async def test_colour_and_status_line_on_a_terminal(
    terminal: Terminal, environment: Mapping[str, str], colour: bool, live: bool
) -> None:
    async with run_on(terminal, environment=environment) as run:
        await run.send(START)
        await terminal.until("Starting.*\n")
    assert (b"\x1b[2m" in terminal.received) is colour
    assert (b"Working" in terminal.received) is live


@pytest.mark.parametrize(
    ("environment", "written"),
    [
        (XTERM, "[Planning] Starting...\n"),
        ({**XTERM, "FORCE_COLOR": "1"}, "\x1b[2m[Planning] Starting...\x1b[0m\n"),
        ({**XTERM, "FORCE_COLOR": "1", "NO_COLOR": "1"}, "[Planning] Starting...\n"),
        ({**XTERM, "FORCE_COLOR": ""}, "[Planning] Starting...\n"),
    ],
)
async def test_a_file_gets_plain_text_unless_colour_is_forced(
    tmp_path: Path, environment: Mapping[str, str], written: str
) -> None:
    with open_output(tmp_path / "out") as out:
        async with run_on(out, environment=environment) as run:
            await run.send(START)
    assert (tmp_path / "out").read_text() == written


@pytest.mark.parametrize(
    ("environment", "width"), [({}, 120), ({"COLUMNS": "66"}, 66), ({"COLUMNS": "0"}, 120), ({"COLUMNS": "x"}, 120)]
)
async def test_the_width_of_a_file_comes_from_columns(
    tmp_path: Path, environment: Mapping[str, str], width: int
) -> None:
    with open_output(tmp_path / "out") as out:
        async with run_on(out, environment=environment) as run:
            await run.send(e.ToolCall(id="", name="x", input="y" * 500))
    assert len((tmp_path / "out").read_text()) == width + 1


# ---- slow readers -----------------------------------------------------------------------------


async def overfill(run: Run, when_stalled: Callable[[], None]) -> None:
    """Send more than any buffer takes, check that other tasks keep running, then call `when_stalled`."""
    async with trio.open_nursery() as nursery:

        @nursery.start_soon
        async def producer() -> None:
            for _ in range(50):
                await run.send(e.AgentMessage(text="z" * 10_000))

        with trio.fail_after(5):
            for _ in range(50):
                await trio.sleep(0.002)
        when_stalled()


@pytest.mark.parametrize("kind", ["terminal", "pipe"])
async def test_an_output_that_nobody_reads_stalls_only_the_events(
    terminal: Terminal, pipe: list[int], kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub_module, "FLUSH", 0.1)
    out: int | Terminal = terminal if kind == "terminal" else pipe[1]
    with trio.fail_after(5), trio.CancelScope() as interrupted:
        async with run_on(out, read=False, as_json=kind == "pipe") as run:
            await overfill(run, interrupted.cancel)
    assert interrupted.cancelled_caught


async def test_a_terminal_held_with_ctrl_s_gets_everything_when_released(terminal: Terminal) -> None:
    with trio.fail_after(10):
        async with run_on(terminal) as run:
            termios.tcflow(terminal.slave, termios.TCOOFF)  # as Ctrl+S does
            seen: list[int] = []

            def release() -> None:
                seen.append(terminal.received.count(b"z"))
                termios.tcflow(terminal.slave, termios.TCOON)

            await overfill(run, release)
            await run.send(e.AgentMessage(text="the end"))
            await terminal.until("the end")
    assert seen == [0]
    assert terminal.received.count(b"z") == 500_000


async def test_a_slow_reader_of_a_pipe_gets_every_line_and_the_pipe_s_flags_stay(
    tmp_path: Path, pipe: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub_module, "FLUSH", 0.05)
    reading, writing = pipe
    received = b""
    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            over = trio.Event()

            @nursery.start_soon
            async def slow_reader() -> None:
                nonlocal received
                await over.wait()
                await trio.sleep(0.2)  # longer than FLUSH
                while not received.endswith(b'"the end"}}\n'):
                    await trio.lowlevel.wait_readable(reading)
                    received += os.read(reading, 65536)

            async with run_on(writing, as_json=True, log=tmp_path / "log") as run:
                await run.send(*[e.AgentMessage(text="z" * 3000)] * 30, e.PingEvent(), e.AgentMessage(text="the end"))
                over.set()
    assert received == (tmp_path / "log").read_bytes()
    assert fcntl.fcntl(writing, fcntl.F_GETFL) & os.O_NONBLOCK == 0


# ---- closed outputs ---------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["terminal", "pipe"])
async def test_a_reader_that_disappears_ends_the_run(terminal: Terminal, pipe: list[int], kind: str) -> None:
    """A pipe's is noticed although nothing is written, a terminal's with the next write."""
    with trio.fail_after(5), pytest.RaisesGroup(OutputClosed, flatten_subgroups=True):
        if kind == "pipe":
            async with run_on(pipe[1], as_json=True):
                await trio.sleep(0.05)
                os.close(pipe[0])
                await trio.sleep_forever()
        async with run_on(terminal, read=False) as run:
            os.close(terminal.master)
            await run.send(START)
            await trio.sleep_forever()


async def test_a_fifo_open_in_both_directions_is_not_closed_when_it_has_data(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    fd = os.open(tmp_path / "fifo", os.O_RDWR)
    try:
        stream = Stream(fd)
        await stream.write(b"something")
        with trio.move_on_after(0.05) as waited:
            await stream.closed()
        assert waited.cancelled_caught
    finally:
        os.close(fd)


async def test_writing_to_a_pipe_without_a_reader_raises_output_closed(pipe: list[int]) -> None:
    os.close(pipe[0])
    with trio.fail_after(5), pytest.raises(OutputClosed) as caught:
        await Stream(pipe[1]).write(b"x")
    assert caught.value.exit_code == 141


async def test_a_full_disk_under_stdout_raises_storage_error() -> None:
    with open_output(Path("/dev/full")) as full, pytest.raises(StorageError, match="No space left"):
        await Stream(full).write(b"x")


def test_a_stdout_that_was_closed_from_the_start_raises_output_closed(pipe: list[int]) -> None:
    os.close(pipe[1])
    with pytest.raises(OutputClosed), open_display(as_json=True, out=pipe[1]):
        pass


# ---- stderr -----------------------------------------------------------------------------------


async def test_a_log_that_cannot_be_written_is_reported_on_stderr(
    terminal: Terminal, pipe: list[int], tmp_path: Path
) -> None:
    async with run_on(terminal, err=pipe[1], log=tmp_path / "missing" / "log") as run:
        await run.send(START, e.AgentMessage(text="x"))
    assert os.read(pipe[0], 1000).startswith(b"cuggino: Cannot write the log; continuing without it: ")
    assert terminal.screen == ["[Planning] Starting...", "x", ""]


async def test_any_task_can_warn_during_a_run_on_a_line_of_its_own(terminal: Terminal) -> None:
    async with run_on(terminal) as run, trio.open_nursery() as tasks:

        @tasks.start_soon
        async def signals() -> None:
            for n in range(50):
                await run.display.warn(f"press {n}")

        for n in range(200):
            await run.send(e.AgentMessage(text=f"word {n}"))
            await trio.lowlevel.checkpoint()
    *rows, last = terminal.screen
    assert last == ""
    assert [row for row in rows if row.startswith("word")] == [f"word {n}" for n in range(200)]
    assert [row for row in rows if not row.startswith("word")] == [f"cuggino: press {n}" for n in range(50)]


async def test_a_warning_is_printed_while_the_terminal_is_held(terminal: Terminal, pipe: list[int]) -> None:
    termios.tcflow(terminal.slave, termios.TCOOFF)
    with trio.fail_after(5), open_display(as_json=False, out=terminal.slave, err=pipe[1], environment=XTERM) as display:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(display.print, lambda _page: ["held"])
            await trio.testing.wait_all_tasks_blocked()
            await display.warn("stopping")
            nursery.cancel_scope.cancel()
    assert os.read(pipe[0], 100) == b"cuggino: stopping\n"


async def test_a_stalled_or_closed_stderr_does_not_block_a_warning(pipe: list[int]) -> None:
    os.set_blocking(pipe[1], False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(pipe[1], b"x" * 4096)
    with open_output(Path(os.devnull)) as null, trio.fail_after(3):
        for err in (pipe[1], 9999):
            with open_display(as_json=True, out=null, err=err) as display:
                await display.warn("stalled, then closed")
