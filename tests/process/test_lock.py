"""The lock between processes; the other one is a real process, killed where it matters."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from cuggino.errors import LockedError, StorageError
from cuggino.lock import Owner, lock, read_owner
from cuggino.process.leftovers import start_time
from cuggino.project import Project

HOLDER = """
import subprocess, sys
from pathlib import Path
from cuggino.lock import lock
from cuggino.project import Project
with lock(Project(Path(sys.argv[1])), "cuggino watch", "marker-1"):
    if "--with-a-child" in sys.argv:
        subprocess.Popen(["sleep", "300"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    project = Project(tmp_path)
    project.prepare()
    return project


@contextmanager
def holder(project: Project, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    """Another process that holds the lock until its stdin ends."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(project.root), *options],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"held\n"
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):  # killed in the test, and it left nothing
                os.killpg(process.pid, signal.SIGKILL)


def test_a_held_lock_names_its_owner(project: Project) -> None:
    assert read_owner(project) is None
    with lock(project, "cuggino run", "m") as former:
        assert former is None
        owner = read_owner(project)
        assert owner is not None
        assert owner.lives()
        assert (owner.pid, owner.marker, owner.command) == (os.getpid(), "m", "cuggino run")
        assert abs(datetime.now(UTC) - owner.since).total_seconds() < 60
    assert read_owner(project) is None
    assert project.lock_file.read_bytes() == b""
    with lock(project, "cuggino run", "m") as former:
        assert former is None


def test_a_second_command_is_refused_with_the_name_of_the_first(project: Project) -> None:
    with holder(project) as process:
        with pytest.raises(LockedError) as caught, lock(project, "cuggino run", "m"):
            pass
        owner = read_owner(project)
        assert owner is not None
        assert owner.pid == process.pid
        assert owner.lives()
    assert (
        f"`cuggino watch` (process {process.pid}) has been working in {project.root} since 20" in caught.value.message
    )
    assert f"kill {process.pid}" in caught.value.advice


def test_the_same_process_cannot_hold_it_twice(project: Project) -> None:
    with lock(project, "a", "m"):
        with pytest.raises(LockedError, match=str(os.getpid())), lock(project, "b", "m"):
            pass
        assert read_owner(project) is not None


def test_a_holder_without_a_valid_record_is_not_named(project: Project) -> None:
    with lock(project, "a", "m"):
        for record in (b"", b'{"pid": 1', project.lock_file.read_bytes().replace(b'"pid":', b'"pid":1')):
            project.lock_file.write_bytes(record)
            with pytest.raises(LockedError, match="Another cuggino works in"), lock(project, "b", "m"):
                pass


def test_the_next_command_gets_the_killed_owner(project: Project) -> None:
    with holder(project) as process:
        process.kill()
        process.wait()
        left = read_owner(project)
        assert left is not None
        assert not left.lives()
        with lock(project, "cuggino run", "m") as former:
            assert former == left
            assert (former.pid, former.marker) == (process.pid, "marker-1")
            current = read_owner(project)
            assert current is not None
            assert current.pid == os.getpid()


def test_a_child_that_survives_its_owner_does_not_hold_the_lock(project: Project) -> None:
    with holder(project, "--with-a-child") as process:
        process.kill()
        process.wait()
        with lock(project, "cuggino run", "m") as former:
            assert former is not None


def test_an_error_in_the_block_releases_the_lock_as_well(project: Project) -> None:
    with pytest.raises(KeyboardInterrupt), lock(project, "a", "m"):
        raise KeyboardInterrupt
    assert read_owner(project) is None
    with lock(project, "b", "m") as former:
        assert former is None


@pytest.mark.parametrize("record", [b"", b"{", b"[]", b"{}", b"\xff", b'{"pid": "x"}', b"x" * 100_000])
def test_a_damaged_record_counts_as_none(project: Project, record: bytes) -> None:
    project.lock_file.write_bytes(record)
    assert read_owner(project) is None
    with lock(project, "a", "m") as former:
        assert former is None
        assert read_owner(project) is not None


def test_a_pid_that_was_used_again_is_not_the_owner() -> None:
    started = start_time(os.getpid())
    assert started is not None
    now = datetime.now(UTC)
    assert Owner(pid=os.getpid(), start_time=started, marker="m", command="c", since=now).lives()
    assert not Owner(pid=os.getpid(), start_time=f"{started}0", marker="m", command="c", since=now).lives()


def test_reading_the_owner_neither_writes_nor_needs_the_state_folder(project: Project, tmp_path: Path) -> None:
    with lock(project, "a", "m"):
        before = project.lock_file.stat()
        time.sleep(0)
        read_owner(project)
        after = project.lock_file.stat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)
    assert read_owner(Project(tmp_path / "elsewhere")) is None


def test_a_lock_file_that_cannot_be_created_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="cannot be opened"), lock(Project(tmp_path), "a", "m"):
        pass
