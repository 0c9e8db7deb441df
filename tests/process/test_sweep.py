"""A sweep finds what survived cuggino and its keeper by its marker, and nothing else."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cuggino.process import keeper
from cuggino.process.leftovers import marker_prefix, start_time, sweep

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="other systems have no /proc")


@pytest.fixture
def marker() -> str:
    return str(uuid.uuid4())


@pytest.fixture
def started() -> Iterator[list[subprocess.Popen[bytes]]]:
    processes: list[subprocess.Popen[bytes]] = []
    yield processes
    for process in processes:
        process.kill()
        process.wait()


def marked(marker: str, number: int = 1) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], f"{marker_prefix(marker)}{number}": "1"}


def wait_for(condition: Callable[[], bool], seconds: float = 5) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.002)


CUGGINO = """
import os, sys, trio
from pathlib import Path
from cuggino.process.children import Children, Command
script = "echo $$ >> pids; (setsid ./tool &) ; exec sleep 1000"
command = Command(argv=("sh", "-c", script), cwd=Path.cwd(), environment=os.environ, stdout=Path("out"))
trio.run(Children(marker=sys.argv[1]).run, command)
"""


def test_a_sweep_kills_what_survived_cuggino_and_its_keeper(tmp_path: Path, marker: str) -> None:
    """Also a process that emptied its environment, below one that did not."""
    pids = tmp_path / "pids"
    tool = tmp_path / "tool"
    tool.write_text("#!/bin/sh\necho $$ >> pids; env -i sh -c 'echo $$ >> pids; exec sleep 1000'; exit\n")
    tool.chmod(0o755)
    with subprocess.Popen([sys.executable, "-c", CUGGINO, marker], cwd=tmp_path) as cuggino:
        wait_for(lambda: pids.exists() and len(pids.read_text().split()) == 3)
        agent, *tools = map(int, pids.read_text().split())
        found = keeper.read_entry(agent)
        assert found is not None
        cuggino.send_signal(signal.SIGSTOP)  # otherwise it would notice and sweep by itself
        os.kill(found.parent, signal.SIGKILL)
        cuggino.kill()
    assert all(map(start_time, [agent, *tools]))
    assert sweep(marker) == 3
    assert not any(map(start_time, [agent, *tools]))
    assert sweep(marker) == 0


def test_only_its_own_marker_counts(marker: str, started: list[subprocess.Popen[bytes]]) -> None:
    other = str(uuid.uuid4())
    value_only = {"X": f"{marker_prefix(marker)}1=1"}
    environments: list[dict[str, str]] = [marked(marker, 1), marked(marker, 12), marked(other), value_only]
    started += [subprocess.Popen(["/bin/sleep", "1000"], env=environment) for environment in environments]
    assert sweep(marker) == 2
    started[0].wait(1)
    started[1].wait(1)
    assert [process.poll() for process in started] == [-9, -9, None, None]


def test_it_spares_itself_and_its_ancestors(marker: str) -> None:
    """cuggino may be started inside the process tree of a dead one."""
    program = f"import subprocess; from cuggino.process.leftovers import sweep; print(sweep({marker!r}))"
    ended = subprocess.run(
        ["sh", "-c", 'sleep 1000 & "$0" -c "$1"; echo still here', sys.executable, program],
        env=marked(marker),
        capture_output=True,
        text=True,
        timeout=10,
        check=True,
    )
    assert ended.stdout == "1\nstill here\n"


def test_a_sweep_that_finds_nothing_is_quick(marker: str) -> None:
    before = time.monotonic()
    assert sweep(marker) == 0
    assert time.monotonic() - before < 1


@pytest.mark.parametrize("bad", ["", "a b", "a=b", "ü", "a\n"])
def test_an_invalid_marker_is_refused(bad: str) -> None:
    with pytest.raises(ValueError, match="marker"):
        sweep(bad)


def test_a_start_time_is_unique_to_a_process(started: list[subprocess.Popen[bytes]]) -> None:
    ours = start_time(os.getpid())
    assert ours == start_time(os.getpid())
    time.sleep(0.02)  # start times are counted in hundredths of a second
    started += [subprocess.Popen(["sleep", "1000"])]
    assert start_time(started[0].pid) not in (None, ours)


def test_an_exited_process_has_no_start_time_even_before_it_is_reaped() -> None:
    process = subprocess.Popen(["true"])
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert start_time(process.pid) is None
    process.wait()
    assert start_time(process.pid) is None


def test_a_process_name_may_have_parentheses_and_spaces(tmp_path: Path, started: list[subprocess.Popen[bytes]]) -> None:
    odd = tmp_path / ") R 1 (x"
    odd.symlink_to("/bin/sleep")
    started += [subprocess.Popen([odd, "1000"])]
    found = keeper.read_entry(started[0].pid)
    assert found is not None
    assert found.parent == os.getpid()
    assert found.group == os.getpgid(0)
    assert start_time(started[0].pid)


IN_A_GROUP_WITHOUT_LEADER = """
import os, subprocess, sys, time
from cuggino.process.leftovers import sweep
os.setpgid(0, 0)
leader = os.getpid()
if os.fork():
    os._exit(0)
while os.path.exists(f"/proc/{leader}"):
    time.sleep(0.01)
bystander = subprocess.Popen(["/bin/sleep", "1000"], env={})
try:
    marked = subprocess.Popen(["/bin/sleep", "1000"], env={sys.argv[2]: "1"})
    print(sweep(sys.argv[1]), marked.wait(), bystander.poll(), flush=True)
finally:
    bystander.kill()
    bystander.wait()
"""


def test_the_group_of_the_sweeper_is_not_killed_as_a_group(marker: str, tmp_path: Path) -> None:
    """Even without its leader: only the marked process is killed."""
    out = tmp_path / "out"
    command = [sys.executable, "-c", IN_A_GROUP_WITHOUT_LEADER, marker, f"{marker_prefix(marker)}1"]
    with out.open("wb") as file:
        subprocess.run(command, check=True, timeout=10, stdout=file)
    wait_for(lambda: out.read_text() == "1 -9 None\n")


def test_a_group_whose_leader_is_gone_is_killed_as_a_whole(marker: str, tmp_path: Path) -> None:
    """Even its members without the marker: they are a chain of forks, caught at one link."""
    script = "env -i sh -c 'echo $$ >> pids; exec sleep 1000' & sleep 1000 & echo $! >> pids"
    subprocess.run(["setsid", "sh", "-c", script], env=marked(marker), cwd=tmp_path, check=True, timeout=10)
    pids = tmp_path / "pids"
    wait_for(lambda: len(pids.read_text().split()) == 2)
    both = [int(pid) for pid in pids.read_text().split()]
    assert sweep(marker) == 1
    wait_for(lambda: not any(map(start_time, both)))
