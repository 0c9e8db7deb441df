"""Real child processes: their input, what is reported of them, and that nothing of them is left."""

# ruff: noqa: ASYNC110, ASYNC220 (other processes set no events; small files; a cuggino that is killed)
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
    """A folder, a marker, and what its children wrote there."""

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
        """Return the command's status when its tree is gone."""
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
    """After every test, assert that no process with its marker and none of the recorded PIDs is alive."""
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


# ---- input, output and status --------------------------------------------------------------------


async def test_output_is_in_order_and_the_status_is_that_of_the_command(scene: Scene) -> None:
    status = await scene.run(scene.command("sh", "-c", "cat; echo wrong >&2; echo right; exit 3", stdin=b"in\n"))
    assert status == 3
    assert scene.output == "in\nwrong\nright\n"


async def test_output_is_appended_to_private_files(scene: Scene) -> None:
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


@pytest.mark.parametrize("data", [bytes(range(256)) * (10 << 12), b""], ids=["10 MB", "nothing"])
async def test_input_of_any_size_arrives_completely(scene: Scene, data: bytes) -> None:
    assert await scene.run(scene.command("cat", stdin=data)) == 0
    assert scene.out.read_bytes() == data


async def test_unread_input_does_not_block(scene: Scene) -> None:
    assert await scene.run(scene.command("true", stdin=b"x" * (10 << 20))) == 0


async def test_a_status_by_signal_is_negative(scene: Scene) -> None:
    assert await scene.run(scene.shell("kill -TERM $$")) == -signal.SIGTERM
    assert await scene.run(scene.shell("kill -KILL $$")) == -signal.SIGKILL


async def test_the_environment_is_the_given_one_with_the_marker(scene: Scene) -> None:
    await scene.run(scene.command("env", ODD="a\nb=c", EMPTY=""))
    marker, *others = sorted(scene.output.splitlines())
    assert re.fullmatch(rf"{marker_prefix(scene.marker)}\d+=1", marker)
    assert others == ["EMPTY=", "ODD=a", f"PATH={os.environ['PATH']}", "b=c"]


async def test_the_marker_survives_a_shell_that_drops_odd_names(scene: Scene) -> None:
    """`dash` does not pass on names with a dash, which a UUID has."""
    await scene.run(scene.shell("sh -c env"))
    assert marker_prefix(scene.marker) in scene.output


async def test_signal_dispositions_are_the_default(scene: Scene) -> None:
    """Nothing is blocked or ignored: neither SIGPIPE, which Python ignores, nor a signal that cuggino ignored."""
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
    assert scene.output == "['0', '1', '2', '3']\n"  # 3 is that of the listing


async def test_a_child_leads_a_session_of_its_own(scene: Scene) -> None:
    """Neither the child nor its keeper is in our session, which gets Ctrl+C and hangups."""
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


# ---- commands that cannot be executed ------------------------------------------------------------


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
async def test_an_unusable_working_directory_is_named(scene: Scene, name: str, error: type[OSError]) -> None:
    (scene.folder / "plain-file").write_text("")
    cwd = scene.folder / name
    with pytest.raises(error, match="the working directory") as raised:
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


async def test_invalid_arguments_and_environments_are_refused(scene: Scene) -> None:
    with pytest.raises(ValueError, match="NUL"):
        await scene.run(scene.command("echo", "a\0b"))
    with pytest.raises(ValueError, match="'='"):
        await scene.run(Command(argv=("env",), cwd=scene.folder, environment={"A=B": "c"}, stdout=scene.out))


# ---- leftovers of a child ------------------------------------------------------------------------

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
async def test_what_a_child_leaves_running_is_gone_with_it(scene: Scene, escape: str) -> None:
    with trio.fail_after(5):
        async with scene.children().start(scene.shell(ESCAPES[escape] + WRITTEN_DOWN + "exit 4")) as child:
            assert await child.wait() == 4
            await child.gone.wait()
            assert scene.pids
            assert scene.alive() == []


@pytest.mark.parametrize("escape", ESCAPES)
async def test_cancellation_kills_everything_that_the_child_started(scene: Scene, escape: str) -> None:
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
async def test_a_chain_of_forks_is_killed(scene: Scene, how: str, environment: str) -> None:
    """Each link forks the next one and exits, so a link that is seen is already dead. A heartbeat shows it is alive."""
    program, beat = scene.folder / "chain.py", scene.folder / "beat"
    program.write_text(CHAIN)
    chain = f"{environment}{sys.executable} -I -S {program} '{how}' & while [ ! -s beat ]; do sleep 0.01; done"
    assert await scene.run(scene.shell(chain)) == 0
    last = beat.read_text()
    await trio.sleep(0.1)
    assert beat.read_text() == last


async def test_a_keeper_under_a_keeper_is_killed_too(scene: Scene) -> None:
    """An agent may run cuggino itself, whose agents are then in our tree, even with an emptied environment."""
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


async def test_two_children_do_not_affect_each_other(scene: Scene) -> None:
    """Even with the same marker, and if two `Children` started them."""
    with trio.fail_after(10):
        async with scene.children().start(scene.shell("setsid ./lasting & exec sleep 1000")) as staying:
            await until(lambda: scene.pids)
            for _ in range(3):
                async with scene.children().start(scene.shell("setsid sleep 1000 & exit 0")) as leaving:
                    await leaving.gone.wait()
            assert start_time(staying.pid)
            assert start_time(scene.pids[0])
            assert not staying.gone.is_set()


# ---- stopping ------------------------------------------------------------------------------------


async def test_a_child_that_obeys_has_time_for_its_last_output(scene: Scene) -> None:
    script = "trap 'sleep 0.1; echo flushed; exit 7' INT; echo ready; while :; do sleep 0.01; done"
    with trio.fail_after(4):
        async with scene.children().start(scene.shell(script)) as child:
            await until(lambda: "ready" in scene.output)
    assert scene.output == "ready\nflushed\n"
    assert await child.wait() == 7


IGNORES = "trap '' INT TERM HUP; echo ready; while :; do sleep 1000; done"


async def test_a_child_that_ignores_signals_is_killed_after_the_grace(scene: Scene) -> None:
    with trio.fail_after(4):
        async with scene.children(grace=0.3).start(scene.shell(IGNORES)) as child:
            await until(lambda: "ready" in scene.output)
            started = time.monotonic()
    assert 0.3 <= time.monotonic() - started < 2
    assert await child.wait() == -signal.SIGKILL


async def test_force_kill_cuts_the_grace_short(scene: Scene) -> None:
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


async def test_with_force_kill_set_there_is_no_grace(scene: Scene) -> None:
    force_kill = trio.Event()
    force_kill.set()
    with trio.fail_after(4):
        async with scene.children(force_kill=force_kill, grace=60).start(scene.shell(IGNORES)):
            await until(lambda: "ready" in scene.output)


async def test_an_interrupt_is_sent_once(scene: Scene) -> None:
    script = "n=0; trap 'n=$((n + 1)); echo $n' INT; echo ready; while :; do sleep 0.02; done"
    with trio.fail_after(4):
        async with scene.children(grace=0.1).start(scene.shell(script)) as child:
            await until(lambda: "ready" in scene.output)
            child.interrupt()
            child.interrupt()
            await until(lambda: "1" in scene.output)
            child.interrupt()
    assert scene.output == "ready\n1\n"


async def test_an_interrupt_after_the_end_is_not_sent(scene: Scene) -> None:
    async with scene.children().start(scene.command("true")) as child:
        await child.wait()
    read_end, write_end = os.pipe()  # they may get the descriptors of the keeper's pipes
    os.set_blocking(read_end, False)
    child.interrupt()
    with pytest.raises(BlockingIOError):
        os.read(read_end, 1)
    os.close(read_end)
    os.close(write_end)


async def test_an_exception_in_the_block_is_not_wrapped(scene: Scene) -> None:
    with pytest.raises(KeyError):
        async with scene.children(grace=0).start(scene.command("sleep", "1000")):
            raise KeyError
    assert scene.alive() == []


async def test_cancellation_during_the_start_leaves_nothing(scene: Scene) -> None:
    for n in range(15):
        with trio.move_on_after(n * 0.003):
            async with scene.children(grace=0).start(scene.command("sleep", "1000")) as child:
                await child.wait()
        assert scene.alive() == []


# ---- lingering -----------------------------------------------------------------------------------


async def test_lingering_processes_live_until_their_scope_ends_and_get_sigterm(scene: Scene) -> None:
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


async def test_lingering_processes_that_ignore_sigterm_are_killed(scene: Scene) -> None:
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


async def test_a_lingering_command_is_gone_when_its_last_process_exits(scene: Scene) -> None:
    with trio.fail_after(4):
        async with scene.children().start(scene.shell("setsid sleep 0.1 & exit 0", linger=True)) as child:
            assert await child.wait() == 0
            assert not child.gone.is_set()
            await child.gone.wait()


# ---- killed cugginos and keepers -----------------------------------------------------------------

CUGGINO = """
import os, sys, trio
from pathlib import Path
from cuggino.process.children import Children, Command
marker, script = sys.argv[1:]
command = Command(argv=("sh", "-c", script), cwd=Path.cwd(), environment=os.environ, stdout=Path("out"))
trio.run(Children(marker=marker).run, command)
"""


@pytest.mark.parametrize("escape", ESCAPES)
async def test_when_cuggino_is_killed_its_children_are_killed(scene: Scene, escape: str) -> None:
    script = ESCAPES[escape] + WRITTEN_DOWN + "echo $$ >> pids; exec sleep 1000"
    with subprocess.Popen([sys.executable, "-c", CUGGINO, scene.marker, script], cwd=scene.folder) as process:
        with trio.fail_after(10):
            await until(lambda: scene.pids and all(start_time(pid) for pid in scene.pids) and len(scene.pids) > 1)
        process.kill()
        with trio.fail_after(3):
            await until(lambda: not scene.alive())


async def test_a_child_whose_keeper_is_killed_counts_as_killed_with_its_tree(scene: Scene) -> None:
    """A process that emptied its environment is found below those with the marker."""
    script = "setsid ./lasting & sleep 1000 & env -i ./lasting & wait"
    with trio.fail_after(10):
        async with scene.children().start(scene.shell(script)) as child:
            await until(lambda: len(scene.pids) == 2)
            os.kill(keeper_of(child), signal.SIGKILL)
            assert await child.wait() == -signal.SIGKILL
            await child.gone.wait()
            assert scene.alive() == []


async def test_a_keeper_ignores_signals(scene: Scene) -> None:
    with trio.fail_after(4):
        async with scene.children().start(scene.shell("echo ready; sleep 0.2; exit 6")) as child:
            await until(lambda: "ready" in scene.output)
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGTSTP):
                os.kill(keeper_of(child), number)
            assert await child.wait() == 6


async def test_a_stuck_keeper_is_killed_and_its_tree_swept(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeper, "SWEEP_SECONDS", 0.1)
    monkeypatch.setattr("cuggino.process.children._SLACK", 0.1)
    with trio.fail_after(4):
        async with scene.children(grace=0.1).start(scene.shell("setsid ./lasting & ./lasting")) as child:
            await until(lambda: len(scene.pids) == 2)
            os.kill(keeper_of(child), signal.SIGSTOP)
    assert await child.wait() == -signal.SIGKILL
    assert scene.alive() == []


# ---- costs ---------------------------------------------------------------------------------------


async def test_no_file_descriptor_and_no_process_is_leaked(scene: Scene) -> None:
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
    """A keeper that blocks in `poll` has no more context switches."""

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
