"""Real children: what they get, what is told of them, and that nothing of them is left, however they end."""

# ruff: noqa: ASYNC110, ASYNC220 (other processes set no events; small files; one cuggino to be killed)
from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import trio

from cuggino.process import keeper
from cuggino.process.children import Child, Children, Command
from cuggino.process.leftovers import marker_prefix, start_time, sweep

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="other systems have no subreaper")


class Scene:
    """A folder, a marker, and what its children left there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.marker = str(uuid.uuid4())
        self.out = folder / "out"
        self.pids_file = folder / "pids"
        self.write_program("lasting", "echo $$ >> pids; exec sleep 1000")

    def write_program(self, name: str, script: str) -> None:
        (self.folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (self.folder / name).chmod(0o755)

    def children(self, *, force_kill: trio.Event | None = None, grace: float = 5.0) -> Children:
        return Children(marker=self.marker, force_kill=force_kill, grace=grace)

    def command(self, *argv: str, stdin: bytes = b"", linger: bool = False, **environment: str) -> Command:
        return Command(
            argv=argv,
            cwd=self.folder,
            environment={"PATH": os.environ["PATH"], **environment},
            stdin=stdin,
            stdout=self.out,
            linger=linger,
        )

    def shell(self, script: str, *, linger: bool = False) -> Command:
        return self.command("sh", "-c", script, linger=linger)

    def python(self, program: str, *arguments: str) -> Command:
        return self.command(sys.executable, "-c", program, *arguments)

    async def run(self, command: Command) -> int:
        """Its status, when all of it is gone."""
        with trio.fail_after(10):
            async with self.children().start(command) as child:
                status = await child.wait()
                await child.gone.wait()
        return status

    @property
    def output(self) -> str:
        return self.out.read_text()

    @property
    def pids(self) -> list[int]:
        return [int(pid) for pid in self.pids_file.read_text().split()] if self.pids_file.exists() else []

    def carriers(self) -> list[int]:
        name = marker_prefix(self.marker).encode()
        return [pid for pid in keeper.processes() if keeper.carries(pid, name)]

    def alive(self) -> list[int]:
        return [*self.carriers(), *(pid for pid in self.pids if start_time(pid))]


def arguments(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    """After every test: nothing that carries its marker and none of the pids that were written down is alive."""
    scene = Scene(tmp_path)
    yield scene
    left = scene.alive()
    sweep(scene.marker)
    for pid in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    assert left == []


async def until(condition: Callable[[], object]) -> None:
    while not condition():
        await trio.sleep(0.002)


def keeper_of(child: Child) -> int:
    found = keeper.read_entry(child.pid)
    assert found is not None
    return found.parent


# ---- what a child gets, and what is told of it ---------------------------------------------------


async def test_output_comes_in_order_and_the_status_is_its_own(scene: Scene) -> None:
    status = await scene.run(scene.command("sh", "-c", "cat; echo wrong >&2; echo right; exit 3", stdin=b"in\n"))
    assert status == 3
    assert scene.output == "in\nwrong\nright\n"


async def test_output_is_appended_to_files_that_are_private(scene: Scene) -> None:
    scene.out.write_text("before\n")
    errors = scene.folder / "errors"
    await scene.run(
        Command(
            argv=("sh", "-c", "echo out; echo err >&2"),
            cwd=scene.folder,
            environment={"PATH": os.environ["PATH"]},
            stdout=scene.out,
            stderr=errors,
        )
    )
    assert scene.output == "before\nout\n"
    assert errors.read_text() == "err\n"
    assert errors.stat().st_mode & 0o777 == 0o600


async def test_ten_megabytes_of_input_arrive_whole(scene: Scene) -> None:
    data = bytes(range(256)) * (10 << 12)
    assert await scene.run(scene.command("cat", stdin=data)) == 0
    assert scene.out.read_bytes() == data


async def test_input_that_nobody_reads_blocks_nobody(scene: Scene) -> None:
    assert await scene.run(scene.command("true", stdin=b"x" * (10 << 20))) == 0


async def test_no_input_is_at_its_end_at_once(scene: Scene) -> None:
    assert await scene.run(scene.command("cat")) == 0


async def test_a_status_by_signal_is_negative(scene: Scene) -> None:
    assert await scene.run(scene.shell("kill -TERM $$")) == -signal.SIGTERM
    assert await scene.run(scene.shell("kill -KILL $$")) == -signal.SIGKILL


async def test_the_environment_is_the_given_one_and_the_marker(scene: Scene) -> None:
    await scene.run(scene.command("env", ODD="a\nb=c", EMPTY=""))
    marker, *others = sorted(scene.output.splitlines())
    assert re.fullmatch(rf"{marker_prefix(scene.marker)}\d+=1", marker)
    assert others == ["EMPTY=", "ODD=a", f"PATH={os.environ['PATH']}", "b=c"]


async def test_the_marker_gets_through_a_shell_that_drops_odd_names(scene: Scene) -> None:
    """`dash` does not pass on names with a dash, and a UUID has some."""
    await scene.run(scene.shell("sh -c env"))
    assert marker_prefix(scene.marker) in scene.output


async def test_signals_are_as_a_fresh_process_has_them(scene: Scene) -> None:
    """Nothing blocked, nothing ignored: not SIGPIPE, which Python ignores, nor what cuggino was started with."""
    before = signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    try:
        await scene.run(scene.command("cat", "/proc/self/status"))
    finally:
        signal.signal(signal.SIGUSR1, before)
    fields = dict(line.split(":\t", 1) for line in scene.output.splitlines() if ":\t" in line)
    assert int(fields["SigBlk"], 16) == 0
    assert int(fields["SigIgn"], 16) == 0


async def test_only_the_standard_streams_are_open(scene: Scene) -> None:
    read_end, write_end = os.pipe()
    os.set_inheritable(read_end, True)
    try:
        await scene.run(scene.python("import os; print(sorted(os.listdir('/proc/self/fd')))"))
    finally:
        os.close(read_end)
        os.close(write_end)
    assert scene.output == "['0', '1', '2', '3']\n"  # 3 is the listing's own


async def test_it_leads_a_session_that_no_terminal_reaches(scene: Scene) -> None:
    """Neither the child nor its keeper is in our session, where Ctrl+C and a hangup are delivered."""
    async with scene.children().start(scene.command("sleep", "1000")) as child:
        sessions = {os.getsid(0), os.getsid(keeper_of(child)), os.getsid(child.pid)}
        assert len(sessions) == 3
        assert os.getsid(child.pid) == os.getpgid(child.pid) == child.pid
        child.interrupt()
        with trio.fail_after(4):
            assert await child.wait() == -signal.SIGINT


async def test_the_keeper_shows_nothing_of_the_command_and_carries_no_marker(scene: Scene) -> None:
    async with scene.children().start(scene.command("sleep", "1000", SECRET="x")) as child:
        above = keeper_of(child)
        assert b"sleep" not in arguments(above)
        assert b"SECRET" not in Path(f"/proc/{above}/environ").read_bytes()
        assert not keeper.carries(above, marker_prefix(scene.marker).encode())


# ---- what cannot be executed ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("program", "error"),
    [
        ("no-such-program", FileNotFoundError),
        ("./no-such-program", FileNotFoundError),
        ("./plain-file", PermissionError),
        ("./plain-file/x", FileNotFoundError),
        ("./not-a-program", OSError),
    ],
)
async def test_a_program_that_cannot_be_executed_is_named(scene: Scene, program: str, error: type[OSError]) -> None:
    (scene.folder / "plain-file").write_text("")
    (scene.folder / "not-a-program").write_bytes(b"\0\0")
    (scene.folder / "not-a-program").chmod(0o755)
    with trio.fail_after(10):
        with pytest.raises(error) as raised:
            async with scene.children().start(scene.command(program)):
                pytest.fail("it was not started")
        assert raised.value.filename == program
        with pytest.RaisesGroup(error):
            async with trio.open_nursery() as nursery:
                await nursery.start(scene.children().run, scene.command(program))


@pytest.mark.parametrize(("name", "error"), [("missing", FileNotFoundError), ("plain-file", NotADirectoryError)])
async def test_a_folder_that_cannot_be_worked_in_is_named(scene: Scene, name: str, error: type[OSError]) -> None:
    (scene.folder / "plain-file").write_text("")
    cwd = scene.folder / name
    with pytest.raises(error, match="folder to work in") as raised:
        await scene.run(Command(argv=("true",), cwd=cwd, environment=os.environ, stdout=scene.out))
    assert raised.value.filename == str(cwd)


async def test_the_program_is_looked_up_in_the_path_of_the_child(scene: Scene) -> None:
    folder = scene.folder / "bin"
    folder.mkdir()
    scene.write_program("bin/my-agent", "echo mine")
    assert await scene.run(scene.command("my-agent", PATH=f"/no-such-folder:{folder}:/bin")) == 0
    assert scene.output == "mine\n"
    with pytest.raises(FileNotFoundError):
        await scene.run(scene.command("sh", PATH=str(folder / "empty")))


async def test_what_no_process_can_be_given_is_refused(scene: Scene) -> None:
    with pytest.raises(ValueError, match="NUL"):
        await scene.run(scene.command("echo", "a\0b"))
    with pytest.raises(ValueError, match="'='"):
        await scene.run(Command(argv=("env",), cwd=scene.folder, environment={"A=B": "c"}, stdout=scene.out))


# ---- what a child leaves behind ------------------------------------------------------------------

ESCAPES = {
    "in the background, with the output open": "./lasting & n=1",
    "in a session of its own": "setsid ./lasting & n=1",
    "by a double fork": "(setsid sh -c './lasting & exit' &) ; n=1",
    "with signals ignored": "(trap '' INT TERM HUP QUIT; setsid ./lasting &) ; n=1",
    "with an emptied environment": "(env -i setsid ./lasting &) ; n=1",
    "stopped": "(setsid ./lasting &) ; while [ ! -s pids ]; do sleep 0.01; done; kill -STOP $(cat pids); n=1",
    "many": "for i in 1 2 3 4 5 6 7 8; do (env -i setsid ./lasting &) ; done; n=8",
}
WRITTEN_DOWN = '; while [ ! -e pids ] || [ "$(wc -l < pids)" -lt $n ]; do sleep 0.01; done; '


@pytest.mark.parametrize("escape", ESCAPES)
async def test_what_it_leaves_running_is_gone_with_it(scene: Scene, escape: str) -> None:
    with trio.fail_after(5):
        async with scene.children().start(scene.shell(ESCAPES[escape] + WRITTEN_DOWN + "exit 4")) as child:
            assert await child.wait() == 4
            await child.gone.wait()
            assert scene.pids
            assert scene.alive() == []


@pytest.mark.parametrize("escape", ESCAPES)
async def test_cancelled_it_takes_all_that_it_started_with_it(scene: Scene, escape: str) -> None:
    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            command = scene.shell(ESCAPES[escape] + WRITTEN_DOWN + "exec sleep 1000")
            await nursery.start(scene.children().run, command)
            await until(lambda: len(scene.pids) >= 1)
            nursery.cancel_scope.cancel()
        assert scene.alive() == []


CHAIN = """
import os, sys, time
beat = os.open("beat", os.O_WRONLY | os.O_CREAT)
end = time.monotonic() + 10
while time.monotonic() < end:
    if os.fork(): os._exit(0)
    if sys.argv[1] == "setsid": os.setsid()
    os.pwrite(beat, b"%20d" % time.monotonic_ns(), 0)
"""


@pytest.mark.parametrize("how", ["in one group", "setsid"])
@pytest.mark.parametrize("environment", ["", "env -i "])
async def test_a_chain_that_keeps_forking_is_caught(scene: Scene, how: str, environment: str) -> None:
    """Each link forks the next one and exits: whoever is seen is already dead. So it has a heart that beats."""
    program, beat = scene.folder / "chain.py", scene.folder / "beat"
    program.write_text(CHAIN)
    chain = f"{environment}{sys.executable} -I -S {program} '{how}' & while [ ! -s beat ]; do sleep 0.01; done"
    assert await scene.run(scene.shell(chain)) == 0
    last = beat.read_text()
    await trio.sleep(0.1)
    assert beat.read_text() == last


async def test_a_keeper_under_a_keeper_goes_too(scene: Scene) -> None:
    """An agent may run cuggino itself, whose agents are then in our tree, with an emptied environment even."""
    inner = f"""
import trio, os
from pathlib import Path
from cuggino.process.children import Children, Command
command = Command(argv=("sh", "-c", "echo $$ >> pids; exec env -i setsid sleep 1000"), cwd=Path.cwd(),
                  environment=os.environ, stdout=Path("inner"))
trio.run(Children(marker="inner-{scene.marker}").run, command)
"""
    with trio.fail_after(10):
        async with scene.children(grace=0).start(scene.python(inner)):
            await until(lambda: scene.pids)
    assert scene.alive() == []


async def test_two_at_once_leave_each_other_alone(scene: Scene) -> None:
    """Though they share a marker, and even if two `Children` started them."""
    with trio.fail_after(10):
        async with scene.children().start(scene.shell("setsid ./lasting & exec sleep 1000")) as staying:
            await until(lambda: scene.pids)
            for _ in range(3):
                async with scene.children().start(scene.shell("setsid sleep 1000 & exit 0")) as leaving:
                    await leaving.gone.wait()
            assert start_time(staying.pid)
            assert start_time(scene.pids[0])
            assert not staying.gone.is_set()


# ---- being stopped -------------------------------------------------------------------------------


async def test_one_that_obeys_has_the_time_to_write_its_last_words(scene: Scene) -> None:
    script = "trap 'sleep 0.1; echo flushed; exit 7' INT; echo ready; while :; do sleep 0.01; done"
    with trio.fail_after(4):
        async with scene.children().start(scene.shell(script)) as child:
            await until(lambda: "ready" in scene.output)
    assert scene.output == "ready\nflushed\n"
    assert await child.wait() == 7


IGNORES = "trap '' INT TERM HUP; echo ready; while :; do sleep 1000; done"


async def test_one_that_does_not_obey_is_killed_after_the_grace(scene: Scene) -> None:
    with trio.fail_after(4):
        async with scene.children(grace=0.3).start(scene.shell(IGNORES)) as child:
            await until(lambda: "ready" in scene.output)
            started = time.monotonic()
    assert 0.3 <= time.monotonic() - started < 2
    assert await child.wait() == -signal.SIGKILL


async def test_a_hurry_cuts_the_grace_short(scene: Scene) -> None:
    force_kill = trio.Event()
    with trio.fail_after(4):
        async with trio.open_nursery() as nursery:
            child = await nursery.start(scene.children(force_kill=force_kill, grace=60).run, scene.shell(IGNORES))
            await until(lambda: "ready" in scene.output)
            nursery.cancel_scope.cancel()
            with trio.CancelScope(shield=True):
                await trio.sleep(0.1)
                assert not child.gone.is_set()
                force_kill.set()
                await child.gone.wait()


async def test_a_hurry_that_is_on_already_leaves_no_grace(scene: Scene) -> None:
    force_kill = trio.Event()
    force_kill.set()
    with trio.fail_after(4):
        async with scene.children(force_kill=force_kill, grace=60).start(scene.shell(IGNORES)):
            await until(lambda: "ready" in scene.output)


async def test_an_interrupt_is_passed_on_once(scene: Scene) -> None:
    script = "n=0; trap 'n=$((n + 1)); echo $n' INT; echo ready; while :; do sleep 0.02; done"
    with trio.fail_after(4):
        async with scene.children(grace=0.1).start(scene.shell(script)) as child:
            await until(lambda: "ready" in scene.output)
            child.interrupt()
            child.interrupt()
            await until(lambda: "1" in scene.output)
            child.interrupt()
    assert scene.output == "ready\n1\n"


async def test_an_interrupt_when_all_is_gone_goes_nowhere(scene: Scene) -> None:
    async with scene.children().start(scene.command("true")) as child:
        await child.wait()
    read_end, write_end = os.pipe()  # they may get the numbers that were the keeper's
    os.set_blocking(read_end, False)
    child.interrupt()
    with pytest.raises(BlockingIOError):
        os.read(read_end, 1)
    os.close(read_end)
    os.close(write_end)


async def test_a_failure_in_the_block_comes_out_as_it_is(scene: Scene) -> None:
    with pytest.raises(KeyError):
        async with scene.children(grace=0).start(scene.command("sleep", "1000")):
            raise KeyError
    assert scene.alive() == []


async def test_cancelled_while_it_is_being_started_it_leaves_nothing(scene: Scene) -> None:
    for n in range(15):
        with trio.move_on_after(n * 0.003):
            async with scene.children(grace=0).start(scene.command("sleep", "1000")) as child:
                await child.wait()
        assert scene.alive() == []


# ---- lingering -----------------------------------------------------------------------------------


async def test_what_lingers_lives_until_the_end_of_its_scope_and_may_then_say_good_bye(scene: Scene) -> None:
    scene.write_program(
        "database", "trap 'echo bye; exit' TERM; echo $$ >> pids; echo up; while :; do sleep 0.01; done"
    )
    command = scene.shell("setsid ./database & while [ ! -s pids ]; do sleep 0.01; done; exit 5", linger=True)
    with trio.fail_after(4):
        async with scene.children().start(command) as child:
            assert await child.wait() == 5
            await until(lambda: "up" in scene.output)
            await trio.sleep(0.1)
            assert start_time(scene.pids[0])
            assert not child.gone.is_set()
    assert "bye" in scene.output.splitlines()
    assert scene.alive() == []


async def test_what_lingers_and_does_not_obey_is_killed_and_a_hurry_does_not_wait_for_it(scene: Scene) -> None:
    scene.write_program("database", "trap '' TERM; echo $$ >> pids; while :; do sleep 1; done")
    command = scene.shell("env -i setsid ./database & while [ ! -s pids ]; do sleep 0.01; done", linger=True)
    force_kill = trio.Event()
    for seconds in (keeper.POLITE_SECONDS, 0):
        scene.pids_file.unlink(missing_ok=True)
        with trio.fail_after(5):
            async with scene.children(force_kill=force_kill).start(command) as child:
                assert await child.wait() == 0
                started = time.monotonic()
        assert seconds <= time.monotonic() - started < seconds + 1.5
        assert scene.alive() == []
        force_kill.set()


async def test_with_nothing_left_to_linger_it_is_gone_by_itself(scene: Scene) -> None:
    with trio.fail_after(4):
        async with scene.children().start(scene.shell("setsid sleep 0.1 & exit 0", linger=True)) as child:
            assert await child.wait() == 0
            assert not child.gone.is_set()
            await child.gone.wait()


# ---- when cuggino or a keeper is killed ----------------------------------------------------------

CUGGINO = """
import os, sys, trio
from pathlib import Path
from cuggino.process.children import Children, Command
marker, script = sys.argv[1:]
command = Command(argv=("sh", "-c", script), cwd=Path.cwd(), environment=os.environ, stdout=Path("out"))
trio.run(Children(marker=marker).run, command)
"""


@pytest.mark.parametrize("escape", ESCAPES)
async def test_when_cuggino_is_killed_all_goes_with_it(scene: Scene, escape: str) -> None:
    script = ESCAPES[escape] + WRITTEN_DOWN + "echo $$ >> pids; exec sleep 1000"
    with subprocess.Popen([sys.executable, "-c", CUGGINO, scene.marker, script], cwd=scene.folder) as process:
        with trio.fail_after(10):
            await until(lambda: scene.pids and all(start_time(pid) for pid in scene.pids) and len(scene.pids) > 1)
        process.kill()
        with trio.fail_after(3):
            await until(lambda: not scene.alive())


async def test_when_its_keeper_is_killed_it_counts_as_killed_and_its_tree_goes(scene: Scene) -> None:
    """What emptied its environment is found below those that carry the marker."""
    script = "setsid ./lasting & sleep 1000 & env -i ./lasting & wait"
    with trio.fail_after(10):
        async with scene.children().start(scene.shell(script)) as child:
            await until(lambda: len(scene.pids) == 2)
            os.kill(keeper_of(child), signal.SIGKILL)
            assert await child.wait() == -signal.SIGKILL
            await child.gone.wait()
            assert scene.alive() == []


async def test_a_keeper_takes_no_notice_of_other_signals(scene: Scene) -> None:
    with trio.fail_after(4):
        async with scene.children().start(scene.shell("echo ready; sleep 0.2; exit 6")) as child:
            await until(lambda: "ready" in scene.output)
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGTSTP):
                os.kill(keeper_of(child), number)
            assert await child.wait() == 6


async def test_a_keeper_that_is_stuck_is_killed_and_its_tree_swept(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeper, "SWEEP_SECONDS", 0.1)
    monkeypatch.setattr("cuggino.process.children._SLACK", 0.1)
    with trio.fail_after(4):
        async with scene.children(grace=0.1).start(scene.shell("setsid ./lasting & ./lasting")) as child:
            await until(lambda: len(scene.pids) == 2)
            os.kill(keeper_of(child), signal.SIGSTOP)
    assert await child.wait() == -signal.SIGKILL
    assert scene.alive() == []


# ---- what it costs -------------------------------------------------------------------------------


async def test_no_file_descriptor_and_no_process_is_left(scene: Scene) -> None:
    async def round_of_all() -> None:
        await scene.run(scene.command("cat", stdin=b"x"))
        with pytest.raises(FileNotFoundError):
            await scene.run(scene.command("no-such-program"))
        async with scene.children(grace=0).start(scene.command("sleep", "1000")):
            pass

    def ours() -> tuple[int, set[int]]:
        table = keeper.processes()
        return len(os.listdir("/proc/self/fd")), {pid for pid in table if table[pid].parent == os.getpid()}  # noqa: PTH208

    await round_of_all()
    before = ours()
    for _ in range(3):
        await round_of_all()
    assert ours() == before


async def test_waiting_keepers_use_no_processor_time(scene: Scene) -> None:
    """Blocked in `poll`, a keeper is not switched to again."""

    def switches(pid: int) -> list[str]:
        return [line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if "ctxt_switches" in line]

    def blocked(pid: int) -> bool:
        before = switches(pid)
        time.sleep(0.02)
        return switches(pid) == before

    async with scene.children().start(scene.command("sleep", "1000")) as child:
        with trio.fail_after(4):
            await until(lambda: blocked(keeper_of(child)))
        before = switches(keeper_of(child))
        await trio.sleep(0.3)
        assert switches(keeper_of(child)) == before
